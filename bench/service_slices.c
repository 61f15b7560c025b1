/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices: one million idle buffers of 1 KiB, alone and with some of 256 MiB, given back by
 * hearth_service_trim() with a budget of one millisecond, called until there is no more.
 */
#include "measure.h"
#include "service_cases.h"

#include <hearth/exec.h>
#include <hearth/io.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SMALL_COUNT ((size_t)1000000)
#define SMALL_BYTES ((size_t)1024)
#define LARGE_COUNT 4u
#define LARGE_BYTES ((size_t)256 << 20)
#define BUDGET_NS UINT64_C(1000000)
#define SLICES_MAX 1000000u
#define VAIN_MAX 200u /* slices in a row that released nothing, a millisecond apart */

struct load {
    struct hearth_service *service;
    bool io;
    size_t small_count;
    unsigned large_count;
    size_t large_bytes;
};

static void take(const struct load *load, struct hearth_exec *arena, size_t size,
                 struct hearth_buf **buf)
{
    bench_must(load->io ? hearth_io_alloc(hearth_service_io(load->service), size, buf)
                        : hearth_exec_alloc(arena, size, buf),
               "alloc");
    bench_touch(hearth_buf_data(*buf), size);
}

static void give(const struct load *load, struct hearth_exec *arena, struct hearth_buf *buf)
{
    bench_must(load->io ? hearth_io_free(hearth_service_io(load->service), buf)
                        : hearth_exec_free(arena, buf),
               "free");
}

/* The thread ends: its arena waits for the next one. */
static void *fill(void *argument)
{
    const struct load *load = argument;
    size_t count = load->small_count + load->large_count;
    struct hearth_buf **bufs = calloc(count, sizeof(struct hearth_buf *));
    struct hearth_exec *arena = NULL;
    if (bufs == NULL) {
        bench_die("slices", "out of memory");
    }
    if (!load->io) {
        bench_must(hearth_service_exec(load->service, &arena), "attach");
    }
    for (size_t i = 0; i < count; i++) {
        take(load, arena, i < load->small_count ? SMALL_BYTES : load->large_bytes, &bufs[i]);
    }
    for (size_t i = 0; i < count; i++) {
        give(load, arena, bufs[i]);
    }
    free((void *)bufs);
    return NULL;
}

/* Of this thread: on a busy machine the clock also counts the others. */
static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run(const char *setting, const struct load *what)
{
    static struct bench_histogram wall, cpu, told;
    struct load load = *what;
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    pthread_t thread;
    unsigned slices = 0, vain = 0, vain_in_all = 0;
    uint64_t released = 0, spent = 0;
    options.flags = HEARTH_SERVICE_NO_THREAD;
    options.age_ms = HEARTH_AGE_NEVER;
    load.service = bench_open_service(&options);
    if (pthread_create(&thread, NULL, fill, &load) != 0) {
        bench_die("slices", "no thread");
    }
    pthread_join(thread, NULL);
    size_t retained = hearth_service_retained_bytes(load.service);
    memset(&wall, 0, sizeof wall);
    memset(&cpu, 0, sizeof cpu);
    memset(&told, 0, sizeof told);
    for (bool more = true; more && slices < SLICES_MAX && vain < VAIN_MAX; slices++) {
        struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
        uint64_t cpu_start = cpu_ns();
        uint64_t start = bench_now_ns();
        bench_must(hearth_service_trim(load.service, HEARTH_UNBOUNDED, BUDGET_NS, &report), "trim");
        uint64_t ns = bench_now_ns() - start;
        bench_histogram_add(&cpu, cpu_ns() - cpu_start);
        bench_histogram_add(&wall, ns);
        bench_histogram_add(&told, report.elapsed_ns);
        spent += ns;
        released += report.released_bytes;
        vain = report.released_bytes == 0 ? vain + 1 : 0;
        if (vain != 0) {
            vain_in_all++;
            bench_sleep_ms(1);
        }
        more = report.more != 0 || hearth_service_retained_bytes(load.service) != 0;
    }
    bench_tell("slices", setting, "retained before", (double)retained, "bytes");
    bench_tell("slices", setting, "released", (double)released, "bytes");
    bench_tell("slices", setting, "retained after",
               (double)hearth_service_retained_bytes(load.service), "bytes");
    bench_tell("slices", setting, "slices", slices, "count");
    bench_tell("slices", setting, "slices in vain", vain_in_all, "count");
    bench_tell("slices", setting, "time of all", (double)spent / 1e6, "ms");
    bench_tell("slices", setting, "longest slice", (double)wall.largest / 1e6, "ms");
    bench_tell("slices", setting, "p99 of a slice", bench_histogram_at(&wall, 0.99) / 1e6, "ms");
    bench_tell("slices", setting, "longest slice, processor time", (double)cpu.largest / 1e6, "ms");
    bench_tell("slices", setting, "p50 of a slice, processor time",
               bench_histogram_at(&cpu, 0.5) / 1e6, "ms");
    bench_tell("slices", setting, "p99 of a slice, processor time",
               bench_histogram_at(&cpu, 0.99) / 1e6, "ms");
    bench_tell("slices", setting, "longest slice as reported", (double)told.largest / 1e6, "ms");
    bench_tell("slices", setting, "p99 as reported", bench_histogram_at(&told, 0.99) / 1e6, "ms");
    hearth_service_unref(load.service);
}

void bench_service_slices(bool quick)
{
    struct load load = {.small_count = quick ? SMALL_COUNT / 10 : SMALL_COUNT,
                        .large_bytes = quick ? LARGE_BYTES / 8 : LARGE_BYTES};
    run("exec, 1 KiB", &load);
    load.large_count = LARGE_COUNT;
    run("exec, 1 KiB and 256 MiB", &load);
    load.io = true;
    run("I/O, 1 KiB and 256 MiB", &load);
}
