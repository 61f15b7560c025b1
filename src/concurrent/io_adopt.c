/* SPDX-License-Identifier: Apache-2.0 */
/* I/O arena: storage that comes from elsewhere, from outside of the library or from an execution arena. */
#include "concurrent/exec.h"
#include "concurrent/io.h"

#include "core/misuse.h"

/* Its content is its own: nothing but the site is of interest. */
static void note_site(const struct hearth_io *arena, const struct hearth_buf *buf)
{
    if ((hearth__debug_flags(arena->debug) & HEARTH__DEBUG_SITES) != 0)
        hearth__site_record(buf);
}

enum hearth_status hearth_io_adopt(struct hearth_io *arena, void *data, size_t size,
                                   void (*release)(void *data, size_t size, void *context),
                                   void *context, struct hearth_lease *lease)
{
    static const char call[] = "hearth_io_adopt";
    if (arena == NULL || lease == NULL || release == NULL || (data == NULL && size != 0))
        return hearth__io_misuse(arena, HEARTH_INVALID, call, data);
    if (size > HEARTH__HELD_MAX)
        return HEARTH_OVERFLOW;
    struct hearth__io_access access;
    struct hearth_buf *buf;
    hearth__io_enter(arena, &access);
    enum hearth_status status =
        access.closed ? HEARTH_CLOSED : hearth__io_slot_force(&access, &buf);
    if (status == HEARTH_OK && access.closed) {
        hearth__io_slot_put(arena, buf);
        hearth__io_slot_unuse(arena);
        status = HEARTH_CLOSED;
    }
    if (status == HEARTH_OK) {
        buf->release = release;
        buf->storage = (struct hearth__storage){data, size, (uint64_t)(uintptr_t)context};
        buf->offset = 0;
        buf->size_class = 0;
        buf->alignment_log = 0;
        buf->flags = HEARTH__BUF_ADOPTED;
        hearth__store_relaxed(&buf->data, data);
        hearth__store_relaxed(&buf->size, size);
        hearth__store_relaxed(&buf->weight, hearth__weight_of(1, 0));
        uint64_t generation = hearth__word_generation(hearth__load_relaxed(&buf->state));
        hearth__store_relaxed(&buf->state, hearth__word_leased(generation));
        HEARTH__IO_COUNT(&access, obtained_count, 1);
        HEARTH__IO_COUNT(&access, adopted_bytes, size);
        HEARTH__IO_COUNT(&access, lease_out_weight, hearth__weight_of(1, 0));
        HEARTH__IO_COUNT(&access, lease_out_size, size);
        hearth__io_count_up(&access, size);
        *lease = (struct hearth_lease){buf, generation};
    }
    hearth__io_leave(&access);
    if (status == HEARTH_OK)
        note_site(arena, buf);
    return status;
}

bool hearth_io_can_take(const struct hearth_io *arena, const struct hearth_exec *from)
{
    return arena != NULL && from != NULL && arena->backing == from->backing;
}

/* Inside: the storage that was an execution buffer's becomes a live buffer of this arena. */
static void settle(struct hearth__io_access *access, struct hearth_buf *slot, size_t size)
{
    hearth__weight weight = hearth__load_relaxed(&slot->weight);
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&slot->state));
    slot->flags = 0;
    hearth__store_relaxed(&slot->size, size);
    hearth__store_relaxed(&slot->state, hearth__word(generation, HEARTH__LIVE));
    HEARTH__IO_COUNT(access, obtained_count, 1);
    HEARTH__IO_COUNT(access, obtained_bytes, hearth__weight_capacity(weight));
    HEARTH__IO_COUNT(access, bare_out_weight, weight);
    HEARTH__IO_COUNT(access, bare_out_size, size);
    hearth__io_count_up(access, size);
}

/* Inside of this arena's section: with a slot of it, ask the other arena for the storage. */
static enum hearth_status take_into(struct hearth__io_access *access, struct hearth_exec *from,
                                    struct hearth_buf *buf, struct hearth_buf *slot)
{
    size_t size;
    size_t capacity = hearth__buf_capacity(buf);
    /* Within one service it is live before and after. */
    bool same = from->budget == access->arena->budget;
    if (!same && !hearth__io_room_take(access, capacity))
        return HEARTH_NO_MEMORY;
    enum hearth_status status = hearth__exec_surrender(from, buf, slot, &size);
    if (status == HEARTH_OK)
        settle(access, slot, size);
    if (!same && status == HEARTH_OK)
        hearth__exec_room_give(from, capacity);
    else if (!same)
        hearth__io_room_give(access->arena, capacity);
    return status;
}

enum hearth_status hearth_io_take(struct hearth_io *arena, struct hearth_buf *buf,
                                  struct hearth_buf **io_buf)
{
    static const char call[] = "hearth_io_take";
    if (arena == NULL || io_buf == NULL)
        return hearth__io_misuse(arena, HEARTH_INVALID, call, buf);
    struct hearth_allocator *owner = hearth_buf_owner(buf);
    if (owner == NULL || owner->ops != &hearth__exec_ops)
        return hearth__io_misuse(arena, HEARTH_FOREIGN, call, buf);
    struct hearth_exec *from = hearth__exec_of(owner);
    uint64_t word = hearth__load_acquire(&buf->state);
    if (hearth__word_state(word) != HEARTH__LIVE)
        return hearth__io_misuse(arena, hearth__buf_not_live(word), call, buf);
    /* Claims an arena without an owner, and reports outside of this arena's section. */
    enum hearth_status status = hearth__exec_begin(from, call);
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    if (status != HEARTH_OK)
        return status;
    hearth__exec_end(from, &after);
    if (!hearth_io_can_take(arena, from))
        return hearth__io_misuse(arena, HEARTH_INVALID, call, buf);
    struct hearth__io_access access;
    struct hearth_buf *slot = NULL;
    hearth__io_enter(arena, &access);
    if (!access.closed && buf->alignment_log > HEARTH__ALIGNMENT_LOG_MIN)
        status = hearth__io_prepare_aligned(&access); /* where it will come home to */
    if (access.closed)
        status = HEARTH_CLOSED;
    else if (status == HEARTH_OK)
        status = hearth__io_slot_force(&access, &slot);
    if (status == HEARTH_OK) {
        status = access.closed ? HEARTH_CLOSED : take_into(&access, from, buf, slot);
        if (status != HEARTH_OK) {
            hearth__io_slot_put(arena, slot);
            hearth__io_slot_unuse(arena);
        }
    }
    hearth__io_leave(&access);
    if (status == HEARTH_STALE)
        return hearth__io_misuse(arena, status, call, buf);
    if (status == HEARTH_OK) {
        note_site(arena, slot);
        *io_buf = slot;
    }
    return status;
}
