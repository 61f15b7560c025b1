/* SPDX-License-Identifier: Apache-2.0 */
#include "plans_sequence.h"

#include "measure.h"

#include <hearth/exec.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A step with the moment of its run. */
struct moment {
    struct plans_step step;
    uint32_t at;
};

/* Frees come first: lives end where others may begin. */
static int compare_moments(const void *left, const void *right)
{
    const struct moment *a = left;
    const struct moment *b = right;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if (a->step.frees != b->step.frees)
        return a->step.frees ? -1 : 1;
    return a->step.buffer < b->step.buffer ? -1 : a->step.buffer > b->step.buffer;
}

static struct plans_sequence make_sequence(const char *name, struct pack_instance instance)
{
    struct plans_sequence sequence = {.buffers = 0};
    struct moment *moments = calloc(2 * instance.count + 1, sizeof(*moments));
    sequence.steps = calloc(2 * instance.count + 1, sizeof(*sequence.steps));
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what it holds. */
    sequence.live = calloc(instance.count + 1, sizeof(*sequence.live));
    if (moments == NULL || sequence.steps == NULL || sequence.live == NULL)
        bench_die(name, "no memory");
    snprintf(sequence.name, sizeof(sequence.name), "%s", name);
    for (size_t i = 0; i < instance.count; i++) {
        const struct hearth__pack_item *item = &instance.items[i];
        struct plans_step step = {.bytes = item->size, .buffer = (uint32_t)i};
        if (item->size == 0) /* It was exported. */
            continue;
        moments[sequence.count++] = (struct moment){step, item->begin};
        step.frees = true;
        moments[sequence.count++] = (struct moment){step, item->end};
    }
    sequence.buffers = sequence.count / 2;
    qsort(moments, sequence.count, sizeof(*moments), compare_moments);
    for (size_t i = 0; i < sequence.count; i++)
        sequence.steps[i] = moments[i].step;
    free(moments);
    free(instance.items);
    return sequence;
}

struct plans_sequence plans_read(const char *path)
{
    char name[32];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof(name), "%s", slash != NULL ? slash + 1 : path);
    char *point = strrchr(name, '.');
    if (point != NULL)
        *point = '\0';
    return make_sequence(name, pack_read_trace(path));
}

struct plans_sequence plans_make(size_t buffers, uint64_t seed)
{
    char name[32];
    snprintf(name, sizeof(name), "inference%zu", buffers);
    return make_sequence(name, pack_make(PACK_INFERENCE, buffers, seed));
}

void plans_sequence_end(struct plans_sequence *sequence)
{
    free(sequence->steps);
    free(sequence->live);
}

static inline void do_step(struct hearth_exec *arena, struct hearth_buf **live,
                           const struct plans_step *step)
{
    enum hearth_status status = step->frees
                                    ? hearth_exec_free(arena, live[step->buffer])
                                    : hearth_exec_alloc(arena, step->bytes, &live[step->buffer]);
    if (__builtin_expect(status != HEARTH_OK, 0))
        bench_die(step->frees ? "free" : "alloc", hearth_status_text(status));
}

void plans_do_step(struct hearth_exec *arena, struct plans_sequence *sequence,
                   const struct plans_step *step)
{
    do_step(arena, sequence->live, step);
}

void plans_begin(struct hearth_exec *arena)
{
    enum hearth_status status = hearth_exec_run_begin(arena, 0);
    if (status != HEARTH_OK)
        bench_die("hearth_exec_run_begin", hearth_status_text(status));
}

void plans_run(struct hearth_exec *arena, struct plans_sequence *sequence)
{
    struct hearth_buf **live = sequence->live;
    const struct plans_step *end = sequence->steps + sequence->count;
    plans_begin(arena);
    for (const struct plans_step *step = sequence->steps; step < end; step++)
        do_step(arena, live, step);
    hearth_exec_run_end(arena);
}
