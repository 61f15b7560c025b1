/* SPDX-License-Identifier: Apache-2.0 */
#include "core/release.h"

#include "core/backing.h"
#include "core/clock.h"

#include <string.h>

void hearth__releases_init(struct hearth__releases *releases)
{
    memset(releases, 0, sizeof *releases);
}

/* One writer. */
static void hold(struct hearth__releases *releases, size_t bytes)
{
    hearth__store_relaxed(&releases->held_bytes,
                          hearth__load_relaxed(&releases->held_bytes) + bytes);
}

bool hearth__releases_add(struct hearth__releases *releases, struct hearth_backing *backing,
                          const struct hearth_segment *segment)
{
    if (releases->count == HEARTH__RELEASES_MOST)
        return false;
    uint32_t last = (releases->first + releases->count) % HEARTH__RELEASES_MOST;
    releases->waiting[last] = (struct hearth__release){
        .backing = backing,
        .segment = *segment,
        /* A small one is released in one go. */
        .discarded = segment->length < HEARTH__RELEASE_CHUNK_BYTES ? segment->length : 0,
    };
    releases->count++;
    hold(releases, segment->length);
    return true;
}

static void discard_chunk(struct hearth__releases *releases, struct hearth__release *release)
{
    size_t left = release->segment.length - release->discarded;
    size_t bytes = left < HEARTH__RELEASE_CHUNK_BYTES ? left : HEARTH__RELEASE_CHUNK_BYTES;
    char *base = (char *)release->segment.base + release->discarded;
    size_t given_back = hearth__backing_discard(release->backing, base, bytes);
    releases->discarded_bytes += given_back;
    /* A backing that gives nothing back would not do so for the rest either. */
    release->discarded += given_back != 0 ? bytes : left;
}

static void release_first(struct hearth__releases *releases)
{
    struct hearth__release *release = &releases->waiting[releases->first];
    struct hearth_backing *backing = release->backing;
    struct hearth_segment segment = release->segment;
    /* Off the list first: the process may be copied in between, and must not release it twice. */
    releases->first = (releases->first + 1) % HEARTH__RELEASES_MOST;
    releases->count--;
    hold(releases, -segment.length);
    hearth__backing_release(backing, &segment);
    releases->released_bytes += segment.length;
}

bool hearth__releases_run(struct hearth__releases *releases, uint64_t deadline_ns)
{
    while (releases->count != 0) {
        struct hearth__release *release = &releases->waiting[releases->first];
        if (deadline_ns != 0 && release->discarded < release->segment.length)
            discard_chunk(releases, release);
        else
            release_first(releases);
        if (deadline_ns != 0 && hearth__now_ns() >= deadline_ns)
            break;
    }
    return releases->count == 0;
}
