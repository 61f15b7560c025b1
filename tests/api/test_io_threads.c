/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that come and go, and releases from everywhere.
 * Covered: what an ended thread retained serves others, no growth over many threads, buffers handed from
 * thread to thread, releases from TLS destructors, from atexit handlers and in a forked child. Not covered:
 * races (stress/). */
#include "io_support.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct memory memory;
static struct hearth_io *io;

static void setup(void)
{
    memory_init(&memory);
    io = io_create(&memory, 0, 0, 0);
    misuse_record();
}

static void teardown(void)
{
    EXPECT_SIZE(0, hearth_io_live_count(io));
    io_finish(io, &memory);
}

TestSuite(io_threads, .init = setup, .fini = teardown);

enum { MANY = 100 };
static struct hearth_lease leases[MANY];

static void take_many(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < MANY; i++)
        leases[i] = io_lease(io, i * 1000);
}

static void drop_many(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < MANY; i++)
        io_drop(leases[i]);
}

static void use_many(void *unused)
{
    take_many(unused);
    drop_many(unused);
}

Test(io_threads, an_ended_threads_buffers_serve_others)
{
    on_thread(use_many, NULL);
    EXPECT_SIZE(MANY, hearth_io_retained_count(io));
    uint64_t acquires = memory.acquires;
    use_many(NULL); /* what this thread caches now is not for others while it lives */
    EXPECT_SIZE(acquires, memory.acquires);
    EXPECT_SIZE(MANY, hearth_io_retained_count(io));
}

Test(io_threads, a_hundred_threads_one_after_the_other_do_not_grow)
{
    on_thread(use_many, NULL);
    size_t footprint = hearth_io_footprint(io);
    for (size_t i = 0; i < 100; i++)
        on_thread(use_many, NULL);
    EXPECT_SIZE(footprint, hearth_io_footprint(io));
    EXPECT_SIZE(MANY, memory.acquires);
}

Test(io_threads, from_thread_to_thread_does_not_grow)
{
    for (size_t i = 0; i < 20; i++) {
        on_thread(take_many, NULL);
        on_thread(drop_many, NULL);
        EXPECT_SIZE(MANY, memory.acquires);
    }
}

static pthread_key_t key;

/* Runs once more when everything else of the thread, the library's part included, was destroyed. */
static void destroy_late(void *round)
{
    if ((uintptr_t)round < 3) {
        pthread_setspecific(key, (void *)((uintptr_t)round + 1));
        return;
    }
    use_many(NULL);
    take_many(NULL);
    drop_many(NULL);
    io_give(io, io_take_aligned(io, 5000, 4096));
}

static void set_key(void *first)
{
    pthread_setspecific(key, first);
    use_many(NULL);
}

Test(io_threads, tls_destructors_may_use_the_arena)
{
    cr_assert_eq(pthread_key_create(&key, destroy_late), 0);
    for (uintptr_t first = 1; first <= 3; first++) {
        for (size_t i = 0; i < 10; i++)
            on_thread(set_key, (void *)first);
    }
    EXPECT_SIZE(MANY + 1, memory.acquires);
    EXPECT_SIZE(MANY + 1, hearth_io_retained_count(io));
    pthread_key_delete(key);
}

static void release_in_destructor(void *unused)
{
    (void)unused;
    drop_many(NULL);
}

static void take_and_leave(void *unused)
{
    take_many(unused);
    pthread_setspecific(key, &key);
}

Test(io_threads, tls_destructors_may_release)
{
    cr_assert_eq(pthread_key_create(&key, release_in_destructor), 0);
    for (size_t i = 0; i < 20; i++) {
        on_thread(take_and_leave, NULL);
        EXPECT_SIZE(0, hearth_io_live_count(io));
        io_is_stale(leases[0]);
    }
    EXPECT_SIZE(MANY, memory.acquires);
    pthread_key_delete(key);
}

/* A child's exit code says whether `child` saw what it should. */
static void expect_child(void (*child)(void))
{
    int status = 0;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        child();
        exit(3); /* runs the atexit handlers */
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "the child was ended by signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
}

static void finish_child(bool right)
{
    _exit(right ? 0 : 1);
}

static void at_exit(void)
{
    bool right = true;
    for (size_t i = 0; i < MANY; i++)
        right = right && hearth_lease_release(leases[i]) == HEARTH_OK;
    finish_child(right && memory.bytes == 0);
}

static void exits_with_leases(void)
{
    hearth_io_unref(io);
    if (atexit(at_exit) != 0)
        finish_child(false);
}

Test(io_threads, atexit_handlers_may_release)
{
    take_many(NULL);
    expect_child(exits_with_leases);
    drop_many(NULL); /* the child had a copy */
}

static void uses_everything(void)
{
    bool right = true;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    for (size_t i = 0; i < MANY; i++)
        right = right && hearth_lease_release(leases[i]) == HEARTH_OK;
    right = right && hearth_io_live_count(io) == 0;
    for (size_t i = 0; i < MANY; i++)
        right = right && hearth_io_lease(io, i * 1000, &lease) == HEARTH_OK &&
                hearth_lease_release(lease) == HEARTH_OK;
    right = right && hearth_io_trim(io, NULL) == HEARTH_OK && hearth_io_destroy(io) == HEARTH_OK;
    finish_child(right && memory.bytes == 0);
}

Test(io_threads, a_forked_child_may_use_the_arena)
{
    take_many(NULL);
    expect_child(uses_everything);
    EXPECT_SIZE(MANY, hearth_io_live_count(io));
    drop_many(NULL);
}

static void use_in_grandchild(void *unused)
{
    use_many(unused);
    take_many(unused);
    expect_child(uses_everything);
}

/* The main thread's cache is a stranger's in the child, and holds retained buffers. */
Test(io_threads, a_child_forked_by_another_thread_may_use_the_arena)
{
    use_many(NULL);
    on_thread(use_in_grandchild, NULL);
    drop_many(NULL);
}
