/* SPDX-License-Identifier: Apache-2.0 */
#include "core/bins.h"

#include <string.h>

static struct hearth__bins *bins_of(struct hearth__store *store)
{
    return (struct hearth__bins *)store;
}

static struct hearth__bin_set *set_of(struct hearth__bins *bins, unsigned alignment_log)
{
    if (alignment_log <= HEARTH__ALIGNMENT_LOG_MIN)
        return &bins->normal;
    return bins->aligned == NULL ? NULL
                                 : &bins->aligned[alignment_log - HEARTH__ALIGNMENT_LOG_MIN - 1];
}

/* Note that a list is empty. */
static void clear(struct hearth__bin_set *set, unsigned class_index)
{
    set->bins[class_index].oldest = NULL;
    set->occupied[class_index / 64] &= ~((uint64_t)1 << class_index % 64);
}

/* The occupied bits of a word, corrected for lists that were popped empty. */
static uint64_t occupied_bits(struct hearth__bin_set *set, unsigned word)
{
    for (uint64_t bits = set->occupied[word]; bits != 0; bits &= bits - 1) {
        unsigned class_index = word * 64 + (unsigned)__builtin_ctzl(bits);
        if (set->bins[class_index].newest == NULL)
            clear(set, class_index);
    }
    return set->occupied[word];
}

/* The first class in [from, to] that is not empty, or HEARTH__CLASS_COUNT. */
static unsigned first_occupied(struct hearth__bin_set *set, unsigned from, unsigned to)
{
    for (unsigned word = from / 64; word <= to / 64; word++) {
        uint64_t bits = set->occupied[word];
        if (word == from / 64)
            bits &= UINT64_MAX << from % 64;
        for (; bits != 0; bits &= bits - 1) {
            unsigned found = word * 64 + (unsigned)__builtin_ctzl(bits);
            if (found > to)
                return HEARTH__CLASS_COUNT;
            if (set->bins[found].newest != NULL)
                return found;
            clear(set, found);
        }
    }
    return HEARTH__CLASS_COUNT;
}

static unsigned last_occupied(struct hearth__bin_set *set)
{
    for (unsigned word = HEARTH__BITMAP_WORDS; word-- > 0;) {
        uint64_t bits = occupied_bits(set, word);
        if (bits != 0)
            return word * 64 + 63u - (unsigned)__builtin_clzl(bits);
    }
    return HEARTH__CLASS_COUNT;
}

static struct hearth_buf *bins_take(struct hearth__store *store, const struct hearth__want *want)
{
    struct hearth__bin_set *set = set_of(bins_of(store), want->alignment_log);
    if (set == NULL)
        return NULL;
    unsigned found = first_occupied(set, want->size_class, want->last_class);
    return found != HEARTH__CLASS_COUNT ? hearth__bin_pop(&set->bins[found]) : NULL;
}

static void bins_give(struct hearth__store *store, struct hearth_buf *buf)
{
    hearth__bin_push(set_of(bins_of(store), buf->alignment_log), buf);
}

static struct hearth_buf *bins_take_largest(struct hearth__store *store)
{
    struct hearth__bins *bins = bins_of(store);
    struct hearth__bin_set *best = &bins->normal;
    unsigned best_class = last_occupied(best);
    for (unsigned i = 0; bins->aligned != NULL && i < HEARTH__ALIGNED_SETS; i++) {
        unsigned last = last_occupied(&bins->aligned[i]);
        if (last != HEARTH__CLASS_COUNT &&
            (best_class == HEARTH__CLASS_COUNT || last > best_class)) {
            best = &bins->aligned[i];
            best_class = last;
        }
    }
    return best_class == HEARTH__CLASS_COUNT ? NULL : hearth__bin_pop(&best->bins[best_class]);
}

static void unlink_oldest(struct hearth__bin *bin)
{
    if (bin->oldest == bin->newest) {
        bin->newest = NULL;
        return;
    }
    bin->oldest = bin->oldest->prev;
    bin->oldest->next = NULL;
}

/* Find the oldest tail of a set, if it is older than what was found before. */
static void older_tail(struct hearth__bin_set *set, struct hearth__bin_set **best_set,
                       struct hearth_buf **best)
{
    for (unsigned word = 0; word < HEARTH__BITMAP_WORDS; word++) {
        for (uint64_t bits = occupied_bits(set, word); bits != 0; bits &= bits - 1) {
            unsigned class_index = word * 64 + (unsigned)__builtin_ctzl(bits);
            struct hearth_buf *tail = set->bins[class_index].oldest;
            if (*best == NULL ||
                hearth__load_relaxed(&tail->stamp) < hearth__load_relaxed(&(*best)->stamp)) {
                *best = tail;
                *best_set = set;
            }
        }
    }
}

/* The least recently given slot, and the set it is in; NULL when the store is empty. */
static struct hearth_buf *oldest_tail(struct hearth__bins *bins, struct hearth__bin_set **set)
{
    struct hearth_buf *oldest = NULL;
    older_tail(&bins->normal, set, &oldest);
    for (unsigned i = 0; bins->aligned != NULL && i < HEARTH__ALIGNED_SETS; i++)
        older_tail(&bins->aligned[i], set, &oldest);
    return oldest;
}

static struct hearth_buf *bins_evict(struct hearth__store *store, uint64_t before)
{
    struct hearth__bin_set *set = NULL;
    struct hearth_buf *victim = oldest_tail(bins_of(store), &set);
    if (victim == NULL || hearth__load_relaxed(&victim->stamp) >= before)
        return NULL;
    unlink_oldest(&set->bins[victim->size_class]);
    return victim;
}

static void bins_give_back(struct hearth__store *store, struct hearth_buf *buf)
{
    struct hearth__bin_set *set = set_of(bins_of(store), buf->alignment_log);
    struct hearth__bin *bin = &set->bins[buf->size_class];
    if (bin->newest == NULL) {
        hearth__bin_push(set, buf);
        return;
    }
    buf->next = NULL;
    buf->prev = bin->oldest;
    bin->oldest->next = buf;
    bin->oldest = buf;
}

static uint64_t bins_oldest(struct hearth__store *store)
{
    struct hearth__bin_set *set = NULL;
    const struct hearth_buf *oldest = oldest_tail(bins_of(store), &set);
    return oldest == NULL ? UINT64_MAX : hearth__load_relaxed(&oldest->stamp);
}

static void count_set(const struct hearth__bin_set *set, size_t *slots, size_t *bytes)
{
    for (unsigned i = 0; i < HEARTH__CLASS_COUNT; i++) {
        for (const struct hearth_buf *buf = set->bins[i].newest; buf != NULL; buf = buf->next) {
            *slots += 1;
            *bytes += hearth__buf_capacity(buf);
        }
    }
}

static void bins_count(const struct hearth__store *store, size_t *slots, size_t *bytes)
{
    const struct hearth__bins *bins = (const struct hearth__bins *)store;
    *slots = 0;
    *bytes = 0;
    count_set(&bins->normal, slots, bytes);
    for (unsigned i = 0; bins->aligned != NULL && i < HEARTH__ALIGNED_SETS; i++)
        count_set(&bins->aligned[i], slots, bytes);
}

const struct hearth__store_ops hearth__bins_ops = {
    .take = bins_take,
    .take_largest = bins_take_largest,
    .give = bins_give,
    .evict = bins_evict,
    .give_back = bins_give_back,
    .oldest = bins_oldest,
    .count = bins_count,
};

void hearth__bins_init(struct hearth__bins *bins)
{
    memset(bins, 0, sizeof *bins);
    bins->store.ops = &hearth__bins_ops;
}

void hearth__bins_add_aligned(struct hearth__bins *bins, struct hearth__segment *segment)
{
    bins->aligned = hearth__segment_core(segment);
    memset(bins->aligned, 0, HEARTH__ALIGNED_SETS * sizeof *bins->aligned);
}

void hearth__bins_fini(struct hearth__bins *bins)
{
    if (bins->aligned != NULL)
        hearth__segment_release(hearth__core_segment(bins->aligned));
    bins->aligned = NULL;
}
