/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of bench_service, and what they have in common. */
#ifndef BENCH_SERVICE_CASES_H
#define BENCH_SERVICE_CASES_H

#include <hearth/service.h>
#include <hearth/status.h>
#include <hearth/trim.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_service_case {
    const char *name;
    void (*run)(bool quick);
    unsigned seconds; /* it must have ended after so many */
};

extern const struct bench_service_case bench_service_cases[];
extern const size_t bench_service_case_count;

void bench_service_spike(bool quick);
void bench_service_storm(bool quick);
void bench_service_slices(bool quick);
void bench_service_idle(bool quick);
void bench_service_pair(bool quick);

/** Run `count` pairs of an arena ("bare", "service" or "ceiling") and report nothing. False: there
 *  is no such arena. */
bool bench_service_run_pairs(const char *arena, size_t bytes, size_t count);

/** Print one figure: case, setting, name, value, unit. */
void bench_tell(const char *one, const char *setting, const char *name, double value,
                const char *unit);

/** End the process unless OK. */
void bench_must(enum hearth_status status, const char *what);

/** A service; ends the process when that fails. `options` may be NULL. */
struct hearth_service *bench_open_service(const struct hearth_service_options *options);

/** Trim at least once, and until nothing is retained or `passes` were made, two milliseconds apart.
 *  The sum of what was released, and how many passes it took. */
unsigned bench_trim_all(struct hearth_service *service, unsigned passes, uint64_t *released);

/** Resident bytes of the process, from /proc/self/statm. */
size_t bench_resident(void);

/** Write to every page. */
void bench_touch(void *data, size_t size);

void bench_sleep_ms(unsigned ms);

/**
 * Times in nanoseconds in a logarithmic scale: 16 steps for each doubling, so a percentile is read
 * within 5 %.
 */
#define BENCH_SCALE_STEPS 16u
#define BENCH_SCALE_MAX (40u * BENCH_SCALE_STEPS)

struct bench_histogram {
    uint64_t counts[BENCH_SCALE_MAX];
    uint64_t total;
    uint64_t largest;
};

void bench_histogram_add(struct bench_histogram *histogram, uint64_t ns);
void bench_histogram_join(struct bench_histogram *histogram, const struct bench_histogram *other);
/** The time that `part` (0 to 1) of the samples do not exceed. */
double bench_histogram_at(const struct bench_histogram *histogram, double part);

#endif
