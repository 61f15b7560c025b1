/* SPDX-License-Identifier: Apache-2.0 */
/* Service: its options, completed by what the environment says and by defaults, and checked. */
#include "concurrent/service.h"

#include "core/conf.h"
#include "core/debug.h"
#include "core/misuse.h"

static enum hearth_status refuse_options(const char *detail)
{
    return hearth__misuse_detail(HEARTH_INVALID, "hearth_service_create", NULL, NULL, detail);
}

static void apply_conf(const struct hearth__conf *conf, struct hearth_service_options *options)
{
#define OVERRIDE(given, member, value)                                                             \
    if (conf->given)                                                                               \
    options->member = (value)
    OVERRIDE(has_exec_cap, exec_cap, conf->exec_cap == 0 ? HEARTH_RETAIN_NOTHING : conf->exec_cap);
    OVERRIDE(has_io_cap, io_cap, conf->io_cap == 0 ? HEARTH_RETAIN_NOTHING : conf->io_cap);
    OVERRIDE(has_reuse_ratio, reuse_ratio, conf->reuse_ratio);
    OVERRIDE(has_ceiling, ceiling, conf->ceiling == 0 ? HEARTH_RETAIN_NOTHING : conf->ceiling);
    OVERRIDE(has_live_limit, live_limit, conf->live_limit);
    OVERRIDE(has_grant, grant, conf->grant);
    OVERRIDE(has_exec_floor, exec_floor, conf->exec_floor);
    OVERRIDE(has_io_floor, io_floor, conf->io_floor);
    OVERRIDE(has_age_ms, age_ms, conf->age_ms);
    OVERRIDE(has_age_runs, age_runs, conf->age_runs);
    OVERRIDE(has_exhaustion, exhaustion, conf->exhaustion);
    OVERRIDE(has_ceiling_percent, ceiling_percent, conf->ceiling_percent);
    OVERRIDE(has_slots, exec_slots, conf->slots);
    OVERRIDE(has_slots, io_slots, conf->slots);
    OVERRIDE(exec_store != HEARTH_EXEC_STORE_DEFAULT, exec_store, conf->exec_store);
#undef OVERRIDE
    if (conf->has_maintenance && conf->maintenance)
        options->flags &= ~HEARTH_SERVICE_NO_THREAD;
    else if (conf->has_maintenance)
        options->flags |= HEARTH_SERVICE_NO_THREAD;
}

static void apply_defaults(struct hearth_service_options *options)
{
    size_t *unbounded[] = {&options->exec_cap, &options->io_cap, &options->ceiling};
    for (size_t i = 0; i < sizeof unbounded / sizeof unbounded[0]; i++)
        if (*unbounded[i] == 0)
            *unbounded[i] = HEARTH_UNBOUNDED;
    if (options->grant == 0)
        options->grant =
            options->ceiling < HEARTH_GRANT_DEFAULT ? options->ceiling : HEARTH_GRANT_DEFAULT;
    if (options->exec_slots == 0)
        options->exec_slots = HEARTH_EXEC_SLOTS_DEFAULT;
    if (options->io_slots == 0)
        options->io_slots = (size_t)1 << 20;
    if (options->maintenance_bytes == 0)
        options->maintenance_bytes = HEARTH_MAINTENANCE_BYTES_DEFAULT;
    if (options->reuse_ratio == 0)
        options->reuse_ratio = HEARTH_REUSE_RATIO_DEFAULT;
    if (options->age_runs == 0)
        options->age_runs = HEARTH_AGE_RUNS_DEFAULT;
    if (options->age_ms == 0)
        options->age_ms = HEARTH_AGE_MS_DEFAULT;
}

static enum hearth_status check_options(const struct hearth_service_options *options)
{
    if ((options->reserved_word | options->reserved[0] | options->reserved[1] |
         options->reserved[2]) != 0)
        return refuse_options("options->reserved is not zero; start from "
                              "HEARTH_SERVICE_OPTIONS_INIT");
    if (options->ceiling != HEARTH_UNBOUNDED && options->grant > options->ceiling)
        return refuse_options("options->grant is above options->ceiling; lower it");
    if (options->reserve != 0 &&
        (options->live_limit == 0 || options->live_limit == HEARTH_UNBOUNDED ||
         options->reserve > options->live_limit))
        return refuse_options("options->reserve needs an options->live_limit that is not below it");
    if (options->exhaustion > HEARTH_EXHAUSTION_WAIT)
        return refuse_options("options->exhaustion is no enum hearth_exhaustion");
    if (options->exec_store > HEARTH_EXEC_STORE_PLANS)
        return refuse_options("options->exec_store is no enum hearth_exec_store");
    if (options->ceiling_percent > 100)
        return refuse_options("options->ceiling_percent is above 100");
    if ((options->flags & ~(HEARTH_SERVICE_NO_THREAD | HEARTH_SERVICE_SCRUB)) != 0)
        return refuse_options("options->flags has bits that this version does not know");
    if (options->exec_slots > HEARTH__SLOTS_MAX || options->io_slots > HEARTH__SLOTS_MAX)
        return HEARTH_OVERFLOW;
    return HEARTH_OK;
}

enum hearth_status hearth__service_options(const struct hearth_service_options *given,
                                           struct hearth_service_options *options, uint32_t *debug)
{
    struct hearth__conf conf;
    *options = (struct hearth_service_options)HEARTH_SERVICE_OPTIONS_INIT;
    *debug = 0;
    if (given != NULL) {
        if (given->size != sizeof *given)
            return refuse_options("options->size is not one this version knows; start from "
                                  "HEARTH_SERVICE_OPTIONS_INIT");
        *options = *given;
    }
    enum hearth_status status = hearth__conf_environment("hearth_service_create", &conf);
    if (status != HEARTH_OK)
        return status;
    apply_conf(&conf, options);
    apply_defaults(options);
    *debug = hearth__debug_arena(conf.debug) |
             ((options->flags & HEARTH_SERVICE_SCRUB) != 0 ? HEARTH__DEBUG_SCRUB : 0);
    return check_options(options);
}
