/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where and when buffers were taken, beside the slots.
 *
 * Problem. An interesting buffer is one that nobody returned, so its site has to be kept for as long as it is
 * out, without a word in the slot for it, and readable by another thread while slots are used again.
 *
 * Picture. chunk[segment id] -> record[slot's place in the segment], made when the first slot of a segment
 * is recorded and kept for good. A record is its taker's to write, who has the slot alone. The generation in
 * it says to which taking it belongs; a buffer's generation moves at each return, so nothing has to be
 * erased.
 *
 * Reading. The writer sets the generation to 0, then the rest, then the new generation, each store a release;
 * the reader loads in the opposite order, each load an acquire. Equal generations before and after enclose
 * words of one record.
 *
 * Progress. Lock-free but for the kernel: no lock that a signal handler could find held.
 */
#include "core/debug.h"

#include "core/clock.h"
#include "core/meta.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* This file's own frames at the top of a backtrace: record, and who told of the taking. */
#define FRAMES_SKIPPED 2

struct record {
    _Atomic(uint64_t) generation;
    _Atomic(uint64_t) serial;
    _Atomic(uint64_t) time_ns;
    _Atomic(void *) frames[HEARTH__SITE_FRAMES];
};

struct chunk {
    struct record records[HEARTH__SLOTS_PER_GRANULE];
};

static _Atomic(struct chunk *) chunks[HEARTH__SEGMENTS_MAX];
static _Atomic(uint64_t) serials;

static struct chunk *chunk_at(uint32_t id)
{
    /* EDGE sites.chunk, observe: its zeroes. */
    return hearth__load_acquire(&chunks[id]);
}

static struct chunk *chunk_make(uint32_t id)
{
    struct chunk *present = chunk_at(id);
    if (present != NULL)
        return present;
    struct chunk *made =
        mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    /* EDGE sites.chunk, publish: its zeroes. */
    if (hearth__cas_acq_rel(&chunks[id], &present, made))
        return made;
    munmap(made, sizeof *made);
    return present;
}

static struct record *record_in(struct chunk *chunk, uint32_t index)
{
    return chunk == NULL ? NULL : &chunk->records[index % HEARTH__SLOTS_PER_GRANULE];
}

uint64_t hearth__site_serial(void)
{
    return hearth__load_relaxed(&serials);
}

void hearth__site_prepare(void)
{
    void *frame;
    (void)backtrace(&frame, 1);
}

__attribute__((noinline)) void hearth__site_record(const struct hearth_buf *buf)
{
    void *frames[HEARTH__SITE_FRAMES + FRAMES_SKIPPED] = {NULL};
    struct record *record =
        record_in(chunk_make(buf->index / HEARTH__SLOTS_PER_GRANULE), buf->index);
    if (record == NULL)
        return;
    (void)backtrace(frames, HEARTH__SITE_FRAMES + FRAMES_SKIPPED);
    hearth__store_relaxed(&record->generation, 0);
    hearth__store_release(&record->serial, hearth__fetch_add_relaxed(&serials, 1) + 1);
    hearth__store_release(&record->time_ns, hearth__now_ns());
    for (size_t i = 0; i < HEARTH__SITE_FRAMES; i++)
        hearth__store_release(&record->frames[i], frames[i + FRAMES_SKIPPED]);
    /* EDGE sites.record, publish: one taking. */
    hearth__store_release(&record->generation,
                          hearth__word_generation(hearth__load_relaxed(&buf->state)));
}

bool hearth__site_find(uint32_t index, uint64_t generation, struct hearth__site *site)
{
    struct record *record = record_in(chunk_at(index / HEARTH__SLOTS_PER_GRANULE), index);
    /* EDGE sites.record, observe: the taking of this generation, unless the second look finds another. */
    if (record == NULL || hearth__load_acquire(&record->generation) != generation)
        return false;
    for (size_t i = HEARTH__SITE_FRAMES; i > 0; i--)
        site->frames[i - 1] = hearth__load_acquire(&record->frames[i - 1]);
    site->time_ns = hearth__load_acquire(&record->time_ns);
    site->serial = hearth__load_acquire(&record->serial);
    return hearth__load_relaxed(&record->generation) == generation;
}

/* object(function+0x12), or object(+0x1234), which is what addr2line asks for. */
static int print_frame(void *frame, char *text, size_t bytes)
{
    Dl_info info;
    char *at = frame;
    if (dladdr(frame, &info) == 0 || info.dli_fname == NULL)
        return snprintf(text, bytes, "%p", frame);
    const char *slash = strrchr(info.dli_fname, '/');
    const char *object = slash == NULL ? info.dli_fname : slash + 1;
    if (info.dli_sname == NULL)
        return snprintf(text, bytes, "%s(+0x%zx)", object, (size_t)(at - (char *)info.dli_fbase));
    return snprintf(text, bytes, "%s(%s+0x%zx)", object, info.dli_sname,
                    (size_t)(at - (char *)info.dli_saddr));
}

void hearth__site_text(const struct hearth__site *site, const char *separator, char *text,
                       size_t bytes)
{
    size_t used = 0;
    if (bytes == 0)
        return;
    text[0] = '\0';
    for (size_t i = 0; i < HEARTH__SITE_FRAMES && site->frames[i] != NULL; i++) {
        char frame[256];
        (void)print_frame(site->frames[i], frame, sizeof frame);
        int length = snprintf(text + used, bytes - used, "%s%s", i == 0 ? "" : separator, frame);
        if (length < 0 || (size_t)length >= bytes - used)
            return;
        used += (size_t)length;
    }
}
