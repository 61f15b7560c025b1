/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks in the middle of everything.
 *
 * Workers lease, release, free, export, trim, create and end arenas, some of them in short threads; the main
 * thread forks again and again. The child, alone with copies of whatever state the others were in, uses the
 * inherited arena and a new one, releases what the main thread held, and exits.
 *
 * Oracle: no child hangs, crashes or finds a call refused or a payload wrong; its own figures are possible;
 * the parent goes on undisturbed, and at the end of it nothing is live and the storage is home.
 */
#include "harness.h"

#include "core/atomic.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELD 6
#define KEPT 4 /* by the main thread, released by each child for itself */
#define THREADS_MAX 64
#define SMOKE_ROUNDS 20
#define CHILD_STEPS 100
#ifdef HEARTH__THREAD_SANITIZER
#define CHILD_SECONDS 30
#else
#define CHILD_SECONDS 10
#endif

/* The sanitizers' heaps do not survive a fork among threads: there, pages from mmap. */
#if defined(__SANITIZE_ADDRESS__) || defined(HEARTH__THREAD_SANITIZER)
#define LENDER(lender) ((void)(lender), (struct stress_lender *)NULL)
#else
#define LENDER(lender) (lender)
#endif

struct worker {
    struct hearth_lease held[HELD];
    uint64_t random;
    uint64_t operations;
};

static struct stress_options options;
static struct hearth_io *arena;
static _Atomic(bool) finished;

/* In a child a violation is its exit code; in the parent stress_violation() tells. */
static bool in_child;

static void expect_ok(enum hearth_status status, const char *what)
{
    if (status == HEARTH_OK)
        return;
    stress_violation("%s%s was answered %s", in_child ? "in a child: " : "", what,
                     hearth_status_name(status));
    if (in_child)
        _exit(3);
}

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    stress_violation("%s%s", in_child ? "in a child: " : "", what);
    if (in_child)
        _exit(3);
}

static size_t some_size(uint64_t *random)
{
    static const size_t sizes[] = {64, 65536, 1024, 131072, 4096, 64};
    return sizes[stress_next(random) % (sizeof sizes / sizeof *sizes)];
}

static void take(struct hearth_io *io, struct hearth_lease *lease, uint64_t *random)
{
    size_t size = some_size(random);
    struct hearth_buf *buf;
    if (stress_next(random) % 2 == 0) {
        expect_ok(hearth_io_lease(io, size, lease), "a lease");
    } else {
        expect_ok(hearth_io_alloc(io, size, &buf), "an alloc");
        if (stress_next(random) % 4 == 0) {
            expect_ok(hearth_io_free(io, buf), "a free");
            expect_ok(hearth_io_alloc(io, size, &buf), "an alloc");
        }
        expect_ok(hearth_io_export(io, buf, lease), "an export");
    }
    stress_mark(hearth_lease_data(*lease), size, lease->generation ^ (uintptr_t)lease->buf);
}

static void give_up(struct hearth_lease *lease)
{
    const void *data = hearth_lease_data(*lease);
    expect(data != NULL && stress_marked(data, hearth_lease_size(*lease),
                                         lease->generation ^ (uintptr_t)lease->buf),
           "the payload of what is held is not its holder's");
    expect_ok(hearth_lease_retain(*lease), "a retain");
    expect_ok(hearth_lease_release(*lease), "a release");
    expect_ok(hearth_lease_release(*lease), "the last release");
    *lease = (struct hearth_lease)HEARTH_LEASE_INIT;
}

/* An arena of one's own, from the cradle to the grave. */
static void short_arena(uint64_t *random)
{
    struct hearth_io *io = stress_io_open(NULL, (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT);
    struct hearth_lease lease;
    take(io, &lease, random);
    if (stress_next(random) % 2 == 0) {
        give_up(&lease);
        expect_ok(hearth_io_destroy(io), "destroy");
    } else {
        hearth_io_unref(io);
        give_up(&lease);
    }
}

static void step(struct worker *self)
{
    uint64_t draw = stress_next(&self->random);
    struct hearth_lease *held = &self->held[(draw >> 16) % HELD];
    self->operations++;
    if (draw % 128 == 0)
        expect_ok(hearth_io_trim(arena, NULL), "a trim");
    else if (draw % 128 == 1)
        expect_ok(
            hearth_io_set_retention_cap(arena, (draw >> 32) % 2 == 0 ? 100000 : HEARTH_UNBOUNDED),
            "a cap");
    else if (draw % 128 == 2)
        short_arena(&self->random);
    else if (held->buf == NULL)
        take(arena, held, &self->random);
    else
        give_up(held);
}

static void *live(void *argument)
{
    struct worker *self = argument;
    uint64_t life = 200 + stress_next(&self->random) % 2000;
    while (life-- > 0 && !atomic_load_explicit(&finished, memory_order_relaxed))
        step(self);
    return NULL;
}

static void *work(void *argument)
{
    struct worker *self = argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        pthread_t successor;
        if (stress_next(&self->random) % 2 == 0)
            live(self);
        else if (pthread_create(&successor, NULL, live, self) == 0)
            pthread_join(successor, NULL);
    }
    for (unsigned i = 0; i < HELD; i++) {
        if (self->held[i].buf != NULL)
            give_up(&self->held[i]);
    }
    return NULL;
}

static _Noreturn void be_child(struct hearth_lease *kept, uint64_t random)
{
    static const size_t possible = (size_t)1 << 40;
    struct worker self = {.random = random};
    in_child = true;
    (void)alarm(CHILD_SECONDS); /* whatever becomes of the parent */
    signal(SIGALRM, SIG_DFL);
    for (unsigned i = 0; i < KEPT; i++)
        give_up(&kept[i]);
    for (unsigned i = 0; i < CHILD_STEPS; i++)
        step(&self);
    for (unsigned i = 0; i < HELD; i++) {
        if (self.held[i].buf != NULL)
            give_up(&self.held[i]);
    }
    short_arena(&self.random);
    expect_ok(hearth_io_trim(arena, NULL), "a trim");
    expect(hearth_io_live_bytes(arena) <= possible && hearth_io_footprint(arena) <= possible &&
               hearth_io_retained_bytes(arena) <= possible,
           "a figure is impossible");
    if (stress_next(&random) % 2 == 0)
        (void)hearth_io_close(arena);
    hearth_io_unref(arena);
    _exit(0);
}

static void nap(void)
{
    static const struct timespec moment = {0, 200000};
    (void)nanosleep(&moment, NULL);
}

static void wait_for(pid_t child)
{
    struct timespec start, now;
    int code = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        pid_t ended = waitpid(child, &code, WNOHANG);
        if (ended == child)
            break;
        if (ended < 0 && errno != EINTR)
            abort();
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > CHILD_SECONDS) {
            stress_violation("a child hangs");
            kill(child, SIGKILL);
            (void)waitpid(child, &code, 0);
            return;
        }
        nap();
    }
    if (WIFSIGNALED(code) && WTERMSIG(code) == SIGALRM)
        stress_violation("a child hangs");
    else if (!WIFEXITED(code) || WEXITSTATUS(code) != 0)
        stress_violation("a child ended with %s %d", WIFEXITED(code) ? "code" : "signal",
                         WIFEXITED(code) ? WEXITSTATUS(code) : WTERMSIG(code));
}

static uint64_t fork_again_and_again(void)
{
    struct hearth_lease kept[KEPT];
    uint64_t random = stress_seed(&options, THREADS_MAX);
    uint64_t forks = 0;
    for (unsigned i = 0; i < KEPT; i++)
        take(arena, &kept[i], &random);
    for (; stress_goes_on(&options, forks, SMOKE_ROUNDS); forks++) {
        uint64_t draw = stress_next(&random);
        (void)fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            be_child(kept, draw | 1);
        if (child < 0)
            abort();
        wait_for(child);
        give_up(&kept[draw % KEPT]);
        take(arena, &kept[draw % KEPT], &random);
    }
    for (unsigned i = 0; i < KEPT; i++)
        give_up(&kept[i]);
    return forks;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    struct worker workers[THREADS_MAX] = {{.random = 0}};
    struct stress_lender lender = {0};
    uint64_t operations = 0;
    options = stress_parse(argc, argv, "stress_io_fork", 3);
    arena = stress_io_open(LENDER(&lender), (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i] = (struct worker){.random = stress_seed(&options, i)};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    uint64_t forks = fork_again_and_again();
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    for (unsigned i = 0; i < options.threads; i++) {
        pthread_join(threads[i], NULL);
        operations += workers[i].operations;
    }
    stress_io_home(arena);
    stress_must(hearth_io_destroy(arena), "destroy");
    struct stress_lender *used = LENDER(&lender);
    if (used != NULL && atomic_load_explicit(&used->destroys, memory_order_acquire) != 1)
        stress_violation("the arena ended, but not its backing");
    char counts[80];
    snprintf(counts, sizeof counts, "%" PRIu64 " forks, %" PRIu64 " operations", forks, operations);
    return stress_verdict("stress_io_fork", &options, counts);
}
