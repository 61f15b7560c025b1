/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle: four threads write and return 512 MiB together, and then nobody calls hearth any more. When is the
 * memory back? Once with threads that stay, asleep, once with threads that end, and once with a cap that
 * lets nothing be retained.
 */
#include "measure.h"
#include "service_cases.h"

#include <hearth/exec.h>

#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define SPIKE_BYTES ((size_t)512 << 20)
#define BUFFER_BYTES ((size_t)4 << 20)
#define BUFFERS (SPIKE_BYTES / BUFFER_BYTES / THREADS)
#define AGE_MS 1000u
#define STEP_MS 100u
#define STEPS 100u
#define BACK_BYTES ((size_t)16 << 20) /* resident above what it was before: the memory is back */

struct idle {
    struct hearth_service *service;
    pthread_barrier_t barrier;
    bool stay;
};

static void *spike(void *argument)
{
    struct idle *idle = argument;
    struct hearth_buf *bufs[BUFFERS];
    struct hearth_exec *arena;
    bench_must(hearth_service_exec(idle->service, &arena), "attach");
    for (size_t i = 0; i < BUFFERS; i++) {
        bench_must(hearth_exec_alloc(arena, BUFFER_BYTES, &bufs[i]), "alloc");
        bench_touch(hearth_buf_data(bufs[i]), BUFFER_BYTES);
    }
    (void)pthread_barrier_wait(&idle->barrier);
    for (size_t i = 0; i < BUFFERS; i++) {
        bench_must(hearth_exec_free(arena, bufs[i]), "free");
    }
    (void)pthread_barrier_wait(&idle->barrier);
    if (idle->stay) {
        (void)pthread_barrier_wait(&idle->barrier);
    }
    return NULL;
}

static void watch(const char *setting, size_t before)
{
    uint64_t start = bench_now_ns();
    double back = -1;
    for (unsigned i = 0; i < STEPS && back < 0; i++) {
        char name[64];
        double ms = (double)(bench_now_ns() - start) / 1e6;
        size_t resident = bench_resident();
        (void)snprintf(name, sizeof name, "resident after %u ms", (unsigned)ms / STEP_MS * STEP_MS);
        bench_tell("idle", setting, name, (double)resident - (double)before, "bytes");
        if (resident <= before + BACK_BYTES) {
            back = ms;
        }
        bench_sleep_ms(STEP_MS);
    }
    bench_tell("idle", setting, "memory back after (-1: never)", back, "ms");
}

static void run(const char *setting, bool stay, size_t cap)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    struct idle idle = {.stay = stay};
    pthread_t threads[THREADS];
    options.age_ms = AGE_MS;
    options.exec_cap = cap;
    size_t before = bench_resident();
    idle.service = bench_open_service(&options);
    (void)pthread_barrier_init(&idle.barrier, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, spike, &idle) != 0) {
            bench_die("idle", "no thread");
        }
    }
    (void)pthread_barrier_wait(&idle.barrier);
    bench_tell("idle", setting, "resident at the peak", (double)bench_resident() - (double)before,
               "bytes");
    (void)pthread_barrier_wait(&idle.barrier);
    watch(setting, before);
    if (stay) {
        (void)pthread_barrier_wait(&idle.barrier);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    bench_tell("idle", setting, "retained at the end",
               (double)hearth_service_retained_bytes(idle.service), "bytes");
    hearth_service_unref(idle.service);
}

void bench_service_idle(bool quick)
{
    run("threads asleep", true, HEARTH_UNBOUNDED);
    if (!quick) {
        run("threads ended", false, HEARTH_UNBOUNDED);
        run("nothing retained", true, HEARTH_RETAIN_NOTHING);
    }
}
