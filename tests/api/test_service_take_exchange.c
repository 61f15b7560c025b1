/* SPDX-License-Identifier: Apache-2.0 */
/* A take gives the execution arena free storage of the I/O arena in return.
 * Covered: takes in a row, with leases held and released here or elsewhere, cost no backing call and let nothing
 * grow; figures and limits of both arenas; what is not exchanged: other classes and alignments, beyond the cap or the
 * ceiling, after a close; slots that ran out; trims and debugging. Not covered: races (stress/). */
#include "service_support.h"

#include <stdlib.h>

enum { MANY = 1000, HELD_MOST = 8 };

static struct rig rig;

TestSuite(take_exchange, .init = NULL, .timeout = 120);

/* Both arenas' figures are exact, and nobody else has storage of the bank. */
static void exact(struct hearth_exec *arena)
{
    check_identity(arena, NULL);
    io_identity(rig.io, NULL);
    EXPECT_SIZE(bank_bytes(&rig.bank), hearth_io_footprint(rig.io) + hearth_exec_footprint(arena));
    rig_identity(&rig);
}

/* One output: written, taken, and read through its lease. */
static struct hearth_lease output(struct hearth_exec *arena, size_t size, unsigned char value)
{
    struct hearth_buf *buf = take(arena, size), *taken = NULL;
    const void *data = hearth_buf_data(buf);
    fill(buf, value);
    EXPECT(HEARTH_OK, hearth_io_take(rig.io, buf, &taken));
    cr_assert_eq(hearth_buf_data(taken), data);
    EXPECT(HEARTH_STALE, hearth_exec_free(arena, buf));
    cr_assert(filled(taken, size, value));
    return io_export(rig.io, taken);
}

/* A run with one output, the last `held` of which are kept. */
static void repeat(struct hearth_exec *arena, size_t size, size_t held, bool drop_first)
{
    struct hearth_lease leases[HELD_MOST + 1] = {HEARTH_LEASE_INIT};
    uint64_t acquires = 0, releases = 0;
    size_t footprint = 0, peak = 0;
    for (size_t run = 0; run < MANY; run++) {
        struct hearth_lease *oldest = &leases[run % (held + 1)];
        if (drop_first && oldest->buf)
            io_drop(*oldest);
        *oldest = output(arena, size, (unsigned char)run);
        struct hearth_lease *next = &leases[(run + 1) % (held + 1)];
        if (!drop_first && next->buf) {
            io_drop(*next);
            next->buf = NULL;
        }
        exact(arena);
        if (run == held + 3) {
            acquires = bank_acquires(&rig.bank);
            releases = rig.bank.releases;
            footprint = hearth_exec_footprint(arena);
            peak = bank_bytes(&rig.bank);
        }
        if (run <= held + 3)
            continue;
        EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
        EXPECT_SIZE(releases, rig.bank.releases);
        EXPECT_SIZE(footprint, hearth_exec_footprint(arena));
        EXPECT_SIZE(peak, bank_bytes(&rig.bank));
    }
    cr_assert_leq(peak, (held + 2) * class_of(size));
    for (size_t i = 0; i <= held; i++)
        if (leases[i].buf)
            (void)hearth_lease_release(leases[i]);
}

Test(take_exchange, takes_in_a_row_cost_nothing)
{
    static const size_t sizes[] = {MIB, 64 * KIB, 4 * KIB, 100};
    static const size_t held[] = {0, 1, HELD_MOST};
    for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(held); i++)
        for (unsigned drop_first = 0; drop_first < 2; drop_first++) {
            rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
            repeat(exec_of(rig.service), sizes[i / COUNT_OF(held)], held[i % COUNT_OF(held)],
                   drop_first != 0);
            rig_close(&rig);
        }
}

/* What is charged for the storage goes along: there is no credit to spare. */
Test(take_exchange, under_a_ceiling_without_slack)
{
    static const size_t grants[] = {64, 64 * KIB, MIB};
    for (size_t i = 0; i < COUNT_OF(grants); i++) {
        rig_open(&rig, SERVICE_OPTIONS(.ceiling = MIB, .grant = grants[i]));
        struct hearth_exec *arena = exec_of(rig.service);
        struct hearth_buf *buf = take(arena, MIB), *taken = NULL;
        warm_io(rig.service, MIB, 1);
        EXPECT(HEARTH_OK, hearth_io_take(rig.io, buf, &taken));
        EXPECT_SIZE(MIB, hearth_exec_retained_bytes(arena));
        EXPECT_SIZE(MIB, hearth_service_retained_bytes(rig.service));
        EXPECT_SIZE(0, rig.bank.releases);
        io_give(rig.io, taken);
        rig_close(&rig);
        rig_open(&rig, SERVICE_OPTIONS(.ceiling = 2 * MIB, .grant = grants[i]));
        repeat(exec_of(rig.service), MIB, 0, i == 0);
        cr_assert_leq(hearth_service_stranded_bytes(rig.service), grants[i]);
        rig_close(&rig);
    }
}

Test(take_exchange, with_a_limit_on_live_bytes)
{
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = 2 * MIB));
    repeat(exec_of(rig.service), MIB, 0, true);
    EXPECT_SIZE(0, hearth_service_live_capacity(rig.service));
    io_drop(io_lease(rig.io, 2 * MIB)); /* all of the limit is there again */
    rig_close(&rig);
}

/* Both arenas come to have what their busiest moment asks for, and no more. */
Test(take_exchange, beside_other_traffic)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
    struct hearth_exec *arena = exec_of(rig.service);
    uint64_t acquires = 0;
    for (size_t run = 0; run < 200; run++) {
        struct hearth_lease in = io_lease(rig.io, 100 * KIB);
        struct hearth_buf *scratch = take(arena, 100 * KIB);
        struct hearth_lease first = output(arena, 100 * KIB, 1);
        struct hearth_lease small = output(arena, 3000, 2);
        struct hearth_lease second = output(arena, 100 * KIB, 3);
        give(arena, scratch);
        io_drop(in);
        io_drop(second);
        io_drop(small);
        io_drop(first);
        exact(arena);
        if (run == 5)
            acquires = bank_acquires(&rig.bank);
        if (run > 5)
            EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    }
    EXPECT_SIZE(0, rig.bank.releases);
    rig_close(&rig);
}

static void drop_it(void *lease)
{
    io_drop(*(struct hearth_lease *)lease);
}

/* What another thread keeps in its cache is found once that is full. */
Test(take_exchange, released_by_another_thread)
{
    static const size_t sizes[] = {MIB, 4 * KIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct worker worker;
        rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
        worker_start(&worker);
        struct hearth_exec *arena = exec_of(rig.service);
        uint64_t acquires = 0;
        for (size_t run = 0; run < 300; run++) {
            struct hearth_lease lease = output(arena, sizes[i], (unsigned char)run);
            worker_run(&worker, drop_it, &lease);
            exact(arena);
            if (run == 100)
                acquires = bank_acquires(&rig.bank);
            if (run > 100)
                EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
        }
        worker_end(&worker);
        rig_close(&rig);
    }
}

/* The figures of a single exchange. */
Test(take_exchange, what_is_counted)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
    struct hearth_exec *arena = exec_of(rig.service);
    warm_io(rig.service, MIB, 2);
    struct hearth_buf *buf = take(arena, MIB - 5), *taken = NULL;
    struct hearth_exec_stats before = stats_of(arena);
    struct hearth_io_stats io_before = HEARTH_IO_STATS_INIT, io_after = HEARTH_IO_STATS_INIT;
    EXPECT(HEARTH_OK, hearth_io_stats(rig.io, &io_before));
    EXPECT(HEARTH_OK, hearth_io_take(rig.io, buf, &taken));
    struct hearth_exec_stats after = stats_of(arena);
    EXPECT(HEARTH_OK, hearth_io_stats(rig.io, &io_after));
    EXPECT_SIZE(MIB, after.footprint);
    EXPECT_SIZE(MIB, after.retained_bytes);
    EXPECT_SIZE(1, after.retained_count);
    EXPECT_SIZE(0, after.live_count + after.live_bytes + after.live_capacity);
    EXPECT_SIZE(before.backing_acquires + 1, after.backing_acquires);
    EXPECT_SIZE(before.backing_releases + 1, after.backing_releases);
    EXPECT_SIZE(before.misses, after.misses);
    EXPECT_SIZE(before.hits, after.hits);
    EXPECT_SIZE(before.allocs, after.allocs);
    EXPECT_SIZE(before.frees + 1, after.frees);
    EXPECT_SIZE(before.evictions + before.bypasses, after.evictions + after.bypasses);
    EXPECT_SIZE(2 * MIB, io_after.footprint);
    EXPECT_SIZE(1, io_after.retained_count);
    EXPECT_SIZE(1, io_after.live_count);
    EXPECT_SIZE(MIB - 5, io_after.live_bytes);
    EXPECT_SIZE(io_before.backing_acquires + 1, io_after.backing_acquires);
    EXPECT_SIZE(io_before.backing_releases + 1, io_after.backing_releases);
    EXPECT_SIZE(io_before.misses, io_after.misses);
    EXPECT_SIZE(io_before.evictions + io_before.bypasses, io_after.evictions + io_after.bypasses);
    EXPECT_SIZE(3, bank_acquires(&rig.bank));
    exact(arena);
    /* It serves as any other free buffer, and nothing of what it held is taken for zero. */
    const struct hearth_request request = {.size = MIB, .zero = true};
    EXPECT(HEARTH_OK, hearth_exec_alloc_ex(arena, &request, &buf));
    cr_assert(filled(buf, MIB, 0));
    EXPECT_SIZE(3, bank_acquires(&rig.bank));
    give(arena, buf);
    io_give(rig.io, taken);
    exact(arena);
    rig_close(&rig);
}

/* Takes a buffer with something of the I/O arena's free: whether it came in return. */
static bool exchanges(struct hearth_io *io, struct hearth_exec *arena, size_t size,
                      size_t alignment)
{
    struct hearth_buf *buf = take_aligned(arena, size, alignment), *taken = NULL;
    size_t capacity = hearth_buf_capacity(buf), retained = hearth_exec_retained_count(arena);
    size_t bytes = hearth_exec_retained_bytes(arena), io_retained = hearth_io_retained_bytes(io);
    size_t acquires = bank_acquires(&rig.bank), releases = rig.bank.releases;
    EXPECT(HEARTH_OK, hearth_io_take(io, buf, &taken));
    bool came = hearth_exec_retained_count(arena) != retained;
    EXPECT_SIZE(retained + came, hearth_exec_retained_count(arena));
    EXPECT_SIZE(bytes + (came ? capacity : 0), hearth_exec_retained_bytes(arena));
    EXPECT_SIZE(io_retained - (came ? capacity : 0), hearth_io_retained_bytes(io));
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    EXPECT_SIZE(releases, rig.bank.releases);
    io_give(io, taken);
    check_identity(arena, NULL);
    io_identity(io, NULL);
    return came;
}

Test(take_exchange, only_for_its_like)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
    struct hearth_exec *arena = exec_of(rig.service);
    give(arena, take_aligned(arena, 64, 256)); /* has lists for alignments */
    warm_io(rig.service, 640 * KIB, 1);
    cr_assert_not(exchanges(rig.io, arena, 768 * KIB, 64));
    cr_assert_not(exchanges(rig.io, arena, 512 * KIB, 64));
    cr_assert_not(exchanges(rig.io, arena, 640 * KIB, 4096));
    cr_assert(exchanges(rig.io, arena, 640 * KIB, 64));
    cr_assert(exchanges(rig.io, arena, 640 * KIB, 4096)); /* what the third of them left */
    exact(arena);
    rig_close(&rig);
}

Test(take_exchange, within_the_retention_cap)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
    struct hearth_exec *arena = exec_of(rig.service);
    warm_io(rig.service, MIB, 1);
    EXPECT(HEARTH_OK, hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_EXEC, MIB - 64));
    for (size_t i = 0; i < 3; i++)
        cr_assert_not(exchanges(rig.io, arena, MIB, 64));
    EXPECT(HEARTH_OK, hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_EXEC, MIB));
    cr_assert(exchanges(rig.io, arena, MIB, 64));
    struct hearth_buf *first = take(arena, MIB), *second = take(arena, MIB), *taken = NULL;
    give(arena, first);
    EXPECT(HEARTH_OK, hearth_io_take(rig.io, second, &taken)); /* the cap is reached */
    EXPECT_SIZE(MIB, hearth_exec_retained_bytes(arena));
    io_give(rig.io, taken);
    EXPECT_SIZE(0, stats_of(arena).evictions);
    rig_close(&rig);
}

/* An execution arena of another service, of none, and an I/O arena of none: each is charged for its own. */
Test(take_exchange, between_services)
{
    struct rig none = {.service = NULL};
    struct hearth_service *other = NULL;
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
    struct hearth_service_options options =
        SERVICE_OPTIONS(.ceiling = 2 * MIB, .grant = 64 * KIB, .live_limit = 8 * MIB,
                        .exec_backing = rig.bank.backing, .io_backing = rig.bank.backing);
    EXPECT(HEARTH_OK, hearth_service_create(&options, &other));
    struct hearth_exec_options alone = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_io_options io_alone = HEARTH_IO_OPTIONS_INIT;
    alone.backing = io_alone.backing = rig.bank.backing;
    io_alone.live_limit = 4 * MIB;
    struct hearth_exec *exec = NULL;
    EXPECT(HEARTH_OK, hearth_exec_create(&alone, &exec));
    EXPECT(HEARTH_OK, hearth_io_create(&io_alone, &none.io));
    warm_io(rig.service, MIB, 1);
    struct hearth_exec *theirs = exec_of(other);
    cr_assert(exchanges(rig.io, theirs, MIB, 64));
    cr_assert(exchanges(rig.io, exec, MIB, 64));
    io_give(none.io, io_take(none.io, MIB));
    cr_assert(exchanges(none.io, theirs, MIB, 64));
    cr_assert(exchanges(none.io, exec, MIB, 64));
    EXPECT_SIZE(MIB, hearth_exec_retained_bytes(theirs));
    EXPECT(HEARTH_OK, hearth_service_set_ceiling(other, MIB)); /* and so full */
    struct hearth_buf *spare = take(theirs, MIB), *buf = take(theirs, MIB), *taken = NULL;
    give(theirs, spare);
    size_t retained = hearth_io_retained_bytes(rig.io);
    EXPECT(HEARTH_OK, hearth_io_take(rig.io, buf, &taken));
    EXPECT_SIZE(retained, hearth_io_retained_bytes(rig.io));
    EXPECT_SIZE(MIB, hearth_service_retained_bytes(other));
    io_give(rig.io, taken);
    EXPECT_SIZE(0, hearth_service_live_capacity(other));
    /* And when it is closed it keeps nothing. */
    buf = take(theirs, MIB);
    EXPECT(HEARTH_OK, hearth_service_close(other));
    retained = hearth_io_retained_bytes(rig.io);
    EXPECT(HEARTH_OK, hearth_io_take(rig.io, buf, &taken));
    EXPECT_SIZE(retained, hearth_io_retained_bytes(rig.io));
    io_give(rig.io, taken);
    hearth_service_unref(other);
    check_identity(exec, NULL);
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
    EXPECT(HEARTH_OK, hearth_io_destroy(none.io));
    rig_close(&rig);
}

Test(take_exchange, arenas_of_no_service)
{
    struct memory memory;
    memory_init(&memory);
    struct hearth_io *io = io_create(&memory, 2, MIB, 0);
    struct hearth_exec *exec = arena_create(&memory, 0, 0, 0);
    for (size_t run = 0; run < 100; run++) {
        struct hearth_buf *buf = take(exec, MIB), *taken = NULL;
        EXPECT(HEARTH_OK, hearth_io_take(io, buf, &taken));
        io_give(io, taken);
        EXPECT_SIZE(memory.bytes, hearth_io_footprint(io) + hearth_exec_footprint(exec));
        check_identity(exec, NULL);
        io_identity(io, NULL);
        cr_assert_leq(memory.acquires, 2);
    }
    /* Both slots of it in use: the storage changes, the slot stays. */
    struct hearth_buf *held = io_take(io, 100), *buf = take(exec, MIB), *taken = NULL;
    EXPECT_SIZE(1, hearth_io_retained_count(io));
    EXPECT(HEARTH_OK, hearth_io_take(io, buf, &taken));
    EXPECT_SIZE(2, hearth_io_live_count(io));
    EXPECT_SIZE(0, memory.releases);
    buf = take(exec, MIB);
    EXPECT(HEARTH_NO_SLOT, hearth_io_take(io, buf, &held));
    io_give(io, taken);
    /* A closed one takes nothing and gives nothing. */
    EXPECT(HEARTH_OK, hearth_io_close(io));
    size_t retained = hearth_exec_retained_bytes(exec);
    EXPECT(HEARTH_CLOSED, hearth_io_take(io, buf, &taken));
    EXPECT_SIZE(retained, hearth_exec_retained_bytes(exec));
    give(exec, buf);
    io_give(io, held);
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
    hearth_io_unref(io);
    memory_fini(&memory);
}

Test(take_exchange, trims_between)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
    struct hearth_exec *arena = exec_of(rig.service);
    for (size_t run = 0; run < 200; run++) {
        io_drop(output(arena, 256 * KIB, (unsigned char)run));
        if (run % 5 == 0)
            EXPECT(HEARTH_OK, hearth_io_trim(rig.io, NULL));
        if (run % 7 == 0)
            EXPECT(HEARTH_OK, hearth_exec_trim(arena, NULL));
        if (run % 11 == 0)
            (void)service_trim_idle(rig.service);
        exact(arena);
        cr_assert_leq(bank_bytes(&rig.bank), 512 * KIB);
    }
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    rig_close(&rig);
}

Test(take_exchange, while_debugging)
{
    static const char *const confs[] = {"debug:poison", "debug:quarantine",
                                        "debug:poison+quarantine+sites"};
    for (size_t i = 0; i < COUNT_OF(confs); i++) {
        cr_assert_eq(setenv("HEARTH_CONF", confs[i], 1), 0);
        misuse_record();
        rig_open(&rig, SERVICE_OPTIONS(.age_ms = 3600 * 1000));
        struct hearth_exec *arena = exec_of(rig.service);
        for (size_t run = 0; run < 300; run++) {
            struct hearth_buf *buf = take(arena, MIB), *taken = NULL;
            cr_assert(filled(buf, MIB, 0xfa) || i == 1); /* as any fresh one */
            fill(buf, (unsigned char)run);
            EXPECT(HEARTH_OK, hearth_io_take(rig.io, buf, &taken));
            cr_assert(filled(taken, MIB, (unsigned char)run));
            io_give(rig.io, taken);
            exact(arena);
        }
        EXPECT_SIZE(0, misuse.count);
        cr_assert_leq(hearth_exec_footprint(arena), MIB);
        rig_close(&rig);
    }
}
