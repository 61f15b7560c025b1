/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leak checks against everybody's work.
 *
 * Each thread has an execution arena of its own, and all share an I/O arena. Each begins a check, takes and
 * returns buffers of both, hands some to its neighbour to be returned there, and ends the check, while the others
 * do the same. Arenas come and go.
 *
 * Oracle: a check names every buffer that its thread took inside it and still holds, with its size, once.
 * Those of others may be named, too.
 */
#include "harness.h"

#include <hearth/exec.h>
#include <hearth/service.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#define HELD 6
#define STEPS 40
#define THREADS_MAX 64
#define SMOKE_ROUNDS 400

struct worker {
    struct hearth_exec *arena;
    struct hearth_buf *held[HELD];
    size_t bytes[HELD];
    unsigned named[HELD];
    _Atomic(struct hearth_buf *) mail; /* to be returned by this thread */
    unsigned number;
};

static struct stress_options options;
static struct worker workers[THREADS_MAX];
static struct hearth_io *io;
static _Atomic(uint64_t) checks, leaks;

static void return_mail(struct worker *self)
{
    struct hearth_buf *buf = atomic_exchange_explicit(&self->mail, NULL, memory_order_acq_rel);
    if (buf != NULL)
        stress_must(hearth_free(hearth_buf_owner(buf), buf), "free from afar");
}

static void step(struct worker *self, uint64_t *random)
{
    unsigned i = (unsigned)(stress_next(random) % HELD);
    struct hearth_buf *buf = self->held[i];
    if (buf == NULL) {
        self->bytes[i] = 1 + stress_next(random) % 20000;
        if (stress_next(random) % 2 == 0)
            stress_must(hearth_exec_alloc(self->arena, self->bytes[i], &self->held[i]), "alloc");
        else
            stress_must(hearth_io_alloc(io, self->bytes[i], &self->held[i]), "alloc");
        return;
    }
    self->held[i] = NULL;
    struct worker *neighbour = &workers[(self->number + 1) % options.threads];
    if (stress_next(random) % 2 == 0)
        buf = atomic_exchange_explicit(&neighbour->mail, buf, memory_order_acq_rel);
    if (buf != NULL)
        stress_must(hearth_free(hearth_buf_owner(buf), buf), "free");
    return_mail(self);
}

static void note(void *context, const struct hearth_leak *leak)
{
    struct worker *self = context;
    for (unsigned i = 0; i < HELD; i++) {
        if (self->held[i] != leak->buf)
            continue;
        self->named[i]++;
        if (leak->bytes != self->bytes[i])
            stress_violation("%zu bytes are told of a buffer of %zu", leak->bytes, self->bytes[i]);
    }
}

static void round_of(struct worker *self, uint64_t *random)
{
    struct hearth_leak_check *check = NULL;
    size_t count = 0;
    stress_must(hearth_exec_create(NULL, &self->arena), "create");
    stress_must(hearth_leak_check_begin(NULL, &check), "begin");
    for (unsigned i = 0; i < STEPS; i++)
        step(self, random);
    for (unsigned i = 0; i < HELD; i++)
        self->named[i] = 0;
    unsigned held = 0;
    for (unsigned i = 0; i < HELD; i++)
        held += self->held[i] != NULL;
    enum hearth_status status = hearth_leak_check_end(check, note, self, &count);
    if (status != (count == 0 ? HEARTH_OK : HEARTH_BUSY) || count < held)
        stress_violation("a check that should find %u at least found %zu", held, count);
    for (unsigned i = 0; i < HELD; i++) {
        if (self->named[i] != (self->held[i] != NULL))
            stress_violation("a buffer was named %u times", self->named[i]);
        if (self->held[i] != NULL)
            stress_must(hearth_free(hearth_buf_owner(self->held[i]), self->held[i]), "free");
        self->held[i] = NULL;
    }
    atomic_fetch_add_explicit(&checks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&leaks, count, memory_order_relaxed);
    stress_must(hearth_exec_detach(self->arena, NULL), "detach");
}

static void *work(void *argument)
{
    struct worker *self = argument;
    uint64_t random = stress_seed(&options, self->number);
    for (uint64_t round = 0; stress_goes_on(&options, round, SMOKE_ROUNDS); round++)
        round_of(self, &random);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    options = stress_parse(argc, argv, "stress_leak_check", 4);
    if (options.threads > THREADS_MAX)
        options.threads = THREADS_MAX;
    io = stress_io_open(NULL, (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i].number = i;
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < options.threads; i++)
        return_mail(&workers[i]);
    stress_io_home(io);
    stress_must(hearth_io_destroy(io), "destroy");
    char counts[96];
    snprintf(counts, sizeof counts, "%" PRIu64 " checks, %" PRIu64 " buffers out",
             atomic_load_explicit(&checks, memory_order_relaxed),
             atomic_load_explicit(&leaks, memory_order_relaxed));
    return stress_verdict("stress_leak_check", &options, counts);
}
