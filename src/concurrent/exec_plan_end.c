/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: the end of a run. What was recorded is compared and laid out, a slab is made for it, and the book goes
 * back to where the next run finds it. All of it outside of the section, by the owner: a small run is planned at once, a
 * large one in slices, at the ends of runs that are long enough for it to be no burden. The slab and its pages are
 * obtained in one piece.
 */
#include "concurrent/exec_plan.h"
#include "concurrent/exec_spans.h"

#include "concurrent/service.h"

#include <sys/mman.h>

/* Slabs refused in a row until runs go by without asking, and how many do. */
#define REFUSALS 4u
#define REFUSED_RUNS 2u

/* Runs in a row that the plan served alone, until what the lists hold goes. */
#define CLEAN 8u

/* The slab's size is a multiple of this. */
#define PAGE_BYTES ((size_t)4096)

/* Pages are there before they are needed: the kernel's call for it, or by hand. */
static void touch_pages(const struct hearth_segment *slab)
{
#ifdef MADV_POPULATE_WRITE
    uintptr_t begin = ((uintptr_t)slab->base + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    uintptr_t end = ((uintptr_t)slab->base + slab->length) & ~(PAGE_BYTES - 1);
    if (end > begin && madvise((void *)begin, end - begin, MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (size_t at = 0; at < slab->length; at += PAGE_BYTES)
        ((volatile char *)slab->base)[at] = 0;
}

/* Inside, left meanwhile: the book's slab goes back. No place is live. Returns bytes. */
static size_t drop_slab(struct hearth_exec *arena, struct hearth__book *book)
{
    if (book->slab.length == 0)
        return 0;
    hearth__weight before = hearth__book_weight(book);
    struct hearth_segment slab = hearth__book_take_slab(book);
    hearth__exec_hold_book(arena, before, 0, false);
    hearth__exec_count_calls(arena, false, false);
    hearth__cell_add(&arena->cells.passed_on, (uint64_t)0 - slab.length);
    hearth__exec_refund_book(arena, book);
    hearth__exec_leave(arena);
    hearth__backing_release(arena->backing, &slab);
    hearth__section_resume(&arena->section);
    return slab.length;
}

/* Inside, left meanwhile: a slab of so many bytes. */
static bool make_slab(struct hearth_exec *arena, size_t bytes, bool touch)
{
    struct hearth__book *book = arena->run.book;
    struct hearth_segment slab;
    if (bytes > HEARTH__HELD_MAX - hearth__weight_capacity(arena->held))
        return false;
    if (!hearth__exec_charge_book(arena, book, bytes))
        return false;
    hearth__exec_leave(arena);
    bool made = hearth__backing_acquire(arena->backing, bytes, PAGE_BYTES, &slab) == HEARTH_OK;
    if (made) {
        hearth__exec_grew(arena, slab.length);
        if (touch)
            touch_pages(&slab);
    }
    hearth__section_resume(&arena->section);
    if (!made) {
        hearth__exec_refund_book(arena, book);
        return false;
    }
    book->slab = slab;
    hearth__store_relaxed(&book->slab_bytes, slab.length);
    hearth__exec_hold_book(arena, 0, hearth__weight_of(0, slab.length), false);
    hearth__exec_count_calls(arena, true, false);
    return true;
}

/* Inside: what the lists hold is what the plan is to replace. */
static void clear_lists(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    struct hearth_buf *victim;
    struct hearth_buf *kept = NULL; /* of other alignments, which plans do without; oldest first */
    struct hearth_buf **end = &kept;
    while ((victim = hearth__exec_store_evict(arena, UINT64_MAX, SIZE_MAX)) != NULL) {
        if (victim->alignment_log == HEARTH__ALIGNMENT_LOG_MIN) {
            hearth__exec_chain_push(after, victim);
        } else {
            victim->next = NULL;
            *end = victim;
            end = &victim->next;
        }
    }
    while (kept != NULL) {
        struct hearth_buf *next = kept->next;
        hearth__exec_store_give(arena, kept, false);
        kept = next;
    }
    hearth__exec_discharge(arena);
}

/* Whether a slab of so many bytes is within the bounds of what may be retained. */
static bool is_allowed(const struct hearth_exec *arena, size_t bytes)
{
    const struct hearth__book *book = arena->run.book;
    size_t places = 0;
    for (uint32_t i = 0; i < book->plan_count; i++)
        places += book->plans[i]->placed ? 0 : book->plans[i]->count;
    return arena->slots.made + book->place_count + places <= arena->slots.limit && bytes != 0 &&
           bytes <= hearth__load_relaxed(&arena->retention_cap) &&
           (arena->budget == NULL || !hearth__budget_bounded(arena->budget) ||
            bytes <= hearth__budget_ceiling(arena->budget));
}

bool hearth__exec_slab(struct hearth_exec *arena, bool touch, struct hearth__exec_after *after)
{
    struct hearth__exec_run *run = &arena->run;
    struct hearth__book *book = run->book;
    size_t need = (hearth__book_need(book) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    if (!is_allowed(arena, need))
        return false;
    if (book->refused != 0) {
        book->refused--;
        return false;
    }
    /* While a place's slot has other storage, its address leads to no slot, and must not get a second one. */
    hearth__weight in_place;
    size_t live = hearth__exec_live_places(arena, &in_place);
    if (live != hearth__weight_count(in_place) || (live != 0 && book->slab.length < need))
        return false;
    bool was_ending = run->ending;
    run->ending = true;
    bool made = true;
    /* First what there is goes, so that memory does not double; but not where it may be in vain. */
    bool doubtful = book->refusals != 0;
    if (!doubtful)
        clear_lists(arena, after);
    bool grows = book->slab.length < need;
    if (grows)
        (void)drop_slab(arena, book);
    hearth__exec_leave(arena);
    hearth__exec_release_chain(arena, after);
    /* A backing keeps the pages of what it got back, and may have no use for them in one piece. */
    if (touch)
        (void)hearth_backing_purge(arena->backing);
    hearth__section_resume(&arena->section);
    if (grows)
        made = make_slab(arena, need, touch);
    if (made && doubtful)
        clear_lists(arena, after);
    if (made) {
        hearth__weight before = hearth__book_weight(book);
        hearth__exec_leave(arena);
        made = hearth__book_place(book, &arena->allocator) == HEARTH_OK;
        hearth__section_resume(&arena->section);
        hearth__exec_hold_book(arena, before, hearth__book_weight(book), false);
    }
    run->ending = was_ending;
    book->refusals = made ? 0 : book->refusals + 1;
    if (book->refusals > REFUSALS)
        book->refused = REFUSED_RUNS;
    return made;
}

/* Outside: the lists, if they were of no use for a while. */
static void tidy_lists(struct hearth_exec *arena)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    if (arena->run.clean != CLEAN || arena->run.requesting)
        return;
    hearth__section_resume(&arena->section);
    clear_lists(arena, &after);
    hearth__exec_leave(arena);
    hearth__exec_release_chain(arena, &after);
}

/* Outside: at most one new plan, and what it needs. */
static void plan_ahead(struct hearth_exec *arena)
{
    struct hearth__book *book = arena->run.book;
    if (arena->run.requesting || hearth__exec_closed(arena) || !hearth__book_work(book))
        return;
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    hearth__section_resume(&arena->section);
    hearth__store_relaxed(&arena->cells.plans_made, book->plans_made);
    (void)hearth__exec_slab(arena, true, &after);
    hearth__exec_leave(arena);
    hearth__exec_release_chain(arena, &after);
}

/* Inside, left meanwhile: the book to where the next run finds it. */
static void give_book(struct hearth_exec *arena)
{
    struct hearth__exec_run *run = &arena->run;
    struct hearth__book *book = run->book;
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    hearth__store_relaxed(&arena->cells.plans, book->plan_count);
    hearth__store_relaxed(&arena->cells.slab_bytes, book->slab.length);
    if (hearth__exec_live_places(arena, NULL) != 0)
        return;
    if (book->slab.length > cap)
        (void)drop_slab(arena, book);
    if (arena->service == NULL)
        return;
    if (hearth__exec_closed(arena) || !hearth__exec_charge_book(arena, book, book->slab.length))
        (void)drop_slab(arena, book);
    hearth__exec_return_book(arena);
}

void hearth__exec_run_end(struct hearth_exec *arena)
{
    struct hearth__exec_run *run = &arena->run;
    hearth__section_resume(&arena->section);
    if (run->mode == HEARTH__RUN_RECORD)
        run->book->recorded = true;
    run->ending = true;
    hearth__exec_run_conclude(arena);
    run->mode = HEARTH__RUN_NONE;
    run->to_end = false;
    if (run->book != NULL) {
        hearth__exec_leave(arena);
        if (run->requesting && run->book->recorded)
            hearth__book_record_end(run->book); /* which takes no time that matters */
        plan_ahead(arena);
        tidy_lists(arena);
        hearth__section_resume(&arena->section);
        give_book(arena);
    }
    run->ending = false;
    hearth__exec_leave(arena);
}

size_t hearth__exec_run_trim(struct hearth_exec *arena)
{
    struct hearth__book *book = arena->run.book;
    if (book == NULL || arena->run.ending || hearth__exec_live_places(arena, NULL) != 0)
        return 0;
    bool asked = arena->run.asked;
    uint64_t key = arena->run.key;
    if (arena->run.plan != NULL)
        hearth__exec_run_conclude(arena);
    arena->run.asked = asked;
    arena->run.key = key;
    /* What is left of a run that goes on is no run to be recorded. */
    arena->run.mode = hearth__exec_is_idle(arena) ? HEARTH__RUN_NONE : HEARTH__RUN_LISTS;
    arena->run.ending = true;
    size_t bytes = drop_slab(arena, book);
    arena->run.ending = false;
    return bytes;
}

void hearth__exec_run_finish(struct hearth_exec *arena)
{
    struct hearth__book *book = arena->run.book;
    hearth__exec_run_init(&arena->run);
    if (book == NULL)
        return;
    struct hearth_segment slab = hearth__book_take_slab(book);
    if (slab.length != 0)
        hearth__backing_release(arena->backing, &slab);
    hearth__book_free(book);
}

static enum hearth_status tell(struct hearth_exec *arena, const char *call, bool begins,
                               uint64_t key)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    enum hearth_status status = hearth__exec_begin_alone(arena, call);
    if (status != HEARTH_OK)
        return status;
    struct hearth__exec_run *run = &arena->run;
    if (begins && hearth__exec_closed(arena)) {
        hearth__exec_end(arena, &after);
        return HEARTH_CLOSED;
    }
    bool mine = arena->with_plans && !run->ending;
    (void)hearth__exec_drain(arena, SIZE_MAX, &after);
    if (mine && run->mode != HEARTH__RUN_NONE) {
        hearth__exec_leave(arena);
        hearth__exec_run_end(arena);
        hearth__section_resume(&arena->section);
    }
    if (mine) {
        run->to_end = false;
        run->asked = begins;
        run->key = begins ? key : 0;
    }
    hearth__exec_spans_end_run(arena, &after);
    hearth__exec_end(arena, &after);
    return HEARTH_OK;
}

enum hearth_status hearth_exec_run_begin(struct hearth_exec *arena, uint64_t key)
{
    return tell(arena, "hearth_exec_run_begin", true, key);
}

enum hearth_status hearth_exec_run_end(struct hearth_exec *arena)
{
    return tell(arena, "hearth_exec_run_end", false, 0);
}
