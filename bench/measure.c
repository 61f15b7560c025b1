/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A batch that is still too short after this many operations is measured as it is. */
#define COUNT_MAX ((size_t)1 << 26)

uint64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void bench_pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        perror("bench: sched_setaffinity");
    }
}

int bench_cpu_from_end(unsigned index)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) == 0) {
        return 0;
    }
    unsigned skip = index % (unsigned)CPU_COUNT(&set);
    for (unsigned cpu = CPU_SETSIZE; cpu-- > 0;) {
        if (CPU_ISSET(cpu, &set) && skip-- == 0) {
            return (int)cpu;
        }
    }
    return 0;
}

_Noreturn void bench_die(const char *what, const char *detail)
{
    fprintf(stderr, "bench: %s: %s\n", what, detail);
    exit(3);
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void sort_doubles(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
}

struct bench_figure bench_collect(const struct bench_plan *plan, double (*sample)(void *context),
                                  void *context)
{
    double samples[BENCH_SAMPLES_MAX];
    struct bench_figure figure = {0};
    size_t total = (size_t)plan->groups * plan->per_group;
    if (total == 0 || total > BENCH_SAMPLES_MAX) {
        bench_die("plan", "impossible number of samples");
    }
    for (unsigned group = 0; group < plan->groups; group++) {
        double *first = samples + (size_t)group * plan->per_group;
        for (unsigned i = 0; i < plan->per_group; i++) {
            first[i] = sample(context);
        }
        sort_doubles(first, plan->per_group);
        double median = first[plan->per_group / 2];
        if (group == 0 || median < figure.ns) {
            figure.ns = median;
        }
    }
    sort_doubles(samples, total);
    figure.low = samples[total / 10];
    figure.high = samples[total - 1 - total / 10];
    return figure;
}

struct timed_batch {
    void (*batch)(void *context, size_t count);
    void *context;
    size_t count;
};

static uint64_t time_batch(const struct timed_batch *timed)
{
    uint64_t start = bench_now_ns();
    timed->batch(timed->context, timed->count);
    return bench_now_ns() - start;
}

/* The first batches also pay for page faults, thread starts and cold caches: one long batch does
 * not mean that the count suffices. */
static uint64_t best_batch(const struct timed_batch *timed)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t elapsed = time_batch(timed);
        best = elapsed < best ? elapsed : best;
    }
    return best;
}

static double sample_batch(void *context)
{
    const struct timed_batch *timed = context;
    return (double)time_batch(timed) / (double)timed->count;
}

struct bench_figure bench_measure(const struct bench_plan *plan,
                                  void (*batch)(void *context, size_t count), void *context)
{
    struct timed_batch timed = {batch, context, 1};
    while (best_batch(&timed) < plan->batch_ns && timed.count < COUNT_MAX) {
        timed.count *= 2;
    }
    return bench_collect(plan, sample_batch, &timed);
}
