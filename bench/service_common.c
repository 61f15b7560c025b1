/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"
#include "service_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PASS_MS 2u /* apart: there is one visiting pass per millisecond at most */

const struct bench_service_case bench_service_cases[] = {
    {"pair", bench_service_pair, 60},    {"spike", bench_service_spike, 300},
    {"storm", bench_service_storm, 300}, {"slices", bench_service_slices, 300},
    {"idle", bench_service_idle, 120},
};
const size_t bench_service_case_count = sizeof bench_service_cases / sizeof *bench_service_cases;

void bench_tell(const char *one, const char *setting, const char *name, double value,
                const char *unit)
{
    printf("%s\t%s\t%s\t%.3f\t%s\n", one, setting, name, value, unit);
    fflush(stdout);
}

void bench_must(enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK) {
        bench_die(what, hearth_status_name(status));
    }
}

struct hearth_service *bench_open_service(const struct hearth_service_options *options)
{
    struct hearth_service *service = NULL;
    bench_must(hearth_service_create(options, &service), "service");
    return service;
}

unsigned bench_trim_all(struct hearth_service *service, unsigned passes, uint64_t *released)
{
    unsigned pass = 0;
    *released = 0;
    do {
        struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
        if (pass++ > 0) {
            bench_sleep_ms(PASS_MS);
        }
        bench_must(hearth_service_trim(service, HEARTH_UNBOUNDED, 0, &report), "trim");
        *released += report.released_bytes;
    } while (pass < passes && hearth_service_retained_bytes(service) != 0);
    return pass;
}

size_t bench_resident(void)
{
    char line[128] = "";
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) {
        bench_die("/proc/self/statm", "cannot be read");
    }
    const char *second = fgets(line, sizeof line, file) == NULL ? NULL : strchr(line, ' ');
    fclose(file);
    size_t pages = second == NULL ? 0 : strtoul(second, NULL, 10);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

void bench_touch(void *data, size_t size)
{
    volatile unsigned char *bytes = data;
    for (size_t i = 0; i < size; i += 4096) {
        bytes[i] = 1;
    }
}

void bench_sleep_ms(unsigned ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* Below one doubling's steps each nanosecond has its own. */
static unsigned step_of(uint64_t ns)
{
    if (ns < BENCH_SCALE_STEPS) {
        return (unsigned)ns;
    }
    unsigned doubling = 63u - (unsigned)__builtin_clzll(ns);
    unsigned within = (unsigned)(ns >> (doubling - 4)) - BENCH_SCALE_STEPS;
    unsigned step = (doubling - 3) * BENCH_SCALE_STEPS + within;
    return step < BENCH_SCALE_MAX ? step : BENCH_SCALE_MAX - 1;
}

/* The middle of a step. */
static double step_ns(unsigned step)
{
    if (step < BENCH_SCALE_STEPS) {
        return step;
    }
    unsigned doubling = step / BENCH_SCALE_STEPS + 3;
    double within = (double)(step % BENCH_SCALE_STEPS) + BENCH_SCALE_STEPS + 0.5;
    return within * (double)(UINT64_C(1) << (doubling - 4));
}

void bench_histogram_add(struct bench_histogram *histogram, uint64_t ns)
{
    histogram->counts[step_of(ns)]++;
    histogram->total++;
    histogram->largest = ns > histogram->largest ? ns : histogram->largest;
}

void bench_histogram_join(struct bench_histogram *histogram, const struct bench_histogram *other)
{
    for (unsigned i = 0; i < BENCH_SCALE_MAX; i++) {
        histogram->counts[i] += other->counts[i];
    }
    histogram->total += other->total;
    histogram->largest = other->largest > histogram->largest ? other->largest : histogram->largest;
}

double bench_histogram_at(const struct bench_histogram *histogram, double part)
{
    uint64_t rest = (uint64_t)(part * (double)histogram->total);
    for (unsigned i = 0; i < BENCH_SCALE_MAX; i++) {
        if (histogram->counts[i] > rest) {
            return step_ns(i);
        }
        rest -= histogram->counts[i];
    }
    return (double)histogram->largest;
}
