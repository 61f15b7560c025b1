/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spike: 10 buffers of 256 MiB, half of them execution and half I/O buffers, are written and returned. Then
 * 16 threads make 1,000,000 requests of 1 KiB together, in both domains, and stay, each with some of them in
 * its hands; a buffer of 64 MiB is live as well. Then a trim.
 *
 * With defaults the spike's storage is retained until the trim; with caps of 16 MiB never.
 */
#include "measure.h"
#include "service_cases.h"

#include <hearth/exec.h>
#include <hearth/io.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SPIKE_COUNT 10
#define SPIKE_BYTES ((size_t)256 << 20)
#define LIVE_BYTES ((size_t)64 << 20)
#define THREADS 16
#define REQUESTS 1000000u
#define REQUEST_BYTES ((size_t)1024) /* is its own size class */
#define WINDOW 128u                  /* of a thread, half in each domain */
#define CAP ((size_t)16 << 20)
#define PASSES 100

struct spike {
    struct hearth_service *service;
    pthread_barrier_t barrier;
    unsigned requests; /* of each thread */
};

struct requester {
    struct spike *spike;
    struct hearth_exec *arena;
    struct hearth_buf *window[WINDOW];
    size_t largest; /* capacity of a buffer that served a request */
};

static void give(const struct requester *self, unsigned i)
{
    if (self->window[i] != NULL) {
        bench_must(i % 2 == 0
                       ? hearth_exec_free(self->arena, self->window[i])
                       : hearth_io_free(hearth_service_io(self->spike->service), self->window[i]),
                   "free");
    }
}

static void take(struct requester *self, unsigned i)
{
    struct hearth_buf **buf = &self->window[i];
    bench_must(i % 2 == 0
                   ? hearth_exec_alloc(self->arena, REQUEST_BYTES, buf)
                   : hearth_io_alloc(hearth_service_io(self->spike->service), REQUEST_BYTES, buf),
               "alloc");
    size_t capacity = hearth_buf_capacity(*buf);
    self->largest = capacity > self->largest ? capacity : self->largest;
    bench_touch(hearth_buf_data(*buf), REQUEST_BYTES);
}

static void *request(void *argument)
{
    struct requester *self = argument;
    bench_must(hearth_service_exec(self->spike->service, &self->arena), "attach");
    for (unsigned i = 0; i < self->spike->requests; i++) {
        give(self, i % WINDOW);
        take(self, i % WINDOW);
    }
    (void)pthread_barrier_wait(&self->spike->barrier);
    (void)pthread_barrier_wait(&self->spike->barrier);
    for (unsigned i = 0; i < WINDOW; i++) {
        give(self, i);
    }
    return NULL;
}

static void peak(struct hearth_service *service, size_t bytes)
{
    struct hearth_buf *bufs[SPIKE_COUNT];
    struct hearth_exec *arena;
    bench_must(hearth_service_exec(service, &arena), "attach");
    for (unsigned i = 0; i < SPIKE_COUNT; i++) {
        bench_must(i % 2 == 0 ? hearth_exec_alloc(arena, bytes, &bufs[i])
                              : hearth_io_alloc(hearth_service_io(service), bytes, &bufs[i]),
                   "alloc");
        bench_touch(hearth_buf_data(bufs[i]), bytes);
    }
    bench_tell("spike", "", "resident at the peak", (double)bench_resident(), "bytes");
    for (unsigned i = 0; i < SPIKE_COUNT; i++) {
        bench_must(i % 2 == 0 ? hearth_exec_free(arena, bufs[i])
                              : hearth_io_free(hearth_service_io(service), bufs[i]),
                   "free");
    }
}

static void tell_memory(const char *setting, const char *when, struct hearth_service *service,
                        size_t before)
{
    static const char *const names[] = {"retained", "footprint", "resident"};
    double values[] = {(double)hearth_service_retained_bytes(service),
                       (double)hearth_service_footprint(service),
                       (double)bench_resident() - (double)before};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s %s", names[i], when);
        bench_tell("spike", setting, name, values[i], "bytes");
    }
}

static void trim(const char *setting, struct hearth_service *service, size_t before)
{
    uint64_t released;
    uint64_t start = bench_now_ns();
    unsigned passes = bench_trim_all(service, PASSES, &released);
    double ms = (double)(bench_now_ns() - start) / 1e6;
    tell_memory(setting, "after trim", service, before);
    bench_tell("spike", setting, "released by trim", (double)released, "bytes");
    bench_tell("spike", setting, "passes of trim", passes, "count");
    bench_tell("spike", setting, "time of trim", ms, "ms");
    double footprint = (double)hearth_service_footprint(service);
    double resident = (double)bench_resident() - (double)before;
    bench_tell("spike", setting, "resident over footprint after trim", resident / footprint,
               "ratio");
}

static void run(const char *setting, const struct hearth_service_options *options, bool quick)
{
    struct spike spike = {.requests = REQUESTS / THREADS / (quick ? 10 : 1)};
    struct requester requesters[THREADS];
    pthread_t threads[THREADS];
    struct hearth_buf *live;
    size_t before = bench_resident();
    size_t largest = 0;
    spike.service = bench_open_service(options);
    (void)pthread_barrier_init(&spike.barrier, NULL, THREADS + 1);
    peak(spike.service, quick ? SPIKE_BYTES / 8 : SPIKE_BYTES);
    tell_memory(setting, "after the spike", spike.service, before);
    bench_must(hearth_io_alloc(hearth_service_io(spike.service), LIVE_BYTES, &live), "alloc");
    bench_touch(hearth_buf_data(live), LIVE_BYTES);
    for (unsigned i = 0; i < THREADS; i++) {
        requesters[i] = (struct requester){.spike = &spike};
        if (pthread_create(&threads[i], NULL, request, &requesters[i]) != 0) {
            bench_die("spike", "no thread");
        }
    }
    (void)pthread_barrier_wait(&spike.barrier);
    for (unsigned i = 0; i < THREADS; i++) {
        largest = requesters[i].largest > largest ? requesters[i].largest : largest;
    }
    bench_tell("spike", setting, "largest capacity over rounded request",
               (double)largest / (double)REQUEST_BYTES, "ratio");
    bench_tell("spike", setting, "capacity over request of the large live buffer",
               (double)hearth_buf_capacity(live) / (double)LIVE_BYTES, "ratio");
    tell_memory(setting, "before trim", spike.service, before);
    trim(setting, spike.service, before);
    (void)pthread_barrier_wait(&spike.barrier);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    bench_must(hearth_io_free(hearth_service_io(spike.service), live), "free");
    hearth_service_unref(spike.service);
}

void bench_service_spike(bool quick)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    run("default", &options, quick);
    options.exec_cap = CAP;
    options.io_cap = CAP;
    run("caps of 16 MiB", &options, quick);
}
