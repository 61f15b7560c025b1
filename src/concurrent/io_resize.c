/* SPDX-License-Identifier: Apache-2.0 */
/* I/O arena: changing a live buffer's size. Within the capacity nothing moves; beyond it the slot exchanges
 * its storage with one that has enough, and keeps its address and generation. While that goes on its word is
 * RETURNING, so that a wrong call of another thread is answered and changes nothing. */
#include "concurrent/io.h"
#include "concurrent/service.h"

#include "core/conf.h"
#include "core/misuse.h"

#include <string.h>

#define CALL "hearth_buf_resize"

static void count_size(struct hearth__io_access *access, struct hearth_buf *buf, size_t size)
{
    size_t old = hearth__load_relaxed(&buf->size);
    if (hearth__unlikely(size < old && (access->arena->debug & HEARTH__DEBUG_SCRUB) != 0))
        memset((char *)hearth__load_relaxed(&buf->data) + size, 0, old - size);
    if (size >= old) {
        HEARTH__IO_COUNT(access, bare_out_size, size - old);
        hearth__io_count_up(access, size - old);
    } else {
        HEARTH__IO_COUNT(access, bare_in_size, old - size);
        hearth__io_count_down(access, old - size);
    }
    hearth__store_relaxed(&buf->size, size);
}

/* Inside: `spare` has the storage that `buf` shall get, and gets the old one. */
static void exchange(struct hearth__io_access *access, struct hearth_buf *buf,
                     struct hearth_buf *spare, size_t size, bool keep)
{
    size_t old = hearth__load_relaxed(&buf->size);
    hearth__debug_moved(access->arena->debug, spare);
    if (keep)
        memcpy(hearth__load_relaxed(&spare->data), hearth__load_relaxed(&buf->data),
               old < size ? old : size);
    HEARTH__IO_COUNT(access, bare_out_weight, hearth__load_relaxed(&spare->weight));
    HEARTH__IO_COUNT(access, bare_in_weight, hearth__load_relaxed(&buf->weight));
    if ((access->arena->debug & HEARTH__DEBUG_SCRUB) != 0)
        memset(hearth__load_relaxed(&buf->data), 0, old);
    hearth__buf_swap_storage(buf, spare);
    buf->flags = 0;
    count_size(access, buf, size);
}

/* Inside, left meanwhile: slots ran out, so the new storage comes without one. */
static enum hearth_status move_to_fresh(struct hearth__io_access *access,
                                        const struct hearth__want *want, struct hearth_buf *buf,
                                        size_t size, bool keep)
{
    struct hearth_buf stand_in = {.index = buf->index};
    size_t released = hearth__buf_capacity(buf);
    if (!hearth__io_room_take(access, want->bytes))
        return HEARTH_NO_MEMORY;
    enum hearth_status status = hearth__io_fill(access, want, &stand_in);
    if (status == HEARTH_OK &&
        !hearth__io_room_more(access, hearth__buf_capacity(&stand_in) - want->bytes)) {
        hearth__io_empty(access, &stand_in, false);
        status = HEARTH_NO_MEMORY;
    }
    if (status != HEARTH_OK) {
        hearth__io_room_undo(access->arena, want->bytes);
        return status;
    }
    exchange(access, buf, &stand_in, size, keep);
    hearth__io_empty(access, &stand_in, false);
    hearth__io_room_give(access->arena, released);
    return HEARTH_OK;
}

static enum hearth_status move(struct hearth_io *arena, struct hearth_buf *buf, size_t size,
                               bool keep)
{
    struct hearth__want want;
    struct hearth__io_access access;
    struct hearth_buf *spare;
    if (!hearth__rounding_want(&arena->rounding, size, buf->alignment_log, &want))
        return HEARTH_OVERFLOW;
    if (want.bytes > HEARTH__HELD_MAX)
        return HEARTH_NO_MEMORY;
    uint64_t returning = (uint64_t)HEARTH__RETURNING << HEARTH__COUNT_BITS;
    hearth__io_enter(arena, &access);
    enum hearth_status status =
        access.closed ? HEARTH_CLOSED : hearth__io_obtain(&access, &want, returning, &spare);
    if (status == HEARTH_OK) {
        size_t released = hearth__buf_capacity(buf);
        exchange(&access, buf, spare, size, keep);
        hearth__io_keep(&access, spare);
        hearth__io_room_give(arena, released);
    } else if (status == HEARTH_NO_SLOT) {
        status = move_to_fresh(&access, &want, buf, size, keep);
    }
    hearth__io_leave(&access);
    if (status == HEARTH_NO_MEMORY && arena->service != NULL)
        hearth__service_refused(arena->service, want.bytes, HEARTH_PRIORITY_NORMAL,
                                access.backing_refused ? HEARTH__REFUSED_BY_BACKING : 0);
    return status;
}

enum hearth_status hearth__io_resize(struct hearth_allocator *self, struct hearth_buf *buf,
                                     size_t size, bool keep)
{
    struct hearth_io *arena = hearth__io_of(self);
    if (!hearth__slot_in(buf, self))
        return hearth__io_misuse(arena, HEARTH_FOREIGN, CALL, buf);
    uint64_t word = hearth__load_acquire(&buf->state);
    uint64_t generation = hearth__word_generation(word);
    if (hearth__word_state(word) != HEARTH__LIVE ||
        !hearth__cas_acq_rel(&buf->state, &word, hearth__word(generation, HEARTH__RETURNING)))
        return hearth__io_misuse(arena, hearth__buf_not_live(word), CALL, buf);
    enum hearth_status status = HEARTH_OK;
    if (size <= hearth__buf_capacity(buf)) {
        struct hearth__io_access access;
        hearth__io_enter(arena, &access);
        count_size(&access, buf, size);
        hearth__io_leave(&access);
    } else {
        status = move(arena, buf, size, keep);
    }
    hearth__store_release(&buf->state, hearth__word(generation, HEARTH__LIVE));
    return status;
}
