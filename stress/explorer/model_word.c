/* SPDX-License-Identifier: Apache-2.0 */
/* The state word {generation, state, count} of a slot of an I/O arena, as in src/concurrent/io.c,
 * io_lease.c and io_list.c: who may end a buffer, once. */
#include "models.h"

#include <stddef.h>

enum location { WORD, PAYLOAD, STORAGE };

static const char *const locations[] = {"word", "payload", "storage", NULL};

enum variant_number {
    RELEASE_RELAXED,
    RELEASE_STORE,
    RELEASE_ANY_GENERATION,
    RETAIN_BLIND,
    EXPORT_STORE,
    CLAIM_BLIND,
    CLAIM_RELAXED,
};

static const struct variant variants[] = {
    [RELEASE_RELAXED] = {"release_relaxed", "a release orders nothing"},
    [RELEASE_STORE] = {"release_store", "a release loads the count and stores it"},
    [RELEASE_ANY_GENERATION] = {"release_any_generation", "a release ignores the generation"},
    [RETAIN_BLIND] = {"retain_blind", "a retain adds one to whatever the word is"},
    [EXPORT_STORE] = {"export_store", "an export stores the lease"},
    [CLAIM_BLIND] = {"claim_blind", "who popped a slot stores its state"},
    [CLAIM_RELAXED] = {"claim_relaxed", "the evictor's claim orders nothing"},
    {NULL, NULL},
};

enum state { LIVE = 1, LEASED, FREE, EVICTED };

#define WORD_OF(generation, state, count)                                                          \
    ((uint64_t)(generation) << 16 | (uint64_t)(state) << 8 | (uint64_t)(count))
#define GENERATION_OF(word) ((unsigned)((word) >> 16))
#define STATE_OF(word) ((enum state)((word) >> 8 & 0xff))
#define COUNT_OF(word) ((unsigned)((word)&0xff))

static unsigned oks, lasts, claims;

enum answer { STALE, OK, LAST };

static enum answer release(unsigned generation)
{
    uint64_t word = load(WORD, RELAXED);
    for (;;) {
        if (STATE_OF(word) != LEASED ||
            (GENERATION_OF(word) != generation && !broken(RELEASE_ANY_GENERATION)))
            return STALE;
        bool last = COUNT_OF(word) == 1;
        uint64_t next = last ? WORD_OF(GENERATION_OF(word) + 1, FREE, 0) : word - 1;
        if (broken(RELEASE_STORE))
            store(WORD, next, RELEASE);
        else if (!cas(WORD, &word, next, broken(RELEASE_RELAXED) ? RELAXED : ACQ_REL))
            continue;
        oks++;
        lasts += last;
        return last ? LAST : OK;
    }
}

static bool retain(unsigned generation)
{
    if (broken(RETAIN_BLIND))
        return STATE_OF(fetch_add(WORD, 1, RELAXED)) != 0;
    uint64_t word = load(WORD, RELAXED);
    do {
        if (STATE_OF(word) != LEASED || GENERATION_OF(word) != generation)
            return false;
    } while (!cas(WORD, &word, word + 1, RELAXED));
    return true;
}

static void start_with(uint64_t word)
{
    initial(WORD, word);
    initial(PAYLOAD, 1);
    initial(STORAGE, 1);
    oks = lasts = claims = 0;
}

/* Two holders read the payload and release; the last one hands the storage to the next user. */

static void holders_start(void)
{
    start_with(WORD_OF(1, LEASED, 2));
}

static void holders_run(unsigned thread)
{
    (void)thread;
    (void)data_read(PAYLOAD);
    if (release(1) == LAST)
        data_write(PAYLOAD, 2);
}

static void holders_finish(void)
{
    require(oks == 2, "a right release was refused");
    require(lasts == 1, "not exactly one release was the last");
    require(final(WORD) == WORD_OF(2, FREE, 0), "the word does not say free");
}

/* One reference, released twice; who was first uses the slot again. */

static void twice_start(void)
{
    start_with(WORD_OF(1, LEASED, 1));
}

static void twice_run(unsigned thread)
{
    if (release(1) != STALE) {
        store(WORD, WORD_OF(2, LEASED, 1), RELEASE);
        if (thread == 1 || release(2) != STALE)
            claims++;
    }
}

static void twice_finish(void)
{
    require(claims == 1, "not exactly one of two releases was right");
    require(oks == lasts, "a release of one reference was not the last");
    require(GENERATION_OF(final(WORD)) >= 2, "the word went back");
}

/* A retain of a lease that ends meanwhile: it keeps the lease, or it is refused. */

static void retain_start(void)
{
    start_with(WORD_OF(1, LEASED, 1));
}

static void retain_run(unsigned thread)
{
    if (thread == 1) {
        if (!retain(1))
            return;
        require(GENERATION_OF(final(WORD)) == 1, "retained what is not this lease");
        require(data_read(PAYLOAD) == 1, "retained another lease's payload");
        if (release(1) == LAST)
            data_write(PAYLOAD, 2);
        return;
    }
    if (release(1) == LAST) {
        data_write(PAYLOAD, 2);
        store(WORD, WORD_OF(2, LEASED, 1), RELEASE);
    }
}

static void retain_finish(void)
{
    require(COUNT_OF(final(WORD)) <= 1, "a reference is left that nobody has");
    require(lasts == 1, "not exactly one release was the last");
}

/* Two misusers of one bare buffer: one exports it, one frees it. */

static void export_start(void)
{
    start_with(WORD_OF(1, LIVE, 0));
}

static void export_run(unsigned thread)
{
    uint64_t word = load(WORD, RELAXED);
    if (STATE_OF(word) != LIVE)
        return;
    if (thread == 0 && broken(EXPORT_STORE)) {
        store(WORD, WORD_OF(1, LEASED, 1), RELEASE);
        claims++;
    } else {
        uint64_t next = thread == 0 ? WORD_OF(1, LEASED, 1) : WORD_OF(2, FREE, 0);
        claims += cas(WORD, &word, next, thread == 0 ? RELAXED : ACQ_REL);
    }
}

static void one_claim(void)
{
    require(claims == 1, "not exactly one of two was right");
}

/* A slot comes home, is popped by the same thread, and evicted by the other meanwhile. */

static void evict_start(void)
{
    start_with(WORD_OF(1, LEASED, 1));
}

static void evict_run(unsigned thread)
{
    uint64_t word;
    if (thread == 0) {
        /* As evict_one: a walk saw the slot free. */
        word = load(WORD, broken(CLAIM_RELAXED) ? RELAXED : ACQUIRE);
        if (STATE_OF(word) != FREE || !cas(WORD, &word, WORD_OF(GENERATION_OF(word), EVICTED, 0),
                                           broken(CLAIM_RELAXED) ? RELAXED : ACQUIRE))
            return;
        data_write(STORAGE, 0);
        claims++;
        return;
    }
    data_write(STORAGE, 2);
    store(WORD, WORD_OF(2, FREE, 0), RELEASE);
    word = load(WORD, RELAXED);
    if (STATE_OF(word) != FREE)
        return;
    if (broken(CLAIM_BLIND))
        store(WORD, WORD_OF(2, LEASED, 1), RELEASE);
    else if (!cas(WORD, &word, WORD_OF(2, LEASED, 1), ACQUIRE))
        return;
    require(data_read(STORAGE) == 2, "the storage is gone");
    claims++;
}

static const struct scenario scenarios[] = {
    {"two holders", 2, holders_start, holders_run, holders_finish},
    {"double release", 2, twice_start, twice_run, twice_finish},
    {"retain against last release", 2, retain_start, retain_run, retain_finish},
    {"export against free", 2, export_start, export_run, one_claim},
    {"eviction against pop", 2, evict_start, evict_run, one_claim},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_word = {
    .name = "word",
    .what = "the state word of a slot: retain, release, export, free, claims",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
