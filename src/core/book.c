/* SPDX-License-Identifier: Apache-2.0 */
/* Books: recorded runs, and the plans that come of them. The places are in book_places.c. */
#include "core/book.h"

#include <stdlib.h>
#include <string.h>

/* Recorded runs in a row that are like none before, until fewer are recorded: two rounds of what is remembered. */
#define FRUITLESS (2 * HEARTH__BOOK_PAST)

/* Runs in a row too short for a plan, until there is a rest. */
#define TINY 64u

/* Runs that are not recorded in between at most. */
#define REST_MOST 1024u

/* Runs of which less than nine tenths were served, after which the next ones are recorded: so many, as they may be of two
 * kinds. Where less than half was served two of them will do. What goes wrong by chance is recorded in vain, and lists
 * serve it meanwhile. */
#define DOUBT_MOST 24u
#define DOUBT_RUNS 2u

/* Units of work that each request of a run pays for, so that small runs are not held up by the planning of large ones:
 * about as much as the request took. */
#define WORK_PAID ((uint64_t)50)

struct hearth__book *hearth__book_create(void)
{
    struct hearth__book *book = calloc(1, sizeof *book);
    if (book == NULL)
        return NULL;
    /* Touched as far as runs go. */
    book->record = malloc(hearth__run_record_bytes(HEARTH__RUN_MOST));
    if (book->record == NULL) {
        free(book);
        return NULL;
    }
    book->slots = (struct hearth__slots){.fresh = HEARTH__SLOTS_PER_GRANULE, .limit = SIZE_MAX};
    return book;
}

void hearth__book_free(struct hearth__book *book)
{
    if (book == NULL)
        return;
    for (uint32_t i = 0; i < book->plan_count; i++)
        hearth__plan_free(book->plans[i]);
    if (book->planning != NULL)
        hearth__plan_free(hearth__planning_end(book->planning));
    for (uint32_t i = 0; i < book->past_count; i++)
        free(book->past[i]);
    free(book->record);
    hearth__slots_release(&book->slots);
    free(book);
}

static bool begins_like(const struct hearth__plan *plan, uint64_t key, size_t size)
{
    return plan->key == key && plan->sizes[0] == size;
}

bool hearth__book_knows(const struct hearth__book *book, uint64_t key, size_t size)
{
    for (uint32_t i = 0; i < book->plan_count; i++)
        if (begins_like(book->plans[i], key, size))
            return true;
    return false;
}

struct hearth__plan *hearth__book_choose(struct hearth__book *book, uint64_t key, size_t size)
{
    struct hearth__plan *chosen = NULL;
    struct hearth__plan *next = book->last == NULL ? NULL : book->last->next;
    if (next != NULL && begins_like(next, key, size) && next->placed)
        return next; /* runs of several kinds often take turns */
    for (uint32_t i = 0; i < book->plan_count; i++) {
        struct hearth__plan *plan = book->plans[i];
        if (plan->placed && begins_like(plan, key, size) &&
            (chosen == NULL || plan->used > chosen->used))
            chosen = plan;
    }
    return chosen;
}

struct hearth__plan *hearth__book_other(struct hearth__book *book, const struct hearth__plan *plan,
                                        uint32_t at, size_t size)
{
    for (uint32_t i = 0; i < book->plan_count; i++) {
        struct hearth__plan *other = book->plans[i];
        if (other != plan && other->placed && other->key == plan->key && other->count > at &&
            plan->count >= at && other->sizes[at] == size &&
            memcmp(other->sizes, plan->sizes, at * sizeof *plan->sizes) == 0)
            return other;
    }
    return NULL;
}

uint32_t hearth__book_next_number(struct hearth__book *book, bool any_live)
{
    if (book->number != UINT32_MAX)
        return ++book->number;
    if (any_live)
        return 0;
    for (uint32_t i = 0; i < book->plan_count; i++)
        for (uint32_t k = 0; k < book->plans[i]->count; k++)
            book->plans[i]->entries[k].over = 0;
    book->number = 1;
    return 1;
}

static void rest(struct hearth__book *book, uint32_t times)
{
    book->rest = times < 10 ? 1u << times : REST_MOST;
}

bool hearth__book_record_begin(struct hearth__book *book, uint64_t key)
{
    if (book->rest != 0) {
        book->rest--;
        return false;
    }
    book->record->key = key;
    book->record->count = 0;
    book->record->overflow = false;
    return true;
}

uint32_t hearth__book_record_request(struct hearth__book *book, size_t size)
{
    struct hearth__run_record *record = book->record;
    if (record->count == HEARTH__RUN_MOST) {
        record->overflow = true;
        rest(book, UINT32_MAX); /* what is so long is not recorded again soon */
        return HEARTH__RUN_MOST;
    }
    record->requests[record->count] =
        (struct hearth__run_request){.size = size, .most = size, .end = HEARTH__RUN_NO_END};
    return record->count++;
}

static void forget_past(struct hearth__book *book, uint32_t i)
{
    free(book->past[i]);
    for (uint32_t k = i + 1; k < book->past_count; k++)
        book->past[k - 1] = book->past[k];
    book->past_count--;
}

static void remember(struct hearth__book *book)
{
    const struct hearth__run_record *record = book->record;
    struct hearth__run_record *copy = malloc(hearth__run_record_bytes(record->count));
    if (copy == NULL)
        return;
    memcpy(copy, record, hearth__run_record_bytes(record->count));
    if (book->past_count == HEARTH__BOOK_PAST)
        free(book->past[--book->past_count]);
    for (uint32_t k = book->past_count; k > 0; k--)
        book->past[k] = book->past[k - 1];
    book->past[0] = copy;
    book->past_count++;
}

static bool is_of_plan(const struct hearth__plan *plan, uint64_t key, const size_t *sizes,
                       uint32_t count)
{
    return plan->key == key && plan->count == count &&
           memcmp(plan->sizes, sizes, count * sizeof *sizes) == 0;
}

/* Whether there is a plan for such a run, and the last run that followed it went well. */
static bool is_planned_well(const struct hearth__book *book,
                            const struct hearth__run_record *record)
{
    for (uint32_t i = 0; i < book->plan_count; i++) {
        const struct hearth__plan *plan = book->plans[i];
        uint32_t k = 0;
        uint32_t off = 0;
        if (plan->poor || plan->key != record->key || plan->count != record->count)
            continue;
        for (; k < record->count && plan->sizes[k] == record->requests[k].size; k++)
            off += record->requests[k].end == HEARTH__RUN_NO_END || record->requests[k].taken;
        /* If less outlives the run now, a new plan is better. */
        if (k == record->count && off >= plan->off_count)
            return true;
    }
    return false;
}

void hearth__book_record_end(struct hearth__book *book)
{
    struct hearth__run_record *record = book->record;
    book->recorded = false;
    if (record->count < HEARTH__RUN_LEAST) {
        if (++book->tiny % TINY == 0)
            rest(book, UINT32_MAX);
        return;
    }
    book->tiny = 0;
    book->credit += record->count * WORK_PAID;
    for (uint32_t i = 0; i < book->past_count && !record->overflow; i++) {
        if (!hearth__run_record_equal(book->past[i], record))
            continue;
        book->fruitless = 0;
        if (is_planned_well(book, record)) {
            forget_past(book, i);
            return;
        }
        hearth__run_record_unite(book->past[i], record);
        if (book->planning != NULL)
            return; /* one at a time: the next run like this comes here again */
        book->planning = hearth__planning_begin(book->past[i]);
        if (book->planning == NULL)
            rest(book, UINT32_MAX); /* nothing in it to plan */
        forget_past(book, i);
        return;
    }
    if (!record->overflow)
        remember(book);
    if (++book->fruitless > FRUITLESS)
        rest(book, book->fruitless - FRUITLESS);
}

static void drop_plan(struct hearth__book *book, uint32_t i)
{
    for (uint32_t k = 0; k < book->plan_count; k++)
        if (book->plans[k]->next == book->plans[i])
            book->plans[k]->next = NULL;
    if (book->last == book->plans[i])
        book->last = NULL;
    hearth__plan_free(book->plans[i]);
    book->plans[i] = book->plans[--book->plan_count];
}

void hearth__book_run_end(struct hearth__book *book, struct hearth__plan *plan, uint64_t served,
                          uint64_t bytes)
{
    hearth__plan_unblock(plan);
    if (book->last != NULL)
        book->last->next = plan;
    book->last = plan;
    book->credit += plan->count * WORK_PAID;
    plan->poor = served < bytes - bytes / 10;
    if (plan->poor)
        book->doubt += served < bytes / 2 ? DOUBT_MOST / 2 : 1;
}

bool hearth__book_doubts(struct hearth__book *book)
{
    if (book->trust != 0) {
        book->trust--;
        return false;
    }
    if (book->doubting == 0 && book->doubt >= DOUBT_MOST)
        book->doubting = DOUBT_RUNS;
    if (book->doubting == 0)
        return false;
    if (--book->doubting == 0) {
        book->doubt = 0;
        book->trust = book->doubts < 6 ? DOUBT_MOST << book->doubts : REST_MOST;
        book->doubts++;
    }
    book->rest = 0;
    return true;
}

bool hearth__book_plan_some(struct hearth__book *book, uint64_t work)
{
    if (book->planning == NULL || !hearth__planning_step(book->planning, work))
        return false;
    struct hearth__plan *plan = hearth__planning_end(book->planning);
    book->planning = NULL;
    if (plan == NULL)
        return false;
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < book->plan_count; i++)
        if (book->plans[i]->used < book->plans[oldest]->used)
            oldest = i;
    for (uint32_t i = 0; i < book->plan_count; i++)
        if (is_of_plan(book->plans[i], plan->key, plan->sizes, plan->count)) {
            drop_plan(book, i);
            break;
        }
    book->doubts = 0;
    if (book->plan_count == HEARTH__BOOK_PLANS)
        drop_plan(book, oldest);
    plan->used = ++book->clock;
    book->plans[book->plan_count++] = plan;
    book->plans_made++;
    return true;
}

bool hearth__book_work(struct hearth__book *book)
{
    if (book->recorded)
        hearth__book_record_end(book);
    if (book->planning == NULL)
        return false;
    bool at_once = hearth__planning_count(book->planning) <= HEARTH__BOOK_AT_ONCE;
    if (!at_once && book->credit < HEARTH__BOOK_SLICE)
        return false;
    book->credit = 0;
    bool made;
    do
        made = hearth__book_plan_some(book, HEARTH__BOOK_SLICE);
    while (!made && at_once && book->planning != NULL);
    return made;
}

bool hearth__book_is_waiting(const struct hearth__book *book)
{
    for (uint32_t i = 0; i < book->plan_count; i++)
        if (!book->plans[i]->placed)
            return true;
    return false;
}

size_t hearth__book_need(const struct hearth__book *book)
{
    size_t need = 0;
    for (uint32_t i = 0; i < book->plan_count; i++)
        if (book->plans[i]->bytes > need)
            need = book->plans[i]->bytes;
    return need;
}
