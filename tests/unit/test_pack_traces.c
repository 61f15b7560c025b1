/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packer on runs of a real engine: every run of every trace, against what was measured when this was
 * written. A run is what the execution arena sees: without what is exported.
 */
#include "pack_check.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 1000

struct recorded {
    struct hearth__pack_item items[ITEMS_MAX];
    unsigned long ids[ITEMS_MAX];
    size_t count;
};

static struct hearth__pack_item *find(struct recorded *run, unsigned long id)
{
    for (size_t i = 0; i < run->count; i++) {
        if (run->ids[i] == id)
            return &run->items[i];
    }
    cr_assert_fail("no buffer %lu", id);
    return NULL;
}

/* A run of a trace; false: it has none of this number. */
static bool read_run(const char *name, unsigned long number, struct recorded *run)
{
    char path[4096];
    snprintf(path, sizeof(path), HEARTH_TEST_DATA "/traces/%s.csv", name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    char line[128];
    uint32_t step = 0;
    run->count = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        char op[16];
        unsigned long at, id, bytes;
        if (sscanf(line, "%lu,%15[a-z],%lu,%lu", &at, op, &id, &bytes) != 4 || at != number)
            continue;
        step++;
        if (strcmp(op, "alloc") == 0) {
            cr_assert_lt(run->count, ITEMS_MAX);
            run->ids[run->count] = id;
            run->items[run->count++] = (struct hearth__pack_item){bytes, step, UINT32_MAX};
        } else if (strcmp(op, "free") == 0) {
            find(run, id)->end = step;
        } else {
            find(run, id)->size = 0;
        }
    }
    fclose(file);
    return run->count > 0;
}

static const struct {
    const char *name;
    unsigned long runs;
    double ratio; /* of total and bound, at most */
} traces[] = {
    {"cls", 2, 1.013}, {"det320", 2, 1}, {"det640", 2, 1}, {"det640_parallel", 2, 1},
    {"detvar", 12, 1}, {"rec", 2, 1},    {"vad", 4, 1},
};

Test(pack_traces, every_run_is_near_its_peak)
{
    static struct recorded run;
    for (size_t i = 0; i < COUNT_OF(traces); i++) {
        unsigned long runs = 0;
        for (; read_run(traces[i].name, runs, &run); runs++) {
            struct hearth__pack_report report = pack_checked(run.items, run.count, NULL);
            cr_assert_leq((double)report.total, traces[i].ratio * (double)report.bound,
                          "%s: %zu for %zu", traces[i].name, report.total, report.bound);
            /* What ends at the bound ends early. */
            cr_assert(report.total > report.bound || report.work < 100000, "%s: %zu units",
                      traces[i].name, (size_t)report.work);
        }
        cr_assert_eq(runs, traces[i].runs, "%s", traces[i].name);
    }
}
