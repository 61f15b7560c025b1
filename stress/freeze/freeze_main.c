/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that is stopped at a random instruction of any operation stops nobody.
 *
 * All threads make random operations on two I/O arenas (one with a cap, which evicts, and a limit) and
 * on execution arenas of their own, all warmed. One of them, the victim, is stopped by a signal again
 * and again. While it stands still, every other thread must complete so many operations of every kind
 * within a generous time. The victim leans to one kind after the other, so that short ones are hit too.
 *
 * Oracle: nobody stalls; no call is refused; no held buffer is written by somebody else; at the end all
 * came home and nothing is left of any arena. Variant HEARTH_BROKEN_FREEZE_LOCK (freeze_backing.c) must
 * stall.
 *
 *     freeze_main [--freezes N] [--stall-seconds N] and what all stress programs know
 *
 * --freezes counts those that hit inside an operation. Not under ThreadSanitizer, which delivers signals
 * at points of its own choice.
 */
#include "../harness.h"
#include "freeze_parts.h"

#include <hearth/backing.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEMAND 50u /* operations of each kind by each of the others */
#define WARM_STEPS 20000u
#define CAP ((size_t)256 << 10)
#define LIMIT ((size_t)1 << 30)
#define DELAY_NS 200000u /* most time between two freezes, but for the timer's slack */
#define POLL_NS 50000u
#define STEPS_BETWEEN 100u /* least that the victim does: else it is stopped where it was before */
#define SMOKE_FREEZES 300u
#define SMOKE_SECONDS 3u
#define EVERY_KIND_FROM 5000u /* with so many freezes each kind must have been hit */

struct freeze_world freeze_world;

const char *const freeze_kind_name[FREEZE_KINDS + 1] = {
#define FREEZE_NAME(name, text, weight) text,
    FREEZE_KIND_MAP(FREEZE_NAME)
#undef FREEZE_NAME
        "no operation"};

static struct stress_options options;
static uint64_t wanted = 10000, stall_ns = UINT64_C(10000000000);
static pthread_barrier_t barrier;

static struct {
    uint64_t freezes, inside, in_backing, in_kind[FREEZE_KINDS + 1];
    uint64_t ns, longest_ns, others;
    uintptr_t *pcs;
} totals;

static struct freeze_thread *const victim = &freeze_world.thread[0];

static void check_exec(struct hearth_exec *exec)
{
    stress_must(hearth_exec_trim(exec, NULL), "trim");
    if (hearth_exec_live_count(exec) != 0 || hearth_exec_footprint(exec) != 0)
        stress_violation("%zu execution buffers and %zu bytes are left",
                         hearth_exec_live_count(exec), hearth_exec_footprint(exec));
    stress_must(hearth_exec_destroy(exec), "destroy");
}

static void *work(void *argument)
{
    struct freeze_thread *self = argument;
    struct hearth_exec_options exec = HEARTH_EXEC_OPTIONS_INIT;
    exec.backing = freeze_world.backing;
    stress_must(hearth_exec_create(&exec, &self->exec), "exec");
    stress_must(hearth_exec_create(&exec, &self->spare), "exec");
    (void)pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < WARM_STEPS; i++)
        freeze_step(self);
    (void)pthread_barrier_wait(&barrier);
    while (!atomic_load_explicit(&freeze_world.finished, memory_order_relaxed))
        freeze_step(self);
    (void)pthread_barrier_wait(&barrier);
    freeze_give_back(self);
    (void)pthread_barrier_wait(&barrier);
    check_exec(self->exec);
    check_exec(self->spare);
    return NULL;
}

static uint64_t done(unsigned thread, unsigned kind)
{
    return atomic_load_explicit(&freeze_world.thread[thread].done[kind], memory_order_relaxed);
}

typedef uint64_t marks[FREEZE_THREADS_MAX][FREEZE_KINDS];

/* The first worker and kind that are short of the demand; false if none is. */
static bool short_of(marks before, unsigned *thread, unsigned *kind)
{
    for (; *thread < freeze_world.threads; (*thread)++, *kind = 0) {
        for (; *kind < FREEZE_KINDS; (*kind)++) {
            if (done(*thread, *kind) - before[*thread][*kind] < DEMAND)
                return true;
        }
    }
    return false;
}

static void dump_and_die(marks before, const struct freeze_hit *hit)
{
    printf("violation: stalled while the victim stood still in %s%s (freeze %" PRIu64 ")\n",
           freeze_kind_name[hit->kind], hit->in_backing ? ", inside the backing" : "",
           totals.freezes);
    for (unsigned i = 1; i < freeze_world.threads; i++) {
        unsigned now = atomic_load_explicit(&freeze_world.thread[i].current, memory_order_relaxed);
        printf("  thread %u is in %s; short of:", i, freeze_kind_name[now]);
        for (unsigned kind = 0; kind < FREEZE_KINDS; kind++) {
            uint64_t made = done(i, kind) - before[i][kind];
            if (made < DEMAND)
                printf(" %s (%" PRIu64 ")", freeze_kind_name[kind], made);
        }
        puts("");
    }
    printf("freeze: seed %" PRIu64 ": FAIL\n", options.seed);
    fflush(stdout);
    _exit(1); /* threads are stuck */
}

/* While the victim stands still: all others must get on. */
static void demand(const struct freeze_hit *hit)
{
    marks before = {{0}};
    unsigned thread = 1;
    unsigned kind = 0;
    uint64_t began = freeze_now_ns();
    for (unsigned i = 1; i < freeze_world.threads; i++)
        for (unsigned k = 0; k < FREEZE_KINDS; k++)
            before[i][k] = done(i, k);
    while (short_of(before, &thread, &kind)) {
        if (freeze_now_ns() - began > stall_ns)
            dump_and_die(before, hit);
        freeze_nap(POLL_NS);
    }
    uint64_t took = freeze_now_ns() - began;
    totals.ns += took;
    if (took > totals.longest_ns)
        totals.longest_ns = took;
    for (unsigned i = 1; i < freeze_world.threads; i++)
        for (unsigned k = 0; k < FREEZE_KINDS; k++)
            totals.others += done(i, k) - before[i][k];
}

static void let_run(uint64_t *random)
{
    uint64_t until = atomic_load_explicit(&victim->steps, memory_order_relaxed) + STEPS_BETWEEN;
    uint64_t began = freeze_now_ns();
    do {
        freeze_nap(stress_next(random) % DELAY_NS);
    } while (atomic_load_explicit(&victim->steps, memory_order_relaxed) < until &&
             freeze_now_ns() - began < stall_ns);
}

static void freeze_once(pthread_t thread, uint64_t *random)
{
    struct freeze_hit hit;
    atomic_store_explicit(&victim->focus, (unsigned)(totals.freezes % (FREEZE_KINDS + 1)),
                          memory_order_relaxed);
    let_run(random);
    if (!freeze_stop(thread, stall_ns, &hit)) {
        printf("violation: the victim did not stop, in %s: FAIL\n",
               freeze_kind_name[atomic_load_explicit(&victim->current, memory_order_relaxed)]);
        fflush(stdout);
        _exit(1);
    }
    totals.in_kind[hit.kind]++;
    totals.in_backing += hit.in_backing;
    if (hit.kind != FREEZE_OUTSIDE)
        totals.pcs[totals.inside++] = hit.pc;
    totals.freezes++;
    demand(&hit);
    freeze_thaw();
}

static int compare(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a;
    uintptr_t y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static uint64_t distinct(uintptr_t *values, uint64_t count)
{
    uint64_t found = 0;
    qsort(values, count, sizeof *values, compare);
    for (uint64_t i = 0; i < count; i++)
        found += i == 0 || values[i] != values[i - 1];
    return found;
}

static void report(uint64_t took_ns)
{
    double all = (double)totals.freezes;
    printf("%" PRIu64 " freezes in %.1f s; %" PRIu64 " (%.1f %%) inside an operation, at %" PRIu64
           " different instructions; %" PRIu64 " inside the backing\n",
           totals.freezes, (double)took_ns / 1e9, totals.inside,
           100.0 * (double)totals.inside / all, distinct(totals.pcs, totals.inside),
           totals.in_backing);
    for (unsigned kind = 0; kind <= FREEZE_KINDS; kind++) {
        printf("  %-18s %6" PRIu64 "\n", freeze_kind_name[kind], totals.in_kind[kind]);
        if (wanted >= EVERY_KIND_FROM && totals.in_kind[kind] == 0)
            stress_violation("no freeze hit inside %s", freeze_kind_name[kind]);
    }
    if (totals.inside == 0)
        stress_violation("no freeze hit inside an operation");
    printf("standing still: %.2f ms on average, %.2f ms at most; %.0f operations by the others "
           "meanwhile\n",
           (double)totals.ns / all / 1e6, (double)totals.longest_ns / 1e6,
           (double)totals.others / all);
}

static void check_io(struct hearth_io *io)
{
    if (hearth_io_live_count(io) != 0)
        stress_violation("%zu I/O buffers are live at the end", hearth_io_live_count(io));
    if (hearth_io_footprint(io) != hearth_io_retained_bytes(io))
        stress_violation("footprint %zu is not what is retained, %zu", hearth_io_footprint(io),
                         hearth_io_retained_bytes(io));
    stress_must(hearth_io_trim(io, NULL), "trim");
    if (hearth_io_footprint(io) != 0)
        stress_violation("%zu bytes are left after a trim", hearth_io_footprint(io));
    stress_must(hearth_io_destroy(io), "destroy");
}

static void create_world(void)
{
    struct hearth_io_options io = HEARTH_IO_OPTIONS_INIT;
    freeze_world.threads = options.threads;
    io.backing = freeze_world.backing = freeze_backing_create();
    stress_must(hearth_io_create(&io, &freeze_world.io[0]), "create");
    io.retention_cap = CAP;
    io.live_limit = LIMIT;
    stress_must(hearth_io_create(&io, &freeze_world.io[1]), "create");
    for (unsigned i = 0; i < options.threads; i++) {
        freeze_world.thread[i].number = i;
        freeze_world.thread[i].random = stress_seed(&options, i);
        atomic_store_explicit(&freeze_world.thread[i].focus, FREEZE_KINDS, memory_order_relaxed);
        atomic_store_explicit(&freeze_world.thread[i].current, FREEZE_KINDS, memory_order_relaxed);
    }
    freeze_install(victim);
    totals.pcs = calloc(wanted, sizeof *totals.pcs);
    if (totals.pcs == NULL)
        abort();
}

static void check_world(void)
{
    uint64_t adopted = atomic_load_explicit(&freeze_world.adopted, memory_order_relaxed);
    uint64_t disowned = atomic_load_explicit(&freeze_world.disowned, memory_order_relaxed);
    for (unsigned i = 0; i < FREEZE_ARENAS; i++)
        check_io(freeze_world.io[i]);
    if (adopted != disowned)
        stress_violation("%" PRIu64 " adopted, %" PRIu64 " given back", adopted, disowned);
    if (freeze_backing_lent() != 0)
        stress_violation("%" PRIu64 " blocks of the backing are lost", freeze_backing_lent());
    if (hearth_misuse_count() != 0)
        stress_violation("%" PRIu64 " misuses", hearth_misuse_count());
    hearth_backing_unref(freeze_world.backing);
    free(totals.pcs);
}

/* Takes out of argv what only this program knows. */
static int own_options(int argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        bool freezes = strcmp(argv[i], "--freezes") == 0;
        if (!freezes && strcmp(argv[i], "--stall-seconds") != 0) {
            argv[kept++] = argv[i];
            if (strcmp(argv[i], "--smoke") == 0)
                wanted = SMOKE_FREEZES;
            continue;
        }
        unsigned long long value = i + 1 < argc ? strtoull(argv[++i], NULL, 10) : 0;
        if (value == 0 || value > 100000000) {
            fprintf(stderr, "freeze: %s needs a number\n", freezes ? "--freezes" : argv[i - 1]);
            exit(2);
        }
        if (freezes)
            wanted = value;
        else
            stall_ns = value * 1000000000u;
    }
    argv[kept] = NULL;
    return kept;
}

int main(int argc, char **argv)
{
    pthread_t threads[FREEZE_THREADS_MAX] = {0};
    options = stress_parse(own_options(argc, argv), argv, "freeze", 3);
    if (options.threads < 3 || options.threads > FREEZE_THREADS_MAX) {
        fprintf(stderr, "freeze: 3 to %d threads\n", FREEZE_THREADS_MAX);
        return 2;
    }
    (void)alarm(0); /* the watch here is each freeze's own, and it says more */
    create_world();
    pthread_barrier_init(&barrier, NULL, options.threads + 1);
    for (unsigned i = 0; i < options.threads; i++)
        pthread_create(&threads[i], NULL, work, &freeze_world.thread[i]);
    (void)pthread_barrier_wait(&barrier); /* all execution arenas exist */
    (void)pthread_barrier_wait(&barrier); /* all is warm */
    uint64_t random = stress_seed(&options, options.threads);
    uint64_t began = freeze_now_ns();
    while (totals.inside < wanted &&
           !(options.smoke && freeze_now_ns() - began > SMOKE_SECONDS * UINT64_C(1000000000)))
        freeze_once(threads[0], &random);
    uint64_t took = freeze_now_ns() - began;
    atomic_store_explicit(&freeze_world.finished, true, memory_order_relaxed);
    (void)pthread_barrier_wait(&barrier); /* nobody makes operations any more */
    (void)pthread_barrier_wait(&barrier); /* all came home */
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    report(took);
    check_world();
    char counts[80];
    snprintf(counts, sizeof counts, "%" PRIu64 " freezes, %" PRIu64 " inside an operation",
             totals.freezes, totals.inside);
    return stress_verdict("freeze", &options, counts);
}
