/* SPDX-License-Identifier: Apache-2.0 */
/* Execution arena: handing out by the general path, for whatever the plain one in exec.c does not cover. */
#include "concurrent/exec_plan.h"
#include "concurrent/exec_spans.h"
#include "concurrent/service.h"

#include "core/debug.h"
#include "core/request.h"
#include "core/zero.h"

/* Inside the section: obtain with a drain before it, so that what other threads returned is reused. */
static enum hearth_status drain_and_obtain(struct hearth_exec *arena,
                                           const struct hearth__want *want,
                                           struct hearth__exec_after *after,
                                           struct hearth_buf **buf)
{
    (void)hearth__exec_drain(arena, HEARTH__EXEC_DRAIN_STEP, after);
    arena->run.requesting = true;
    *buf = arena->with_plans ? hearth__exec_run_take(arena, want, after) : NULL;
    if (*buf != NULL)
        return HEARTH_OK;
    *buf = hearth__exec_store_take(arena, want);
    if (*buf != NULL)
        return HEARTH_OK;
    if (hearth__exec_drain(arena, SIZE_MAX, after)) {
        *buf = hearth__exec_store_take(arena, want);
        if (*buf != NULL)
            return HEARTH_OK;
    }
    return hearth__exec_obtain(arena, want, buf);
}

/* Inside the section: obtain within the limit on live bytes, of which `want` has its part. It counts capacity, and
 * a reused buffer may have more than was reserved for it. One with too much goes back where it was. */
static enum hearth_status obtain_within(struct hearth_exec *arena, const struct hearth__want *want,
                                        struct hearth__exec_after *after, struct hearth_buf **buf)
{
    enum hearth_status status = drain_and_obtain(arena, want, after, buf);
    struct hearth__want exact = *want;
    exact.last_class = exact.size_class;
    if (status == HEARTH_OK && hearth__buf_capacity(*buf) < want->bytes) {
        /* A place is rounded less. */
        after->room += want->bytes - hearth__buf_capacity(*buf);
        return HEARTH_OK;
    }
    for (unsigned i = 0; status == HEARTH_OK; i++) {
        if (hearth__exec_room_take(arena, hearth__buf_capacity(*buf) - want->bytes))
            return HEARTH_OK;
        if (!hearth__is_place(*buf))
            hearth__exec_store_give(arena, *buf, false);
        *buf = NULL;
        status = i == 0 ? hearth__exec_obtain(arena, &exact, buf) : HEARTH_NO_MEMORY;
    }
    return status;
}

/* Looks for the end of a visit before fresh storage is taken. */
#define PATIENCE 64u

/* One attempt. */
static enum hearth_status alloc_once(struct hearth_exec *arena, const struct hearth__want *want,
                                     size_t size, const char *call, bool spare, bool *known_zero,
                                     uint32_t *met, struct hearth_buf **buf)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    enum hearth_status status = hearth__exec_begin(arena, call);
    *met = 0;
    if (status != HEARTH_OK)
        return status;
    if (hearth__exec_closed(arena)) {
        status = HEARTH_CLOSED;
    } else if (arena->visited && !spare) {
        status = HEARTH_NO_MEMORY; /* another try, after a moment */
    } else if (arena->visited) {
        status = hearth__exec_obtain_spare(arena, want, buf);
        /* More than was asked for. */
        if (status == HEARTH_OK &&
            !hearth__exec_room_take(arena, hearth__buf_capacity(*buf) - want->bytes)) {
            hearth__exec_empty(arena, *buf);
            hearth__slots_put(&arena->spare, *buf);
            status = HEARTH_NO_MEMORY;
        }
    } else {
        if (want->alignment_log > HEARTH__ALIGNMENT_LOG_MIN)
            status = hearth__exec_prepare_aligned(arena);
        if (status == HEARTH_OK)
            status = obtain_within(arena, want, &after, buf);
    }
    if (status == HEARTH_OK) {
        /* Set by a fresh attachment only: what comes from the store was handed out before. */
        *known_zero = ((*buf)->flags & HEARTH__BUF_ZERO) != 0;
        (*buf)->flags = 0;
        if (arena->with_plans && !arena->visited)
            hearth__exec_run_note(arena, *buf, size);
        hearth__exec_hand_out(arena, *buf, size);
    }
    *met = hearth__exec_met(arena, &after);
    hearth__exec_end(arena, &after);
    return status;
}

enum hearth_status hearth__exec_alloc_general(struct hearth_exec *arena, size_t size,
                                              unsigned alignment_log, uint32_t zero,
                                              const char *call, struct hearth_buf **out)
{
    if (arena == NULL || out == NULL)
        return hearth__exec_misuse(arena, HEARTH_INVALID, call, NULL);
    struct hearth__want want;
    if (!hearth__rounding_want(&arena->rounding, size, alignment_log, &want))
        return HEARTH_OVERFLOW;
    hearth__exec_want_exact(arena, size, &want);
    struct hearth_buf *buf = NULL;
    bool known_zero = false;
    uint32_t met;
    if (arena->service != NULL)
        hearth__service_note_reclaimed(arena->service, 0);
    if (!hearth__exec_room_take(arena, want.bytes))
        return hearth__exec_refused(arena, &want, true);
    enum hearth_status status;
    unsigned tries = 0;
    do {
        status = alloc_once(arena, &want, size, call, tries >= PATIENCE, &known_zero, &met, &buf);
    } while (hearth__exec_try_again(met, status, &tries));
    if ((met & HEARTH__MET_MORE) != 0 && (status == HEARTH_NO_SLOT || status == HEARTH_NO_MEMORY))
        status = alloc_once(arena, &want, size, call, true, &known_zero, &met, &buf);
    if (status != HEARTH_OK) {
        hearth__exec_room_undo(arena, want.bytes);
        return status == HEARTH_NO_MEMORY ? hearth__exec_refused(arena, &want, false) : status;
    }
    hearth__debug_taken(hearth__debug_flags(arena->debug), buf, size, zero != HEARTH_ZERO_NONE);
    hearth__zero(arena->backing, hearth__load_relaxed(&buf->data), size, zero, known_zero);
    *out = buf;
    return HEARTH_OK;
}

enum hearth_status hearth__exec_alloc_request(struct hearth_exec *arena,
                                              const struct hearth_request *request,
                                              const char *call, struct hearth_buf **buf)
{
    unsigned alignment_log;
    if (!hearth__request_alignment(request, &alignment_log))
        return hearth__exec_misuse(arena, HEARTH_INVALID, call, request);
    return hearth__exec_alloc_general(arena, request->size, alignment_log, request->zero, call,
                                      buf);
}

enum hearth_status hearth_exec_alloc_ex(struct hearth_exec *arena,
                                        const struct hearth_request *request,
                                        struct hearth_buf **buf)
{
    return hearth__exec_alloc_request(arena, request, "hearth_exec_alloc_ex", buf);
}
