/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: large blocks in spans, beside the lists. The arena's side of core/spans.h; the decision is in
 * docs/adr/0020-spans.md.
 */
#ifndef HEARTH_CONCURRENT_EXEC_SPANS_H
#define HEARTH_CONCURRENT_EXEC_SPANS_H

#include "concurrent/exec.h"

/* Requests from here on are served by spans, where an arena has them. */
#define HEARTH__SPANS_FROM_BYTES ((size_t)32 << 10)

/* None yet. */
static inline void hearth__exec_spans_init(struct hearth_exec *arena)
{
    arena->spans = NULL;
    arena->span_pieces = 0;
    arena->span_stored = 0;
    arena->front = NULL;
    hearth__store_relaxed(&arena->cold_bytes, 0);
}

/* What a request wants of an arena with spans: no more than it says. */
static inline void hearth__exec_want_exact(const struct hearth_exec *arena, size_t size,
                                           struct hearth__want *want)
{
    if (arena->with_spans && size >= HEARTH__SPANS_FROM_BYTES)
        want->bytes = (size + HEARTH__SPAN_UNIT - 1) & ~(HEARTH__SPAN_UNIT - 1);
}

static inline bool hearth__exec_spans_serve(const struct hearth_exec *arena,
                                            const struct hearth__want *want)
{
    return arena->with_spans && want->bytes >= HEARTH__SPANS_FROM_BYTES && !arena->filling &&
           !arena->fixed;
}

/* Inside, left meanwhile: a span's memory into a slot that has none. As hearth__exec_fill(). */
enum hearth_status hearth__exec_span_fill(struct hearth_exec *arena,
                                          const struct hearth__want *want, struct hearth_buf *slot);

/* Outside, the slot the caller's: give back the pages of its span, which will not be kept. */
void hearth__exec_span_discard(struct hearth_exec *arena, struct hearth_buf *slot);

/* Pages given back between two looks at the section, or beside an owner who comes meanwhile. */
#define HEARTH__PURGE_STEP ((size_t)1 << 20)

/* Inside, left meanwhile, or visiting: pages of the span least recently freed, if that was before `before`, at most so
 * many bytes (a page or more). Adds to *bytes what went. False: there is none. A visitor calls the backing beside the
 * owner, who meets it if it comes. */
bool hearth__exec_spans_purge(struct hearth_exec *arena, uint64_t before, size_t most,
                              bool visiting, size_t *bytes);

/* Inside, left meanwhile: what is warm above the cap and the ceiling goes, least recently freed first. */
void hearth__exec_spans_keep_cap(struct hearth_exec *arena, struct hearth__exec_after *after);

/* Inside: a run ended. Where something stays of it, several segments that are free are obtained as one the next time. */
void hearth__exec_spans_end_run(struct hearth_exec *arena, struct hearth__exec_after *after);

/* Inside, left meanwhile: everything that is free. Returns bytes of segments. */
size_t hearth__exec_spans_trim(struct hearth_exec *arena);

/* Inside or visiting, after the store changed: count pieces, and what waits in it. */
void hearth__exec_count_pieces(struct hearth_exec *arena, bool shared);

/* The owner's plain path, of an arena whose gate has the mark: exec_spans_plain.c. False: nothing changed, and the
 * general path will see. */
bool hearth__exec_spans_alloc(struct hearth_exec *arena, size_t size, struct hearth_buf **out);
bool hearth__exec_spans_free(struct hearth_exec *arena, struct hearth_buf *buf,
                             uint64_t generation);

/* Nobody else is there: all segments, and the store. */
void hearth__exec_spans_end(struct hearth_exec *arena);

#endif
