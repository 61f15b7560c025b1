/* SPDX-License-Identifier: Apache-2.0 */
/* `hearth scenarios`: each scenario with each number of threads, each in a process of its own. */
#include "command.h"
#include "isolate.h"
#include "scenarios_kernels.h"
#include "scenarios_options.h"
#include "scenarios_report.h"
#include "scenarios_row.h"

#include <hearth/stats.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static enum command_status measure_here(void *argument)
{
    return scenario_measure(argument) ? COMMAND_OK : COMMAND_BAD_INPUT;
}

static enum command_status measure(struct scenario_row *row)
{
    char what[128];
    snprintf(what, sizeof what, "hearth scenarios: %s, %" PRIu32 " threads",
             scenario_name(row->job.scenario), row->job.threads);
    return isolate_call(what, measure_here, row);
}

static size_t fill_rows(const struct scenario_options *options, struct scenario_row *rows)
{
    size_t count = 0;
    for (int scenario = 0; scenario < SCENARIO_COUNT; scenario++) {
        for (uint32_t i = 0; options->chosen[scenario] && i < options->thread_counts; i++) {
            rows[count++].job = (struct scenario_job){
                .scenario = (enum scenario_number)scenario,
                .threads = options->threads[i],
                .warmup = options->warmup,
                .runs = options->runs,
                .seed = options->seed,
            };
        }
    }
    return count;
}

/* Says of each row that is not as promised which figure it is. */
static enum command_status judge(const struct scenario_row *rows, size_t count)
{
    enum command_status status = COMMAND_OK;
    for (size_t i = 0; i < count; i++) {
        char why[256];
        if (!scenario_accept(&rows[i], why, sizeof why)) {
            fprintf(stderr, "hearth scenarios: %s, %" PRIu32 " threads: %s\n",
                    scenario_name(rows[i].job.scenario), rows[i].job.threads, why);
            status = COMMAND_ERRORS;
        }
    }
    return status;
}

static enum command_status run_rows(const struct scenario_options *options,
                                    struct scenario_row *rows)
{
    size_t count = fill_rows(options, rows);
    for (size_t i = 0; i < count; i++) {
        enum command_status status = measure(&rows[i]);
        if (status != COMMAND_OK) {
            return status;
        }
    }
    bool printed =
        options->json ? scenario_report_json(rows, count) : scenario_report_table(rows, count);
    enum command_status status = judge(rows, count);
    return printed ? status : COMMAND_ERRORS;
}

int scenarios_command(int argc, char **argv)
{
    struct scenario_options options;
    char message[256];
    scenario_options_parse(argc, argv, &options);
    if (hearth_conf_check(getenv("HEARTH_CONF"), message, sizeof message) != HEARTH_OK) {
        fprintf(stderr, "hearth scenarios: HEARTH_CONF: %s\n", message);
        return COMMAND_BAD_INPUT;
    }
    size_t most = (size_t)SCENARIO_COUNT * options.thread_counts;
    struct scenario_row *rows = isolate_alloc(most, sizeof *rows);
    if (rows == NULL) {
        fprintf(stderr, "hearth scenarios: out of memory\n");
        return COMMAND_BAD_INPUT;
    }
    scenario_blas_init();
    enum command_status status = run_rows(&options, rows);
    isolate_free(rows, most, sizeof *rows);
    return (int)status;
}
