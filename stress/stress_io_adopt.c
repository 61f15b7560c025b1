/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage from outside, views, handles and the deleter, moved between threads.
 *
 * Threads lend blocks of their own to the arena, make views of the leases, put leases and buffers into
 * handles, and pass all of it on through boxes; whoever takes it out resets, releases or passes it on as
 * something else.
 *
 * Oracle: a block's callback is called exactly once for each adoption, with the block, its size and its own
 * context, and never while somebody still has a reference; payloads are right; every call on what is held
 * is OK; at the end all blocks are home and nothing is live.
 */
#include "harness.h"

#include <hearth/handle.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 64
#define BLOCK_SIZE ((size_t)512)
#define BOXES 8
#define THREADS_MAX 64
#define SMOKE_ROUNDS 15000

struct block {
    uint64_t words[BLOCK_SIZE / sizeof(uint64_t)];
    _Atomic(uint64_t) adoption; /* 0: at home; else which one, as given as context */
};

enum kind { LEASE, VIEW, HANDLE, DELETER, KINDS };

/* What is passed on: one reference in one of several forms. */
struct parcel {
    enum kind kind;
    struct hearth_view view; /* LEASE and DELETER: of everything */
    struct hearth_handle handle;
    uint64_t tag;
    size_t offset;
    size_t whole;
};

struct worker {
    uint64_t random;
    uint64_t adoptions, buffers, passed;
    unsigned number;
};

static struct stress_options options;
static struct hearth_io *arena;
static struct block blocks[BLOCKS];
static _Atomic(uint64_t) adoptions, callbacks;
static _Atomic(struct parcel *) boxes[BOXES];

static void expect_ok(enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK)
        stress_violation("%s was answered %s", what, hearth_status_name(status));
}

static void come_home(void *data, size_t size, void *context)
{
    struct block *block = data;
    uint64_t adoption = (uint64_t)(uintptr_t)context;
    if (size != BLOCK_SIZE || block < blocks || block >= blocks + BLOCKS)
        stress_violation("a callback with a wrong block");
    else if (!stress_marked(data, size, adoption))
        stress_violation("a block came home with a wrong payload");
    else {
        stress_mark(data, size, ~adoption);
        if (!atomic_compare_exchange_strong_explicit(&block->adoption, &adoption, 0,
                                                     memory_order_release, memory_order_relaxed))
            stress_violation("a block came home twice");
    }
    atomic_fetch_add_explicit(&callbacks, 1, memory_order_relaxed);
}

static bool adopt(struct worker *self, struct parcel *parcel)
{
    struct block *block = &blocks[stress_next(&self->random) % BLOCKS];
    uint64_t home = 0;
    uint64_t adoption = atomic_fetch_add_explicit(&adoptions, 1, memory_order_relaxed) + 1;
    if (!atomic_compare_exchange_strong_explicit(&block->adoption, &home, adoption,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    stress_mark(block, BLOCK_SIZE, adoption);
    stress_must(hearth_io_adopt(arena, block, BLOCK_SIZE, come_home, (void *)(uintptr_t)adoption,
                                &parcel->view.lease),
                "adopt");
    parcel->tag = adoption;
    self->adoptions++;
    return true;
}

/* A buffer of the arena's own, as a lease or at once in a handle. */
static void make_buffer(struct worker *self, struct parcel *parcel)
{
    struct hearth_buf *buf;
    parcel->tag = (uint64_t)(self->number + 1) << 48 | ++self->buffers;
    stress_must(hearth_io_alloc(arena, BLOCK_SIZE, &buf), "alloc");
    stress_mark(hearth_buf_data(buf), BLOCK_SIZE, parcel->tag);
    switch (stress_next(&self->random) % 3) {
    case 0:
        expect_ok(hearth_io_export(arena, buf, &parcel->view.lease), "export");
        return;
    case 1:
        expect_ok(hearth_io_export_handle(arena, buf, &parcel->handle), "export to a handle");
        break;
    default:
        expect_ok(hearth_handle_from_buf(buf, &parcel->handle), "a handle");
        expect_ok(hearth_io_export_held(arena, &parcel->handle), "export of a handle");
        break;
    }
    if (!hearth_handle_holds_lease(&parcel->handle))
        stress_violation("a handle does not hold the lease that it was given");
    expect_ok(hearth_handle_release_lease(&parcel->handle, &parcel->view.lease),
              "the lease of a handle");
}

static void check(const struct parcel *parcel)
{
    struct hearth_lease lease = parcel->view.lease;
    if (parcel->kind == HANDLE) {
        const struct hearth_buf *buf = hearth_handle_buf(&parcel->handle);
        if (buf == NULL || !stress_marked(hearth_buf_data(buf), parcel->whole, parcel->tag))
            stress_violation("the payload in a handle is not its holder's");
        return;
    }
    const char *data = hearth_lease_data(lease);
    if (data == NULL || !stress_marked(data, parcel->whole, parcel->tag))
        stress_violation("the payload of a lease is not its holder's");
    else if (parcel->kind == VIEW && (const char *)parcel->view.data != data + parcel->offset)
        stress_violation("a view moved");
}

/* Another form of the same reference, or of one more in place of it. */
static void change(struct worker *self, struct parcel *parcel, bool adopted)
{
    uint64_t draw = stress_next(&self->random);
    struct hearth_lease lease = parcel->view.lease;
    parcel->kind = (enum kind)(draw % KINDS);
    if (parcel->kind == DELETER && adopted)
        parcel->kind = LEASE; /* adopted storage has no deleter */
    if (parcel->kind == VIEW) {
        parcel->offset = (draw >> 8) % parcel->whole;
        expect_ok(
            hearth_lease_view(lease, parcel->offset, parcel->whole - parcel->offset, &parcel->view),
            "a view");
        expect_ok(hearth_lease_release(lease), "the release under a view");
    } else if (parcel->kind == HANDLE) {
        expect_ok(hearth_handle_from_lease(lease, &parcel->handle), "a handle from a lease");
        parcel->view.lease = (struct hearth_lease)HEARTH_LEASE_INIT;
    }
}

static void give_up(struct parcel *parcel)
{
    struct hearth_handle other = HEARTH_HANDLE_INIT;
    check(parcel);
    switch (parcel->kind) {
    case HANDLE:
        expect_ok(hearth_handle_move(&other, &parcel->handle), "a move");
        expect_ok(hearth_handle_reset(&other), "a reset");
        expect_ok(hearth_handle_reset(&parcel->handle), "the reset of an empty handle");
        break;
    case DELETER:
        hearth_lease_deleter(hearth_lease_data(parcel->view.lease));
        break;
    default:
        expect_ok(hearth_lease_release(parcel->view.lease), "a release");
        break;
    }
    free(parcel);
}

/* Into a box; what was there is given up, or shared once more. */
static void pass_on(struct worker *self, struct parcel *parcel)
{
    uint64_t draw = stress_next(&self->random);
    parcel = atomic_exchange_explicit(&boxes[draw % BOXES], parcel, memory_order_acq_rel);
    self->passed++;
    if (parcel != NULL)
        give_up(parcel);
}

/* A second holder of the same lease, who gets it through a box of its own. */
static void share(struct worker *self, const struct parcel *parcel)
{
    struct parcel *twin = malloc(sizeof *twin);
    if (twin == NULL)
        abort();
    *twin = *parcel;
    twin->kind = LEASE;
    expect_ok(hearth_lease_retain(twin->view.lease), "a retain");
    pass_on(self, twin);
}

static void step(struct worker *self)
{
    struct parcel *parcel = calloc(1, sizeof *parcel);
    if (parcel == NULL)
        abort();
    uint64_t draw = stress_next(&self->random);
    bool adopted = draw % 2 == 0;
    parcel->whole = BLOCK_SIZE;
    if (!adopted) {
        make_buffer(self, parcel);
    } else if (!adopt(self, parcel)) {
        free(parcel);
        return;
    }
    if (draw >> 62 == 0)
        share(self, parcel);
    change(self, parcel, adopted);
    check(parcel);
    pass_on(self, parcel);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    for (uint64_t round = 0; stress_goes_on(&options, round, SMOKE_ROUNDS); round++)
        step(self);
    return NULL;
}

static void check_end(uint64_t adopted)
{
    for (unsigned i = 0; i < BOXES; i++) {
        struct parcel *parcel = atomic_exchange_explicit(&boxes[i], NULL, memory_order_acquire);
        if (parcel != NULL)
            give_up(parcel);
    }
    uint64_t called = atomic_load_explicit(&callbacks, memory_order_relaxed);
    if (called != adopted)
        stress_violation("%" PRIu64 " adoptions, %" PRIu64 " callbacks", adopted, called);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (atomic_load_explicit(&blocks[i].adoption, memory_order_relaxed) != 0)
            stress_violation("block %u did not come home", i);
    }
    if (hearth_misuse_count() != 0)
        stress_violation("%" PRIu64 " misuses", hearth_misuse_count());
    stress_io_home(arena);
    stress_must(hearth_io_destroy(arena), "destroy");
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    struct worker workers[THREADS_MAX];
    struct stress_lender lender = {0};
    uint64_t adopted = 0;
    uint64_t buffers = 0;
    uint64_t passed = 0;
    options = stress_parse(argc, argv, "stress_io_adopt", 3);
    arena = stress_io_open(&lender, (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i] = (struct worker){.number = i, .random = stress_seed(&options, i)};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < options.threads; i++) {
        pthread_join(threads[i], NULL);
        adopted += workers[i].adoptions;
        buffers += workers[i].buffers;
        passed += workers[i].passed;
    }
    check_end(adopted);
    char counts[140];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " adoptions, %" PRIu64 " buffers, %" PRIu64 " hand-overs", adopted, buffers,
             passed);
    return stress_verdict("stress_io_adopt", &options, counts);
}
