/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans of a service: random programs that go from thread to thread.
 * Covered: runs on any of several threads, told or not; buffers that outlive them and come home from any thread, one by
 * one, in bulk or by way of the I/O arena; threads that detach; trims, ticks and limits between: content is right
 * throughout, and everything is home at the end. One thread works at a time; races are in stress/. */
#include "io_support.h"
#include "plan_runs.h"
#include "service_support.h"

enum { THREADS = 4, SHAPES = 4, KEPT = 32, RUNS = 400 };

static struct rig rig;
static struct worker workers[THREADS];
static struct stage stages[THREADS];
static struct script shapes[SHAPES];
static uint64_t state;

static uint32_t below(uint32_t bound)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % bound);
}

/* A buffer without a place: it was kept, its thread detached, or the I/O arena has it. */
static struct orphan {
    struct hearth_buf *buf;
    struct place was;
} orphans[KEPT];
static size_t orphan_count;

static void look_at(const struct orphan *orphan)
{
    const unsigned char *data = hearth_buf_data(orphan->buf);
    size_t bytes = orphan->was.size / 8 * 8;
    for (size_t i = 0; i < bytes; i += 8)
        cr_assert_eq(memcmp(data + i, &orphan->was.word, 8), 0,
                     "byte %zu of %zu was written by another holder", i, bytes);
}

/* Return some of them, on whatever thread this is. */
static void return_some(void *count)
{
    struct hearth_buf *bufs[KEPT];
    size_t n = 0, most = (size_t)(uintptr_t)count;
    while (n < most && orphan_count > 0) {
        size_t i = below((uint32_t)orphan_count);
        look_at(&orphans[i]);
        bufs[n++] = orphans[i].buf;
        orphans[i] = orphans[--orphan_count];
    }
    if (below(2) == 0) {
        EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, n, NULL));
        return;
    }
    while (n > 0) {
        struct hearth_buf *buf = bufs[--n];
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(buf), buf));
    }
}

static void keep(struct stage *stage, unsigned index)
{
    struct orphan orphan = {.was = stage->places[index]};
    orphan.buf = stage_hand_over(stage, index);
    if (below(4) == 0 && hearth_io_can_take(rig.io, stage->arena)) {
        struct hearth_buf *taken = NULL;
        EXPECT(HEARTH_OK, hearth_io_take(rig.io, orphan.buf, &taken));
        orphan.buf = taken;
    }
    if (orphan_count == KEPT)
        return_some((void *)1);
    orphans[orphan_count++] = orphan;
}

/* Odds in thousandths. */
static struct odds {
    unsigned keeps, missing, extra, resizes, told;
} odds;

static void come_back(struct stage *stage, unsigned index)
{
    if (below(1000) < odds.keeps)
        keep(stage, index);
    else
        stage_give(stage, index);
}

static void run_here(void *index)
{
    static unsigned places[SCRIPT_TAKES];
    static bool there[SCRIPT_TAKES];
    struct stage *stage = &stages[(size_t)(uintptr_t)index];
    uint32_t shape = below(SHAPES);
    const struct script *script = &shapes[shape];
    if (stage->arena == NULL) {
        stage_on(stage, exec_of(rig.service), NULL);
        stage->quick = true;
    }
    bool told = below(1000) < odds.told;
    if (told)
        EXPECT(HEARTH_OK, hearth_exec_run_begin(stage->arena, shape % 2));
    for (size_t i = 0, takes = 0; i < script->acts_count; i++) {
        const struct act *act = &script->acts[i];
        if (!act->take) {
            if (there[act->value])
                come_back(stage, places[act->value]);
            continue;
        }
        if (below(1000) < odds.extra)
            come_back(stage, stage_take(stage, 1 + below(70000)));
        there[takes] = below(1000) >= odds.missing;
        if (there[takes])
            places[takes] = stage_take(stage, act->value);
        if (there[takes] && below(1000) < odds.resizes)
            stage_resize(stage, places[takes], 8 + below(100000), below(2));
        takes++;
    }
    if (told && below(8) != 0)
        EXPECT(HEARTH_OK, hearth_exec_run_end(stage->arena));
    check_identity(stage->arena, NULL);
    EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
}

static void detach_here(void *index)
{
    stages[(size_t)(uintptr_t)index].arena = NULL;
    EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
}

static void now_and_then(bool limits)
{
    uint32_t which = below(40);
    size_t i = below(THREADS);
    if (which < 8)
        worker_run(&workers[i], return_some, (void *)(uintptr_t)(1 + below(8)));
    else if (which == 8)
        EXPECT(HEARTH_OK, hearth_service_trim(rig.service, below(2) ? HEARTH_UNBOUNDED : MIB,
                                              below(2) ? 0 : 1000000, NULL));
    else if (which == 9)
        worker_run(&workers[i], detach_here, (void *)i);
    else if (which == 10)
        EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
    else if (which == 11 && limits)
        EXPECT(HEARTH_OK, hearth_service_set_ceiling(
                              rig.service, below(2) ? HEARTH_UNBOUNDED : 64 * KIB + below(MIB)));
    else if (which == 12 && limits)
        EXPECT(HEARTH_OK, hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_EXEC,
                                                           below(2) ? HEARTH_UNBOUNDED
                                                                    : 64 * KIB + below(MIB)));
}

static void hop(struct odds chosen, bool limits)
{
    odds = chosen;
    for (size_t i = 0; i < THREADS; i++)
        worker_start(&workers[i]);
    for (unsigned run = 0; run < RUNS; run++) {
        size_t i = below(THREADS);
        worker_run(&workers[i], run_here, (void *)i);
        now_and_then(limits);
        for (size_t k = 0; k < orphan_count; k++)
            look_at(&orphans[k]);
    }
    for (size_t i = 0; i < THREADS; i++)
        worker_run(&workers[i], return_some, (void *)KEPT);
    EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
    EXPECT_SIZE(0, misuse.count);
    for (size_t i = 0; i < THREADS; i++)
        worker_end(&workers[i]);
    rig_close(&rig);
}

static void setup(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.exec_store = HEARTH_EXEC_STORE_PLANS, .age_ms = 20,
                                   .age_runs = 50, .grant = 16 * KIB, .ceiling = HEARTH_UNBOUNDED,
                                   .flags = HEARTH_SERVICE_NO_THREAD));
    script_net(&shapes[0], 60, 1);
    script_net(&shapes[1], 30, 2);
    shapes[2] = script_scaled(&shapes[0], 1, 2);
    shapes[3] = shapes[0]; /* begins like 0 */
    for (size_t number = 20; number < 60; number++)
        shapes[3] = script_resized(&shapes[3], number, 64 * (300 + 11 * number));
    state = 4711;
}

TestSuite(exec_plans_hop, .init = setup, .timeout = 300);

Test(exec_plans_hop, nothing_out_of_the_ordinary)
{
    hop((struct odds){.told = 0}, false);
}

Test(exec_plans_hop, told)
{
    hop((struct odds){.told = 1000}, false);
}

Test(exec_plans_hop, few_faults)
{
    hop((struct odds){.keeps = 5, .missing = 3, .extra = 3, .resizes = 3, .told = 0}, false);
}

Test(exec_plans_hop, few_faults_told)
{
    hop((struct odds){.keeps = 5, .missing = 3, .extra = 3, .resizes = 3, .told = 900}, false);
}

Test(exec_plans_hop, many_faults_told)
{
    hop((struct odds){.keeps = 50, .missing = 40, .extra = 40, .resizes = 40, .told = 900}, false);
}

Test(exec_plans_hop, with_limits)
{
    hop((struct odds){.keeps = 10, .missing = 5, .extra = 5, .resizes = 5, .told = 500}, true);
}
