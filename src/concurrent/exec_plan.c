/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: runs, and the plans that serve them.
 *
 * Problem. Lists reuse a buffer whole, so that an arena holds about twice what is live at a time. Runs repeat, so the
 * next one is known: laid out once, it needs what is live at a time and no more.
 *
 * Picture. An arena has a book for the time of a run: its own, or one that its service lends it.
 *
 *                 first request               nothing live any more, or run_end
 *     NONE ---------------------> RECORD ----------------------------------------> NONE   like one before: plan it
 *        |  the book knows how a run goes
 *        +--that begins like this-> PLAN ----------------------------------------> NONE   the book goes back
 *        |  nothing to be recorded
 *        +------------------------> LISTS ---------------------------------------> NONE
 *
 *     book:  { past runs, plans, slab, slots of places }     slab:  | place | place |    place    | ...
 *
 * In PLAN the plain path compares the request with the cursor's entry and steps on (run_plan.h); what does not go as
 * planned takes the general path, which looks around, and asks the lists in the end. A place's slot is live like any
 * other: misuse, returns from afar and readers know no difference.
 *
 * Who may touch a run and its book: the owner inside its section, or a visitor. At the end of a run the owner has the
 * book for itself outside of the section (`ending`): planning, and calls of the backing, take their time. Whatever
 * the thread does meanwhile, in a signal handler or called back by the backing, is served by the lists; visitors keep
 * out while an operation is running.
 *
 * Rules for what is out of the ordinary.
 * - Returned late in the run: the guard (run_plan.c) keeps its bytes; entries that need them are served by lists.
 * - Live at the end of the run: the book stays with the arena, and nothing is served over it (hearth__book_follow).
 * - Returned by another thread: by way of the inbox, which is drained before an entry is given up as blocked.
 * - Resized beyond its place: the slot takes list storage until it comes back (HEARTH__BUF_MOVED), the place is over.
 * - Taken by an I/O arena: copied once; at the next planning it is planned out, as what outlives the recorded runs.
 * - Other alignments, and requests past the end: lists.
 *
 * Counts. The book's slab is held by the arena that has the book, a piece for each place; what is not live of it is
 * retained. While nobody has it, it is the service's.
 *
 * Progress. A request that follows the plan: wait-free, bounded by the predecessors of its entry. The beginning of a run
 * is wait-free but for the first of all, which makes a book. Ordering: books.idle when a book changes hands; within an
 * arena that of the section.
 */
#include "concurrent/exec_plan.h"

#include "concurrent/service.h"

/* Requests in a row that are not expected, until the run is left to the lists; and a quarter of the plan's. */
#define LOST 64u

void hearth__exec_run_init(struct hearth__exec_run *run)
{
    *run = (struct hearth__exec_run){

        .step = {.cursor = hearth__no_entries, .entries = hearth__no_entries},
    };
}

static void follow_nothing(struct hearth__exec_run *run)
{
    run->plan = NULL;
    run->slot_count = 0;
    run->step = (struct hearth__plan_run){
        .cursor = hearth__no_entries,
        .entries = hearth__no_entries,
    };
}

static void count_pieces(hearth__cell *count, hearth__cell *pieces, size_t more, bool shared)
{
    hearth__exec_cell_add(count, more, shared);
    hearth__exec_cell_add(pieces, more, shared);
}

void hearth__exec_hold_book(struct hearth_exec *arena, hearth__weight before, hearth__weight after,
                            bool shared)
{
    struct hearth__exec_cells *cells = &arena->cells;
    size_t count_before = hearth__weight_count(before);
    size_t count_after = hearth__weight_count(after);
    size_t bytes_before = hearth__weight_capacity(before);
    size_t bytes_after = hearth__weight_capacity(after);
    if (count_after > count_before)
        count_pieces(&cells->obtained_count, &cells->pieces_in, count_after - count_before, shared);
    else
        count_pieces(&cells->given_count, &cells->pieces_out, count_before - count_after, shared);
    if (bytes_after > bytes_before)
        hearth__exec_cell_add(&cells->obtained_bytes, bytes_after - bytes_before, shared);
    else
        hearth__exec_cell_add(&cells->given_bytes, bytes_before - bytes_after, shared);
    if (bytes_after < bytes_before)
        hearth__exec_cell_add(&cells->passed_on, bytes_before - bytes_after, shared);
    arena->held += after - before;
}

void hearth__exec_count_calls(struct hearth_exec *arena, bool acquired, bool shared)
{
    struct hearth__exec_cells *cells = &arena->cells;
    /* A call, which brought no piece by itself. */
    hearth__exec_cell_add(&cells->obtained_count, 1, shared);
    hearth__exec_cell_add(acquired ? &cells->pieces_out : &cells->pieces_in, 1, shared);
    hearth__exec_cell_add(&cells->given_count, 1, shared);
}

size_t hearth__exec_live_places(const struct hearth_exec *arena, hearth__weight *in_place)
{
    if (in_place != NULL)
        *in_place = 0;
    return hearth__exec_is_idle(arena) ? 0 : hearth__book_live(arena->run.book, in_place);
}

void hearth__exec_return_book(struct hearth_exec *arena)
{
    struct hearth__book *book = arena->run.book;
    arena->run.book = NULL;
    hearth__exec_hold_book(arena, hearth__book_weight(book), 0, false);
    hearth__books_put(&arena->service->books, book);
}

/* An idle book of the service's, or a new one. Inside, left meanwhile. */
static struct hearth__book *borrow(struct hearth_exec *arena)
{
    struct hearth_service *service = arena->service;
    struct hearth__book *book =
        service == NULL ? NULL : hearth__books_take(&service->books, arena->run.home);
    if (book != NULL)
        return book;
    if (service != NULL && hearth__books_homes(&service->books) == HEARTH__BOOKS_MOST)
        return NULL;
    hearth__exec_leave(arena);
    book = hearth__book_create();
    if (book != NULL && service != NULL && !hearth__books_settle(&service->books, book)) {
        hearth__book_free(book);
        book = NULL;
    }
    hearth__section_resume(&arena->section);
    return book;
}

static bool get_book(struct hearth_exec *arena)
{
    struct hearth__exec_run *run = &arena->run;
    if (run->book != NULL)
        return true;
    run->ending = true; /* whoever comes in between does without */
    struct hearth__book *book = borrow(arena);
    run->ending = false;
    if (book == NULL)
        return false;
    hearth__book_serve(book, &arena->allocator);
    run->home = book->home;
    run->book = book;
    hearth__exec_hold_book(arena, 0, hearth__book_weight(book), false);
    return true;
}

/* Whether places may be used: they count as buffers with storage. */
static bool has_slots(const struct hearth_exec *arena)
{
    return arena->slots.made + arena->run.book->place_count <= arena->slots.limit;
}

static void begin_run(struct hearth_exec *arena, size_t size, struct hearth__exec_after *after)
{
    struct hearth__exec_run *run = &arena->run;
    run->mode = HEARTH__RUN_LISTS;
    run->stopped = false;
    run->changed = false;
    run->unplanned = 0;
    run->misses = 0;
    run->blocked = 0;
    run->missed_bytes = 0;
    run->out_weight = hearth__load_relaxed(&arena->cells.out_weight);
    run->out_size = hearth__load_relaxed(&arena->cells.out_size);
    if (arena->fixed || !get_book(arena))
        return;
    struct hearth__book *book = run->book;
    if (book->recorded) {
        run->ending = true; /* whoever comes in between keeps off the book */
        hearth__exec_leave(arena);
        hearth__book_record_end(book);
        hearth__section_resume(&arena->section);
        run->ending = false;
    }
    if (hearth__book_is_waiting(book) && !hearth__exec_slab(arena, false, after) &&
        book->slab.length == 0) {
        if (arena->service != NULL && hearth__exec_is_idle(arena))
            hearth__exec_return_book(arena);
        return;
    }
    size_t live = hearth__exec_live_places(arena, NULL);
    uint32_t number = hearth__book_next_number(book, live != 0);
    bool usable = number != 0 && has_slots(arena);
    bool doubted = hearth__book_doubts(book);
    struct hearth__plan *plan =
        doubted || !usable ? NULL : hearth__book_choose(book, run->key, size);
    if (plan != NULL) {
        run->step.number = number;
        run->plan = plan;
        run->in_step = true;
        run->mode = HEARTH__RUN_PLAN;
        (void)hearth__fetch_add_relaxed(&book->uses, 1);
        run->slots_at = (uintptr_t)book->slots.segments;
        run->slot_count = (HEARTH__GRANULE_BYTES - HEARTH__HEADER_BYTES) / HEARTH__SLOT_BYTES;
        if (live != 0)
            (void)hearth__book_follow(book, plan, 0, &run->step);
        else
            hearth__book_follow_idle(book, plan, 0, &run->step);
    } else if (number != 0 && (doubted || !hearth__book_knows(book, run->key, size)) &&
               hearth__book_record_begin(book, run->key)) {
        run->number = number;
        run->mode = HEARTH__RUN_RECORD;
    } else if (arena->service != NULL && hearth__exec_is_idle(arena)) {
        hearth__exec_return_book(arena); /* of no use to this run */
    }
}

/* Whether the request is the one that the plan expects next, wherever it is served. */
static bool is_next(const struct hearth__exec_run *run, size_t size)
{
    size_t at = (size_t)(run->step.cursor - run->step.entries);
    return at < run->plan->count && run->plan->sizes[at] == size;
}

/* Another plan agrees with the run so far, and goes on like it. */
static struct hearth_buf *change_plan(struct hearth_exec *arena, size_t size)
{
    struct hearth__exec_run *run = &arena->run;
    struct hearth_buf *place = NULL;
    uint32_t at = (uint32_t)(run->step.cursor - run->step.entries);
    struct hearth__plan *other = hearth__book_other(run->book, run->plan, at, size);
    uint32_t number = other == NULL ? 0 : hearth__book_next_number(run->book, true);
    if (number == 0)
        return NULL;
    hearth__plan_unblock(run->plan);
    run->plan = other;
    run->step.number = number;
    run->changed = true;
    (void)hearth__book_follow(run->book, other, at, &run->step);
    (void)hearth__plan_seek(other, &run->step, size, false, &place);
    return place;
}

/* The rest of the run is not as planned, or the run does not end: the lists serve it as if there were no plan. */
static void stop_following(struct hearth_exec *arena)
{
    struct hearth__exec_run *run = &arena->run;
    hearth__weight out = hearth__load_relaxed(&arena->cells.out_weight) - run->out_weight;
    run->mode = HEARTH__RUN_LISTS;
    run->stopped = true;
    run->requests = (uint32_t)hearth__weight_count(out);
    run->bytes = hearth__load_relaxed(&arena->cells.out_size) - run->out_size;
    run->step.cursor = hearth__no_entries;
}

struct hearth_buf *hearth__exec_run_take(struct hearth_exec *arena, const struct hearth__want *want,
                                         struct hearth__exec_after *after)
{
    struct hearth__exec_run *run = &arena->run;
    if (run->ending || want->alignment_log > HEARTH__ALIGNMENT_LOG_MIN)
        return NULL;
    if (hearth__exec_run_is_over(arena)) {
        /* Others returned the last of it, and it was taken in just now. */
        hearth__exec_leave(arena);
        hearth__exec_run_end(arena);
        hearth__section_resume(&arena->section);
    }
    if (run->mode == HEARTH__RUN_NONE)
        begin_run(arena, want->size, after);
    if (run->mode != HEARTH__RUN_PLAN)
        return NULL;
    struct hearth_buf *place = NULL;
    if (run->in_step && !is_next(run, want->size)) {
        place = change_plan(arena, want->size);
        run->in_step = place != NULL;
        if (place != NULL)
            return place;
    }
    enum hearth__plan_answer answer =
        hearth__plan_seek(run->plan, &run->step, want->size, true, &place);
    if (answer == HEARTH__PLAN_BLOCKED) {
        (void)hearth__exec_drain(arena, SIZE_MAX, after);
        answer = hearth__plan_seek(run->plan, &run->step, want->size, false, &place);
    }
    if (run->step.strayed > LOST + run->plan->count / 4)
        stop_following(arena);
    if (place != NULL || answer == HEARTH__PLAN_OUT || answer == HEARTH__PLAN_CARRIED)
        return place;
    run->misses++;
    run->missed_bytes += want->size;
    run->blocked += answer == HEARTH__PLAN_BLOCKED;
    return NULL;
}

void hearth__exec_run_note(struct hearth_exec *arena, struct hearth_buf *buf, size_t size)
{
    struct hearth__exec_run *run = &arena->run;
    if (hearth__is_place(buf))
        return;
    run->unplanned += !run->stopped;
    uint64_t tag = 0;
    if (run->mode == HEARTH__RUN_RECORD && !run->ending &&
        buf->alignment_log == HEARTH__ALIGNMENT_LOG_MIN)
        tag = hearth__run_tag(run->number, hearth__book_record_request(run->book, size));
    if (tag != 0 && run->book->record->overflow)
        run->mode = HEARTH__RUN_LISTS; /* of no use: it is too long, or never ends */
    hearth__store_relaxed(&buf->stamp, tag);
}

/* The recorded request that the buffer serves, or NULL. */
static struct hearth__run_request *recorded(struct hearth_exec *arena, const struct hearth_buf *buf)
{
    struct hearth__exec_run *run = &arena->run;
    uint64_t tag = hearth__load_relaxed(&buf->stamp);
    if (run->mode != HEARTH__RUN_RECORD || run->ending || hearth__is_place(buf) ||
        tag >> 32 != run->number)
        return NULL;
    return hearth__book_request(run->book, (uint32_t)tag);
}

void hearth__exec_run_return(struct hearth_exec *arena, const struct hearth_buf *buf, bool remote)
{
    struct hearth__exec_run *run = &arena->run;
    struct hearth__run_request *request = recorded(arena, buf);
    if (request != NULL) {
        request->end = run->book->record->count;
        request->remote |= remote;
    }
    if (!hearth__is_place(buf))
        return;
    struct hearth__plan_entry *entry = hearth__place_entry(buf);
    if (run->lost_places && (run->book == NULL || !hearth__book_has(run->book, buf)))
        (void)hearth__fetch_add_relaxed(&arena->lost, hearth__load_relaxed(&buf->weight));
    else if (run->plan != NULL && entry != NULL)
        entry->over = run->step.number;
    else if (run->plan != NULL && run->plan->blocked != 0)
        hearth__book_carried_home(run->book, run->plan, buf);
}

void hearth__exec_run_resized(struct hearth_exec *arena, const struct hearth_buf *buf, size_t size)
{
    struct hearth__run_request *request = recorded(arena, buf);
    if (request != NULL && size > request->most)
        request->most = size;
}

void hearth__exec_run_taken(struct hearth_exec *arena, const struct hearth_buf *buf)
{
    struct hearth__run_request *request = recorded(arena, buf);
    if (request == NULL)
        return;
    request->taken = true;
    request->end = arena->run.book->record->count;
}

/* While it has other storage, a place's slot knows the slot whose storage that was, and that one where the place is. */
void hearth__exec_place_move(struct hearth_exec *arena, struct hearth_buf *place,
                             struct hearth_buf *from)
{
    uint64_t data = (uint64_t)(uintptr_t)hearth__load_relaxed(&place->data);
    hearth__exec_run_return(arena, place, false);
    hearth__store_relaxed(&place->stamp, 0);
    hearth__buf_move_storage(from, place);
    place->alignment_log |= HEARTH__MARK_PLACE;
    place->flags = HEARTH__BUF_MOVED;
    place->next = from;
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&from->state));
    hearth__store_relaxed(&from->state, hearth__word(generation, HEARTH__UNUSED));
    hearth__store_relaxed(&from->stamp, data);
}

struct hearth_buf *hearth__exec_place_restore(struct hearth_buf *place)
{
    struct hearth_buf *waiting = place->next;
    hearth__book_restore(place, (void *)(uintptr_t)hearth__load_relaxed(&waiting->stamp));
    return waiting;
}

void hearth__exec_place_home(struct hearth_exec *arena, struct hearth_buf *place,
                             struct hearth__exec_after *after)
{
    if ((place->flags & HEARTH__BUF_MOVED) == 0) {
        if (arena->debug != 0)
            hearth__debug_returned(arena->debug, place);
        return;
    }
    hearth__buf_move_storage(place, place->next);
    struct hearth_buf *slot = hearth__exec_place_restore(place);
    slot->alignment_log &= HEARTH__ALIGNMENT_LOG_MASK;
    slot->flags = 0;
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&slot->state));
    hearth__store_relaxed(&slot->state, hearth__word(generation, HEARTH__FREE));
    hearth__store_relaxed(&slot->stamp, hearth__load_relaxed(&place->stamp));
    hearth__exec_keep(arena, slot, after);
}

/* A slab is charged as a whole for as long as there is one, so that what is retained of it is within the ceiling. */
bool hearth__exec_charge_book(struct hearth_exec *arena, struct hearth__book *book, size_t bytes)
{
    struct hearth__budget *budget = arena->budget;
    if (bytes == 0 || book->charge != 0 || budget == NULL || !hearth__budget_bounded(budget))
        return true;
    int64_t need = (int64_t)hearth__weight_of(1, bytes);
    book->charge = hearth__budget_charge(budget, need, need);
    return book->charge != 0;
}

void hearth__exec_refund_book(struct hearth_exec *arena, struct hearth__book *book)
{
    if (book->charge != 0)
        hearth__budget_refund(arena->budget, book->charge);
    book->charge = 0;
}

/* Visiting: nobody may come to end the run. A run that goes on after this is served by the lists. */
void hearth__exec_run_abandon(struct hearth_exec *arena, const struct hearth__visit *visit)
{
    struct hearth__exec_run *run = &arena->run;
    struct hearth__book *book = run->book;
    if (book == NULL || arena->service == NULL || (run->asked && visit->before != UINT64_MAX) ||
        hearth__book_live(book, NULL) != 0)
        return;
    if (run->plan != NULL)
        hearth__plan_unblock(run->plan);
    if (run->mode == HEARTH__RUN_RECORD)
        book->recorded = true;
    follow_nothing(run);
    /* What is left of a run that goes on is no run to be recorded. */
    run->mode = hearth__exec_is_idle(arena) ? HEARTH__RUN_NONE : HEARTH__RUN_LISTS;
    run->book = NULL;
    hearth__exec_hold_book(arena, hearth__book_weight(book), 0, true);
    if (hearth__exec_closed(arena) || !hearth__exec_charge_book(arena, book, book->slab.length)) {
        hearth__exec_refund_book(arena, book);
        struct hearth_segment slab = hearth__book_take_slab(book);
        if (slab.length != 0) {
            hearth__exec_count_calls(arena, false, true);
            (void)hearth__releases_add(visit->releases, arena->backing, &slab);
        }
    }
    hearth__books_put(&arena->service->books, book);
}

bool hearth__exec_run_is_over(const struct hearth_exec *arena)
{
    const struct hearth__exec_run *run = &arena->run;
    hearth__weight out = hearth__load_relaxed(&arena->cells.out_weight);
    if (run->ending || out != hearth__load_relaxed(&arena->cells.in_weight))
        return false;
    if (run->to_end)
        return run->mode != HEARTH__RUN_NONE || run->book != NULL;
    if (run->asked)
        return false;
    switch (run->mode) {
    case HEARTH__RUN_NONE:
        return run->book != NULL &&
               (arena->service != NULL || (run->book->planning != NULL && !run->requesting) ||
                run->book->slab.length > hearth__load_relaxed(&arena->retention_cap));
    case HEARTH__RUN_LISTS:
        return hearth__weight_count(out - run->out_weight) >= HEARTH__RUN_LEAST;
    default:
        return true;
    }
}

/* Inside: what there is to say of the run. */
void hearth__exec_run_conclude(struct hearth_exec *arena)
{
    struct hearth__exec_run *run = &arena->run;
    struct hearth__exec_cells *cells = &arena->cells;
    if (run->mode != HEARTH__RUN_NONE)
        hearth__cell_add(&cells->runs, 1);
    if (run->plan != NULL) {
        hearth__weight out = hearth__load_relaxed(&cells->out_weight) - run->out_weight;
        uint64_t bytes =
            run->stopped ? run->bytes : hearth__load_relaxed(&cells->out_size) - run->out_size;
        uint64_t missed = run->missed_bytes < bytes ? run->missed_bytes : bytes;
        size_t requests = run->stopped ? run->requests : hearth__weight_count(out);
        run->clean = run->unplanned == 0 ? run->clean + (run->clean <= UINT16_MAX) : 0;
        hearth__cell_add(&cells->planned_runs, 1);
        hearth__cell_add(&cells->plan_hits,
                         requests > run->unplanned ? requests - run->unplanned : 0);
        hearth__cell_add(&cells->plan_misses, run->misses);
        hearth__cell_add(&cells->plan_blocked, run->blocked);
        hearth__store_relaxed(&cells->plan_bytes, run->plan->bytes);
        hearth__store_relaxed(&cells->plan_bound, run->plan->bound);
        if (run->step.kept != 0 && hearth__exec_is_idle(arena))
            run->book->doubt++; /* it was not kept this time */
        hearth__book_run_end(run->book, run->plan, run->changed ? bytes : bytes - missed, bytes);
    }
    if (run->plan == NULL && run->mode != HEARTH__RUN_NONE)
        run->clean = 0;
    follow_nothing(run);
    run->key = 0;
    run->asked = false;
    run->to_end = false;
}
