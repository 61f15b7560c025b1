/* SPDX-License-Identifier: Apache-2.0 */
#include "core/quarantine.h"

#include "core/debug.h"
#include "core/misuse.h"

#include <stdio.h>

#define DETAIL_BYTES 1536

void hearth__quarantine_push(struct hearth__quarantine *quarantine, struct hearth_buf *buf)
{
    buf->next = NULL;
    if (quarantine->oldest == NULL)
        quarantine->oldest = buf;
    else
        quarantine->newest->next = buf;
    quarantine->newest = buf;
    quarantine->count++;
    quarantine->bytes += hearth__buf_capacity(buf);
}

static void note(const struct hearth_buf *buf, size_t at, struct hearth__overwritten *overwritten)
{
    if (overwritten->buf != NULL) {
        overwritten->more++;
        return;
    }
    overwritten->buf = buf;
    overwritten->generation = hearth__word_generation(hearth__load_relaxed(&buf->state)) - 1;
    overwritten->at = at;
}

struct hearth_buf *hearth__quarantine_pop(struct hearth__quarantine *quarantine,
                                          struct hearth__overwritten *overwritten)
{
    struct hearth_buf *buf = quarantine->oldest;
    size_t at;
    if (buf == NULL)
        return NULL;
    quarantine->oldest = buf->next;
    quarantine->count--;
    quarantine->bytes -= hearth__buf_capacity(buf);
    if (!hearth__debug_intact(buf, &at))
        note(buf, at, overwritten);
    return buf;
}

size_t hearth__quarantine_report(const struct hearth__overwritten *overwritten, const char *call,
                                 const struct hearth_allocator *arena)
{
    char detail[DETAIL_BYTES];
    char site_text[DETAIL_BYTES / 2] = "unknown; debug:sites tells";
    struct hearth__site site;
    const struct hearth_buf *buf = overwritten->buf;
    if (buf == NULL)
        return 0;
    if (hearth__site_find(buf->index, overwritten->generation, &site))
        hearth__site_text(&site, " < ", site_text, sizeof site_text);
    snprintf(
        detail, sizeof detail,
        "written after it was returned, at byte %zu and perhaps others; look for a pointer kept "
        "too long; %zu more such buffers; taken at: %s",
        overwritten->at, overwritten->more, site_text);
    (void)hearth__misuse_detail(HEARTH_STALE, call, arena, buf, detail);
    return 1 + overwritten->more;
}
