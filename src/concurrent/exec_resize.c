/* SPDX-License-Identifier: Apache-2.0 */
/* Execution arena: changing a live buffer's size. Within the capacity nothing moves; beyond it the slot
 * exchanges its storage with one that has enough, and keeps its address and generation. */
#include "concurrent/exec_plan.h"
#include "concurrent/exec_spans.h"

#include "core/misuse.h"

#include <string.h>

#define CALL "hearth_buf_resize"

static void count_resize(struct hearth_exec *arena, struct hearth_buf *buf, size_t size)
{
    struct hearth__exec_cells *cells = &arena->cells;
    size_t old = hearth__load_relaxed(&buf->size);
    if (hearth__unlikely(size < old && (arena->debug & HEARTH__DEBUG_SCRUB) != 0))
        memset((char *)hearth__load_relaxed(&buf->data) + size, 0, old - size);
    if (size >= old && arena->visited)
        hearth__exec_count_out_shared(cells, size - old);
    else if (size >= old)
        hearth__exec_count_out(cells, size - old);
    else if (arena->visited)
        hearth__exec_count_in_shared(cells, old - size);
    else
        hearth__exec_count_in(cells, old - size);
    hearth__store_relaxed(&buf->size, size);
    if (arena->with_plans && !arena->visited)
        hearth__exec_run_resized(arena, buf, size);
}

/* Of two slots of the arena; a place's slot that has other storage anyway stays marked. */
static void swap_storage(struct hearth_buf *buf, struct hearth_buf *spare)
{
    bool moved = hearth__is_place(buf);
    hearth__buf_swap_storage(buf, spare);
    buf->flags = 0;
    if (!moved)
        return;
    buf->alignment_log |= HEARTH__MARK_PLACE;
    buf->flags = HEARTH__BUF_MOVED;
    spare->alignment_log &= HEARTH__ALIGNMENT_LOG_MASK;
    spare->flags = 0;
}

/* Inside the section: `spare` has the storage that `buf` shall get, and gets the old one. */
static void exchange(struct hearth_exec *arena, struct hearth_buf *buf, struct hearth_buf *spare,
                     size_t size, bool keep)
{
    struct hearth__exec_cells *cells = &arena->cells;
    size_t old = hearth__load_relaxed(&buf->size);
    hearth__debug_moved(arena->debug, spare);
    if (keep)
        memcpy(hearth__load_relaxed(&spare->data), hearth__load_relaxed(&buf->data),
               old < size ? old : size);
    hearth__exec_scrub(arena, buf);
    hearth__cell_add(&cells->out_weight, hearth__load_relaxed(&spare->weight));
    arena->run.unplanned++; /* no request */
    hearth__exec_cell_add(&cells->in_weight, hearth__load_relaxed(&buf->weight), arena->visited);
    if (hearth__is_in_place(buf))
        hearth__exec_place_move(arena, buf, spare);
    else
        swap_storage(buf, spare);
    count_resize(arena, buf, size);
}

/* Inside the section: what became spare goes to the store, or, if it is no slot, to the backing. */
static void put_spare(struct hearth_exec *arena, struct hearth_buf *spare, bool is_slot,
                      struct hearth__exec_after *after)
{
    struct hearth__exec_cells *cells = &arena->cells;
    if (hearth__load_relaxed(&spare->data) == NULL)
        return; /* waits for a place's slot to come back */
    if (!is_slot) {
        hearth__exec_empty(arena, spare);
        return;
    }
    spare->flags = 0;
    hearth__store_relaxed(&spare->stamp, hearth__load_relaxed(&cells->gives));
    hearth__cell_add(&cells->gives, 1);
    hearth__cell_add(&cells->moves, 1);
    hearth__exec_keep(arena, spare, after);
}

/* Whether the slot still is what the caller asked to resize: while the section was left or returns were
 * taken in, somebody's wrong return of it may have been, too. */
static bool unchanged(const struct hearth_exec *arena, const struct hearth_buf *buf, uint64_t word)
{
    return hearth__load_relaxed(&buf->state) == word && !hearth__exec_is_queued(buf) &&
           (!arena->with_plans || hearth__slot_in(buf, &arena->allocator));
}

/* Inside the section: storage of a slot's own for `want`, or, when slots ran out, for a stand-in. */
static enum hearth_status find_storage(struct hearth_exec *arena, const struct hearth__want *want,
                                       const struct hearth_buf *buf, struct hearth_buf *stand_in,
                                       struct hearth_buf **spare)
{
    bool for_place = hearth__is_in_place(buf);
    /* What it leaves is for the store or the book, which the visitor has. */
    if (arena->visited && (for_place || hearth__is_span(buf)))
        return HEARTH_NO_MEMORY; /* and another try without the visitor */
    if (arena->visited) {
        *spare = stand_in;
        return hearth__exec_fill_spare(arena, want, stand_in);
    }
    *spare = hearth__exec_store_take(arena, want);
    if (*spare != NULL)
        return HEARTH_OK;
    enum hearth_status status = hearth__exec_obtain(arena, want, spare);
    if (status != HEARTH_NO_SLOT || for_place)
        return status;
    *spare = stand_in;
    return hearth__exec_fill(arena, want, stand_in);
}

static enum hearth_status move_once(struct hearth_exec *arena, struct hearth_buf *buf,
                                    uint64_t word, const struct hearth__want *want, size_t size,
                                    bool keep, uint32_t *met)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    struct hearth_buf stand_in = {.index = buf->index};
    struct hearth_buf *spare = NULL;
    *met = 0;
    enum hearth_status status = hearth__exec_begin(arena, CALL);
    if (status != HEARTH_OK)
        return status;
    (void)hearth__exec_drain(arena, SIZE_MAX, &after);
    status = unchanged(arena, buf, word) ? find_storage(arena, want, buf, &stand_in, &spare)
                                         : HEARTH_STALE;
    if (status == HEARTH_OK) {
        size_t more_room = hearth__buf_capacity(spare) - want->bytes;
        size_t old = hearth__buf_capacity(buf);
        if (!unchanged(arena, buf, word))
            status = HEARTH_STALE;
        else if (!hearth__exec_room_take(arena, more_room))
            status = HEARTH_NO_MEMORY;
        else
            exchange(arena, buf, spare, size, keep);
        put_spare(arena, spare, spare != &stand_in, &after);
        if (status == HEARTH_OK)
            after.room += old;
    }
    *met = hearth__exec_met(arena, &after);
    hearth__exec_end(arena, &after);
    return status;
}

static enum hearth_status move(struct hearth_exec *arena, struct hearth_buf *buf, uint64_t word,
                               size_t size, bool keep)
{
    struct hearth__want want;
    uint32_t met;
    if (!hearth__rounding_want(&arena->rounding, size,
                               buf->alignment_log & HEARTH__ALIGNMENT_LOG_MASK, &want))
        return HEARTH_OVERFLOW;
    hearth__exec_want_exact(arena, size, &want);
    if (!hearth__exec_room_take(arena, want.bytes))
        return hearth__exec_refused(arena, &want, true);
    if (arena->budget != NULL && arena->budget->metered)
        want.last_class = want.size_class; /* whatever is larger may not fit the limit */
    enum hearth_status status;
    unsigned tries = 0;
    do {
        status = move_once(arena, buf, word, &want, size, keep, &met);
    } while (hearth__exec_try_again(met, status, &tries));
    if (status == HEARTH_NO_MEMORY && (met & HEARTH__MET_MORE) != 0)
        status = move_once(arena, buf, word, &want, size, keep, &met);
    if (status != HEARTH_OK)
        hearth__exec_room_undo(arena, want.bytes);
    if (status == HEARTH_NO_MEMORY)
        return hearth__exec_refused(arena, &want, false);
    return status == HEARTH_STALE ? hearth__exec_misuse(arena, status, CALL, buf) : status;
}

enum hearth_status hearth__exec_surrender(struct hearth_exec *arena, struct hearth_buf *buf,
                                          struct hearth_buf *slot, size_t *size)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    uint64_t word = hearth__load_acquire(&buf->state);
    /* A place's slot is a visitor's business, too. */
    enum hearth_status status = hearth__is_place(buf)
                                    ? hearth__exec_begin_alone(arena, "hearth_io_take")
                                    : hearth__exec_begin(arena, "hearth_io_take");
    if (status != HEARTH_OK)
        return status;
    if (hearth__word_state(word) == HEARTH__LIVE && unchanged(arena, buf, word)) {
        *size = hearth__load_relaxed(&buf->size);
        if (arena->with_plans && !arena->visited)
            hearth__exec_run_taken(arena, buf);
        bool more = hearth__exec_take_back(arena, buf, arena->visited);
        hearth__buf_move_storage(buf, slot);
        slot->alignment_log &= HEARTH__ALIGNMENT_LOG_MASK;
        hearth__exec_count_given(arena, hearth__buf_capacity(slot));
        if (hearth__is_place(buf)) {
            struct hearth_buf *place = buf;
            buf = hearth__exec_place_restore(place);
            if (!more)
                hearth__slot_use_up(place);
        }
        hearth__slots_put(arena->visited ? &arena->spare : &arena->slots, buf);
    } else {
        status = HEARTH_STALE;
    }
    hearth__exec_end(arena, &after);
    return status;
}

bool hearth__exec_has_place(const struct hearth_exec *arena, size_t capacity,
                            unsigned alignment_log)
{
    if (arena->visited || (arena->service != NULL && hearth__exec_closed(arena)) ||
        (alignment_log > HEARTH__ALIGNMENT_LOG_MIN && arena->bins.aligned == NULL))
        return false;
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    size_t retained = hearth__exec_kept(arena);
    return retained <= cap && capacity <= cap - retained;
}

/* Inside the section: whether the buffer may go, and the slot's storage stay. */
static bool may_exchange(struct hearth_exec *arena, const struct hearth_buf *buf, uint64_t word,
                         const struct hearth__exchange *exchange)
{
    if (arena->visited) /* the store, and what it holds, are the visitor's */
        return false;
    const struct hearth_buf *slot = exchange->slot;
    size_t capacity = hearth__buf_capacity(slot);
    size_t rest = hearth__weight_capacity(arena->held) - hearth__buf_capacity(buf);
    return hearth__word_state(word) == HEARTH__LIVE && unchanged(arena, buf, word) &&
           hearth__word_generation(word) != HEARTH__GENERATION_MAX && /* else it is retired */
           buf->size_class == slot->size_class && buf->alignment_log == slot->alignment_log &&
           capacity <= HEARTH__HELD_MAX - rest &&
           hearth__exec_has_place(arena, capacity, slot->alignment_log) &&
           (exchange->same_budget ||
            hearth__exec_charge_ahead(arena, (int64_t)hearth__load_relaxed(&slot->weight)));
}

/* Inside the section: a slot with storage that came from another arena. It waited there as long as is asked for, and
 * is not put in quarantine. */
static void receive(struct hearth_exec *arena, struct hearth_buf *buf,
                    struct hearth__exchange *exchange)
{
    struct hearth__exec_cells *cells = &arena->cells;
    hearth__weight weight = hearth__load_relaxed(&buf->weight);
    int64_t need = arena->stored + (int64_t)weight - arena->charge;
    if (exchange->same_budget && arena->metering && need > 0) {
        exchange->credit = need < (int64_t)weight ? need : (int64_t)weight;
        arena->charge += exchange->credit;
    }
    arena->held += weight;
    hearth__cell_add(&cells->obtained_count, 1);
    hearth__cell_add(&cells->obtained_bytes, hearth__weight_capacity(weight));
    if (arena->debug != 0)
        hearth__debug_returned(arena->debug, buf);
    hearth__store_relaxed(&buf->stamp, hearth__load_relaxed(&cells->gives));
    hearth__cell_add(&cells->gives, 1);
    hearth__cell_add(&cells->moves, 1);
    hearth__exec_store_give(arena, buf, false);
}

enum hearth_status hearth__exec_copy_out(struct hearth_exec *arena, struct hearth_buf *buf,
                                         void *data, size_t size)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    uint64_t word = hearth__load_acquire(&buf->state);
    enum hearth_status status = hearth__exec_begin_alone(arena, "hearth_io_take");
    if (status != HEARTH_OK)
        return status;
    if (hearth__word_state(word) == HEARTH__LIVE && unchanged(arena, buf, word) &&
        hearth__load_relaxed(&buf->size) == size) {
        memcpy(data, hearth__load_relaxed(&buf->data), size);
        after.room += hearth__buf_capacity(buf);
        hearth__exec_scrub(arena, buf);
        hearth__exec_run_return(arena, buf, false);
        if (hearth__exec_take_back(arena, buf, false))
            hearth__exec_keep(arena, buf, &after);
        else
            hearth__exec_retire(arena, buf, &after);
    } else {
        status = HEARTH_STALE;
    }
    hearth__exec_end(arena, &after);
    return status;
}

bool hearth__exec_exchange(struct hearth_exec *arena, struct hearth_buf *buf,
                           struct hearth__exchange *exchange)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    uint64_t word = hearth__load_acquire(&buf->state);
    if (hearth__exec_begin(arena, "hearth_io_take") != HEARTH_OK)
        return false;
    bool may = may_exchange(arena, buf, word, exchange);
    if (may) {
        exchange->size = hearth__load_relaxed(&buf->size);
        if (arena->with_plans)
            hearth__exec_run_taken(arena, buf);
        (void)hearth__exec_take_back(arena, buf, false);
        hearth__exec_count_given(arena, hearth__buf_capacity(buf));
        hearth__buf_swap_storage(buf, exchange->slot);
        hearth__store_relaxed(&buf->size, 0);
        receive(arena, buf, exchange);
    }
    hearth__exec_end(arena, &after);
    return may;
}

enum hearth_status hearth__exec_resize(struct hearth_allocator *self, struct hearth_buf *buf,
                                       size_t size, bool keep)
{
    struct hearth_exec *arena = hearth__exec_of(self);
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    if (!hearth__slot_in(buf, self))
        return hearth__exec_misuse(arena, HEARTH_FOREIGN, CALL, buf);
    /* Before the arena is claimed: a wrong call changes nothing. */
    uint64_t word = hearth__load_acquire(&buf->state);
    if (hearth__word_state(word) != HEARTH__LIVE)
        return hearth__exec_misuse(arena, hearth__buf_not_live(word), CALL, buf);
    enum hearth_status status = hearth__exec_begin(arena, CALL);
    if (status != HEARTH_OK)
        return status;
    bool live = unchanged(arena, buf, word);
    bool fits = live && size <= hearth__buf_capacity(buf);
    if (fits)
        count_resize(arena, buf, size);
    hearth__exec_end(arena, &after);
    if (!live)
        return hearth__exec_misuse(arena, HEARTH_STALE, CALL, buf);
    return fits ? HEARTH_OK : move(arena, buf, word, size, keep);
}
