/* SPDX-License-Identifier: Apache-2.0 */
/* What Service() is given, as options of the library. */
#include "arena.h"

/* What the constructor was given, in its order. */
enum argument {
    EXECUTION_LIMIT,
    IO_LIMIT,
    CEILING,
    LIVE_LIMIT,
    EXHAUSTION,
    REUSE_RATIO,
    AGE_RUNS,
    AGE_SECONDS,
    STORE,
    SCRUB,
    MAINTENANCE_THREAD,
    HUGE_PAGES,
    BACKING,
    ARGUMENTS
};

static int parse_age_runs(const struct hearthpy_state *state, PyObject *value, uint32_t *runs)
{
    size_t given;
    if (hearthpy_count(value, "age_runs", &given) != 0)
        return -1;
    if (given == 0 && hearthpy_is_given(value))
        given = HEARTH_AGE_NEVER;
    if (given > HEARTH_AGE_NEVER) {
        (void)hearthpy_fail(state, HEARTH_INVALID,
                            "age_runs is %R, above the most of %u; 0 means never", value,
                            HEARTH_AGE_NEVER - 1);
        return -1;
    }
    *runs = (uint32_t)given;
    return 0;
}

static int parse_age_seconds(const struct hearthpy_state *state, PyObject *value, uint32_t *ms)
{
    uint64_t ns;
    *ms = 0;
    if (!hearthpy_is_given(value))
        return 0;
    if (hearthpy_seconds(state, value, "age_seconds", &ns) != 0)
        return -1;
    uint64_t whole = ns / 1000000u + (ns % 1000000u != 0);
    *ms = ns == 0 || whole >= HEARTH_AGE_NEVER ? HEARTH_AGE_NEVER : (uint32_t)whole;
    return 0;
}

static int parse_flag(PyObject *value, bool otherwise, uint32_t flag, uint32_t *flags)
{
    int truth = !hearthpy_is_given(value) ? otherwise : PyObject_IsTrue(value);
    if (truth > 0)
        *flags |= flag;
    return truth < 0 ? -1 : 0;
}

static int parse_flags(PyObject *const values[ARGUMENTS], uint32_t *flags)
{
    uint32_t has_thread = 0;
    if (parse_flag(values[SCRUB], false, HEARTH_SERVICE_SCRUB, flags) != 0 ||
        parse_flag(values[MAINTENANCE_THREAD], true, 1, &has_thread) != 0)
        return -1;
    if (!has_thread)
        *flags |= HEARTH_SERVICE_NO_THREAD;
    return 0;
}

/* All but the backings. */
static int parse_options(const struct hearthpy_state *state, PyObject *const values[ARGUMENTS],
                         struct hearth_service_options *options)
{
    static const char *const policies[] = {"grow", "fail", "wait"};
    if (hearthpy_cap(values[EXECUTION_LIMIT], "execution_limit", &options->exec_cap) != 0 ||
        hearthpy_cap(values[IO_LIMIT], "io_limit", &options->io_cap) != 0 ||
        hearthpy_cap(values[CEILING], "ceiling", &options->ceiling) != 0 ||
        hearthpy_positive(state, values[LIVE_LIMIT], "live_limit", &options->live_limit) != 0 ||
        hearthpy_choice(state, values[EXHAUSTION], "exhaustion", policies, 3, 0,
                        &options->exhaustion) != 0 ||
        hearthpy_reuse_ratio(state, values[REUSE_RATIO], &options->reuse_ratio) != 0 ||
        parse_age_runs(state, values[AGE_RUNS], &options->age_runs) != 0 ||
        parse_age_seconds(state, values[AGE_SECONDS], &options->age_ms) != 0 ||
        hearthpy_store(state, values[STORE], &options->exec_store) != 0)
        return -1;
    return parse_flags(values, &options->flags);
}

/* One for each domain, so that its figures are the domain's. */
static int parse_backings(const struct hearthpy_state *state, PyObject *const values[ARGUMENTS],
                          struct hearth_service_options *options)
{
    if (hearthpy_backing(state, values[BACKING], values[HUGE_PAGES], &options->exec_backing) != 0)
        return -1;
    if (hearthpy_backing(state, values[BACKING], values[HUGE_PAGES], &options->io_backing) == 0)
        return 0;
    hearth_backing_unref(options->exec_backing);
    return -1;
}

int hearthpy_service_options(const struct hearthpy_state *state, PyObject *args, PyObject *keywords,
                             struct hearth_service_options *options)
{
    static char *names[] = {
        "execution_limit",    "io_limit",   "ceiling",     "live_limit", "exhaustion",
        "reuse_ratio",        "age_runs",   "age_seconds", "store",      "scrub",
        "maintenance_thread", "huge_pages", "backing",     NULL};
    PyObject *v[ARGUMENTS] = {NULL};
    *options = (struct hearth_service_options)HEARTH_SERVICE_OPTIONS_INIT;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOOOOOOOOOOO:Service", names, &v[0], &v[1],
                                     &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10],
                                     &v[11], &v[12]) ||
        parse_options(state, v, options) != 0)
        return -1;
    return parse_backings(state, v, options);
}
