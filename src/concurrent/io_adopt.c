/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: storage that comes from elsewhere, from outside of the library or from an execution arena.
 *
 * Problem. A runtime takes the same outputs in each run. What it takes the execution arena has to obtain anew for the
 * next run; what comes home from the reader the I/O arena keeps, where nobody asks for it, since the next output
 * comes by a take, too. One output more in each run, until ageing.
 *
 * Picture. A take is an exchange where it can be: the two slots change their storage, and stay where they are.
 *
 *                  execution arena                      I/O arena
 *     before       buf: live, A                         slot: free, B
 *     after        buf: free, B, the newest             slot: live, A
 *     (without     buf: unused                          an unused slot: live, A)
 *
 * B is of A's class and alignment, of the same backing, and free: in the thread's magazine or a shared list. The
 * slot is claimed as by any pop, so an evictor that saw it free finds its word changed; it is in nobody's list until
 * the exchange is done, or it goes back with the stamp it had. The buffer's slot moves to its next generation as
 * in a return.
 *
 * Whether the execution arena wants B is asked before B is looked for, and again in the section in which it is
 * exchanged: not beside a visitor, not beyond the cap, not after the close of its service. Nothing is evicted for B.
 *
 * Accounts. Either arena counts one storage given and one obtained. A leaves the one's live figures for the
 * other's; B the one's retained figures for the other's. Under a ceiling B's credit goes along, as much as the
 * execution arena is not charged for already, past the budget: given back and charged again it might be somebody
 * else's in between.
 *
 * Progress. Lock-free. A signal handler that interrupts a take finds either slot in nobody's reach.
 */
#include "concurrent/exec.h"
#include "concurrent/exec_plan.h"
#include "concurrent/io.h"

#include "core/perturb.h"

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

/* Inside: in exchange for free storage of the same class, which its slot then changes for the buffer's. Its credit
 * goes along as far as the other arena is charged for it; what is left of it is this arena's again. False if there
 * is none, or the other arena does not want it: nothing changed. */
static bool take_in_exchange(struct hearth__io_access *access, struct hearth_exec *from,
                             struct hearth_buf *buf, struct hearth_buf **slot)
{
    struct hearth_io *arena = access->arena;
    struct hearth__exchange exchange = {.same_budget = from->budget == arena->budget};
    exchange.slot = hearth__io_take_class(access, buf->size_class,
                                          buf->alignment_log & HEARTH__ALIGNMENT_LOG_MASK,
                                          (uint64_t)HEARTH__RETURNING << HEARTH__COUNT_BITS);
    if (exchange.slot == NULL)
        return false;
    HEARTH__PERTURB("io.exchange");
    hearth__weight weight = hearth__io_credit_of(exchange.slot);
    /* It may be what a waiter was woken for, and the take does without it. */
    if (hearth__budget_is_waited_for(arena->budget) ||
        !hearth__exec_exchange(from, buf, &exchange)) {
        hearth__io_list_give(arena, exchange.slot); /* with its stamp */
        hearth__io_room_give(arena, 0);             /* who looked meanwhile did not see it */
        return false;
    }
    settle(access, exchange.slot, exchange.size);
    HEARTH__IO_COUNT(access, given_count, 1);
    HEARTH__IO_COUNT(access, given_bytes, hearth__weight_capacity(weight));
    /* Of the cap it is all this arena's again. */
    (void)hearth__fetch_add_relaxed(&arena->credit, exchange.credit);
    hearth__io_credit_give(access, weight - (hearth__weight)exchange.credit);
    *slot = exchange.slot;
    return true;
}

/* Inside, left meanwhile: for nothing, into a slot without storage. */
static enum hearth_status take_outright(struct hearth__io_access *access, struct hearth_exec *from,
                                        struct hearth_buf *buf, struct hearth_buf **slot)
{
    size_t size;
    enum hearth_status status = hearth__io_slot_force(access, slot);
    if (status != HEARTH_OK)
        return status;
    status = access->closed ? HEARTH_CLOSED : hearth__exec_surrender(from, buf, *slot, &size);
    if (status == HEARTH_OK) {
        settle(access, *slot, size);
        return HEARTH_OK;
    }
    hearth__io_slot_put(access->arena, *slot);
    hearth__io_slot_unuse(access->arena);
    return status;
}

/* Inside of this arena's section, left meanwhile. */
static enum hearth_status take_into(struct hearth__io_access *access, struct hearth_exec *from,
                                    struct hearth_buf *buf, bool wanted, struct hearth_buf **slot)
{
    enum hearth_status status = HEARTH_OK;
    size_t capacity = hearth__buf_capacity(buf);
    /* Within one service it is live before and after. */
    bool same = from->budget == access->arena->budget;
    if (!access->closed &&
        (buf->alignment_log & HEARTH__ALIGNMENT_LOG_MASK) > HEARTH__ALIGNMENT_LOG_MIN)
        status = hearth__io_prepare_aligned(access); /* where it will come home to */
    if (access->closed || status != HEARTH_OK)
        return access->closed ? HEARTH_CLOSED : status;
    if (!same && !hearth__io_room_take(access, capacity))
        return HEARTH_NO_MEMORY;
    if (!wanted || hearth__budget_is_waited_for(access->arena->budget) ||
        !take_in_exchange(access, from, buf, slot))
        status = take_outright(access, from, buf, slot);
    if (!same && status == HEARTH_OK)
        hearth__exec_room_give(from, capacity);
    else if (!same)
        hearth__io_room_undo(access->arena, capacity);
    return status;
}

/* A place in a slab stays where it is, and so does a part of a segment: a copy of what it holds. */
static enum hearth_status take_copy(struct hearth_io *arena, struct hearth_exec *from,
                                    struct hearth_buf *buf, struct hearth_buf **io_buf)
{
    struct hearth_buf *copy;
    size_t size = hearth__load_relaxed(&buf->size);
    const struct hearth_request request = {
        .size = size,
        .alignment = (size_t)1 << (buf->alignment_log & HEARTH__ALIGNMENT_LOG_MASK),
    };
    enum hearth_status status = hearth_io_alloc_ex(arena, &request, &copy);
    if (status != HEARTH_OK)
        return status;
    status = hearth__exec_copy_out(from, buf, hearth__load_relaxed(&copy->data), size);
    if (status == HEARTH_OK)
        *io_buf = copy;
    else
        (void)hearth_io_free(arena, copy);
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
    bool wanted = !hearth__is_place(buf) &&
                  hearth__exec_has_place(from, hearth__buf_capacity(buf), buf->alignment_log);
    hearth__exec_end(from, &after);
    if (!hearth_io_can_take(arena, from))
        return hearth__io_misuse(arena, HEARTH_INVALID, call, buf);
    struct hearth__io_access access;
    struct hearth_buf *slot = NULL;
    if (hearth__is_in_place(buf) || hearth__is_span(buf)) {
        status = take_copy(arena, from, buf, &slot);
    } else {
        hearth__io_enter(arena, &access);
        status = take_into(&access, from, buf, wanted, &slot);
        hearth__io_leave(&access);
    }
    if (status == HEARTH_STALE)
        return hearth__io_misuse(arena, status, call, buf);
    if (status == HEARTH_OK) {
        note_site(arena, slot);
        *io_buf = slot;
    }
    return status;
}
