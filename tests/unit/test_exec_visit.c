/* SPDX-License-Identifier: Apache-2.0 */
/* Visits of execution arenas: another thread gives back what an idle owner retains. */
#include "concurrent/exec.h"

#include "support.h"

#include <hearth/io.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

static struct hearth_exec *make_arena(void)
{
    struct hearth_exec *arena;
    cr_assert_eq(hearth_exec_create(NULL, &arena), HEARTH_OK);
    return arena;
}

static struct hearth_buf *lend(struct hearth_exec *arena, size_t size)
{
    struct hearth_buf *buf;
    cr_assert_eq(hearth_exec_alloc(arena, size, &buf), HEARTH_OK);
    return buf;
}

static void raise_flag(struct hearth_exec *arena)
{
    cr_assert(hearth__section_raise(&arena->section));
}

static void lower_flag(struct hearth_exec *arena)
{
    (void)hearth__section_lower(&arena->section);
}

static void assert_merged(struct hearth_exec *arena)
{
    /* An operation that finds no visitor merges. */
    cr_assert_eq(hearth_exec_reset_peak(arena), HEARTH_OK);
    const char *violated = hearth__exec_check(arena);
    cr_assert_null(violated, "%s", violated);
}

struct visit {
    struct hearth_exec *arena;
    size_t released;
    bool busy;
};

static void *visit(void *argument)
{
    struct visit *made = argument;
    made->released = visit_all(made->arena, &made->busy);
    return NULL;
}

static struct visit visit_from_elsewhere(struct hearth_exec *arena)
{
    struct visit made = {.arena = arena};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, visit, &made), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    return made;
}

Test(exec_visit, gives_back_what_an_idle_owner_retains)
{
    struct hearth_exec *arena = make_arena();
    struct hearth_buf *kept = lend(arena, 5000);
    for (size_t i = 0; i < 100; i++)
        cr_assert_eq(hearth_exec_free(arena, lend(arena, 1000 + i * 1000)), HEARTH_OK);
    size_t retained = hearth_exec_retained_bytes(arena);
    cr_assert_gt(retained, 0);
    struct visit made = visit_from_elsewhere(arena);
    cr_assert_not(made.busy);
    cr_assert_eq(made.released, retained);
    cr_assert_eq(hearth_exec_retained_bytes(arena), 0);
    cr_assert_eq(hearth_exec_footprint(arena), hearth_buf_capacity(kept));
    assert_merged(arena);
    cr_assert_eq(hearth_exec_free(arena, kept), HEARTH_OK);
    cr_assert_eq(hearth_exec_destroy(arena), HEARTH_OK);
}

Test(exec_visit, leaves_an_owner_inside_alone)
{
    struct hearth_exec *arena = make_arena();
    cr_assert_eq(hearth_exec_free(arena, lend(arena, 100)), HEARTH_OK);
    cr_assert_eq(hearth__exec_begin(arena, "test"), HEARTH_OK);
    struct visit made = visit_from_elsewhere(arena);
    cr_assert(made.busy);
    hearth__exec_leave(arena); /* as around a backing call */
    made = visit_from_elsewhere(arena);
    cr_assert(made.busy, "the operation goes on");
    hearth__section_resume(&arena->section);
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    hearth__exec_end(arena, &after);
    made = visit_from_elsewhere(arena);
    cr_assert_not(made.busy);
    cr_assert_gt(made.released, 0);
    cr_assert_eq(hearth_exec_destroy(arena), HEARTH_OK);
}

Test(exec_visit, two_visitors_do_not_meet)
{
    struct hearth_exec *arena = make_arena();
    cr_assert_eq(hearth_exec_free(arena, lend(arena, 100)), HEARTH_OK);
    raise_flag(arena);
    struct visit made = visit_from_elsewhere(arena);
    cr_assert(made.busy);
    cr_assert_eq(made.released, 0);
    lower_flag(arena);
    cr_assert_eq(hearth_exec_destroy(arena), HEARTH_OK);
}

Test(exec_visit, the_owner_works_while_it_is_visited)
{
    struct hearth_exec *arena = make_arena();
    struct hearth_buf *before = lend(arena, 4096);
    cr_assert_eq(hearth_exec_free(arena, lend(arena, 4096)), HEARTH_OK);
    size_t retained = hearth_exec_retained_bytes(arena);
    raise_flag(arena);

    struct hearth_buf *during = lend(arena, 4096);
    memset(hearth_buf_data(during), 1, 4096);
    cr_assert_eq(hearth_exec_retained_bytes(arena), retained, "the store was left alone");
    cr_assert_eq(hearth_buf_resize(during, 100), HEARTH_OK);
    void *old = hearth_buf_data(during);
    cr_assert_eq(hearth_buf_resize_keep(during, 9000), HEARTH_OK);
    cr_assert_neq(hearth_buf_data(during), old);
    cr_assert_eq(*(char *)hearth_buf_data(during), 1);
    cr_assert_eq(hearth_exec_free(arena, before), HEARTH_OK);
    cr_assert_eq(hearth_exec_free(arena, before), HEARTH_STALE);
    cr_assert_eq(hearth_exec_pending_count(arena), 1);
    size_t released = 1;
    cr_assert_eq(hearth_exec_trim(arena, &released), HEARTH_OK);
    cr_assert_eq(released, 0);

    lower_flag(arena);
    assert_merged(arena);
    cr_assert_eq(hearth_exec_free(arena, during), HEARTH_OK);
    cr_assert_eq(hearth_exec_trim(arena, &released), HEARTH_OK);
    cr_assert_eq(hearth_exec_footprint(arena), 0);
    cr_assert_eq(hearth_exec_destroy(arena), HEARTH_OK);
}

Test(exec_visit, slots_are_not_exceeded_while_visited)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena;
    struct hearth_buf *bufs[3];
    options.slots = 2;
    cr_assert_eq(hearth_exec_create(&options, &arena), HEARTH_OK);
    bufs[0] = lend(arena, 100);
    raise_flag(arena);
    bufs[1] = lend(arena, 100);
    cr_assert_eq(hearth_exec_alloc(arena, 100, &bufs[2]), HEARTH_NO_SLOT);
    lower_flag(arena);
    cr_assert_eq(hearth_exec_alloc(arena, 100, &bufs[2]), HEARTH_NO_SLOT);
    cr_assert_eq(hearth_exec_free(arena, bufs[1]), HEARTH_OK);
    bufs[1] = lend(arena, 100);
    cr_assert_eq(hearth_exec_free(arena, bufs[0]), HEARTH_OK);
    cr_assert_eq(hearth_exec_free(arena, bufs[1]), HEARTH_OK);
    assert_merged(arena);
    cr_assert_eq(hearth_exec_destroy(arena), HEARTH_OK);
}

Test(exec_visit, an_aligned_buffer_lent_while_visited_comes_home)
{
    struct hearth_exec *arena = make_arena();
    struct hearth_request request = {.size = 100, .alignment = 4096};
    struct hearth_buf *buf;
    raise_flag(arena);
    cr_assert_eq(hearth_exec_alloc_ex(arena, &request, &buf), HEARTH_OK);
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % 4096, 0);
    lower_flag(arena);
    cr_assert_eq(hearth_exec_free(arena, buf), HEARTH_OK);
    assert_merged(arena);
    cr_assert_eq(hearth_exec_destroy(arena), HEARTH_OK);
}

static void *visit_all_the_time(void *argument)
{
    struct visit *made = argument;
    while (!__atomic_load_n(&made->busy, __ATOMIC_RELAXED)) {
        bool busy;
        made->released += visit_all(made->arena, &busy);
        (void)sched_yield();
    }
    return NULL;
}

Test(exec_visit, owner_and_visitors_at_once, .timeout = 60)
{
    struct hearth_exec *arena = make_arena();
    struct visit visits[2] = {{.arena = arena}, {.arena = arena}};
    pthread_t threads[2];
    struct hearth_buf *held[16] = {NULL};
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, visit_all_the_time, &visits[i]), 0);
    uint64_t random = 88172645463325252u;
    for (unsigned round = 0; round < 200000; round++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        size_t at = random % 16;
        size_t size = 64 + random % 30000;
        if (held[at] != NULL) {
            unsigned char *data = hearth_buf_data(held[at]);
            cr_assert_eq(data[0], (unsigned char)at);
            cr_assert_eq(data[63], (unsigned char)(at + 1));
            cr_assert_eq(hearth_exec_free(arena, held[at]), HEARTH_OK);
        }
        held[at] = lend(arena, size);
        unsigned char *data = hearth_buf_data(held[at]);
        data[0] = (unsigned char)at;
        data[63] = (unsigned char)(at + 1);
    }
    for (size_t i = 0; i < 2; i++)
        __atomic_store_n(&visits[i].busy, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < 16; i++)
        if (held[i] != NULL)
            cr_assert_eq(hearth_exec_free(arena, held[i]), HEARTH_OK);
    assert_merged(arena);
    cr_assert_gt(visits[0].released + visits[1].released, 0);
    cr_assert_eq(hearth_exec_live_count(arena), 0);
    cr_assert_eq(hearth_exec_destroy(arena), HEARTH_OK);
}
