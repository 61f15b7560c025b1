/* SPDX-License-Identifier: Apache-2.0 */
/* Service: giving memory back when somebody asks for it, or needs it: trims, limits, and the hooks through which
 * the arenas of one thread come at what the others retain. */
#include "concurrent/service.h"

#include "concurrent/membarrier.h"
#include "core/clock.h"
#include "core/misuse.h"

#include <string.h>
#include <time.h>

#define MS ((uint64_t)1000000)
#define BOTH ((uint32_t)(HEARTH_DOMAIN_EXEC | HEARTH_DOMAIN_IO))

static void sleep_a_look(void)
{
    const struct timespec time = {0, 1200000};
    (void)nanosleep(&time, NULL);
}

static void add_up(struct hearth_service *service, const struct hearth__pass *pass,
                   struct hearth_trim_report *report)
{
    struct hearth__service_reading now;
    hearth__service_read(service, &now);
    uint64_t retained = now.exec_retained + now.io_retained;
    report->kept_leased = now.leased_capacity;
    report->kept_live =
        now.live_capacity > now.leased_capacity ? now.live_capacity - now.leased_capacity : 0;
    report->kept_live += now.cold; /* what lies between, in the same segments: its pages went */
    report->kept_pending = now.pending;
    report->kept_lost = now.lost < retained ? now.lost : retained;
    retained -= report->kept_lost;
    report->kept_busy = pass->busy_bytes < retained ? pass->busy_bytes : retained;
    report->kept_unreached = retained - report->kept_busy;
    report->visited_caches = pass->visited;
    report->busy_caches = pass->busy;
}

/* What really went back: large storage may have waited since the slice before, or wait for the next one. */
static void count_released(struct hearth_service *service, const struct hearth__pass *pass,
                           struct hearth_trim_report *report)
{
    uint64_t bytes =
        service->releases.released_bytes - pass->released_at_start + pass->released_directly;
    report->kept_unreached += hearth__load_relaxed(&service->releases.held_bytes);
    report->released_bytes = bytes;
    report->released_io_bytes = pass->released_io < bytes ? pass->released_io : bytes;
    report->released_exec_bytes = bytes - report->released_io_bytes;
}

static void copy_report(const struct hearth_trim_report *made, struct hearth_trim_report *report)
{
    size_t size = report->size;
    memcpy(report, made, size < sizeof *made ? size : sizeof *made);
    report->size = size;
}

/* Without a budget: everything within reach, however often it takes to see who is at work. */
static bool trim_all(struct hearth_service *service, struct hearth__pass *pass)
{
    if (!hearth__service_lock(service))
        return false;
    pass->released_at_start = service->releases.released_bytes;
    if (hearth__now_ns() - service->passed_ns < MS)
        sleep_a_look();
    hearth__service_pass_by_age(service, pass);
    if (pass->released < pass->goal && (pass->busy != 0 || pass->at_work)) {
        sleep_a_look();
        pass->looked = false;
        pass->visited = 0;
        pass->busy = 0;
        pass->busy_bytes = 0;
        hearth__service_pass_by_age(service, pass);
    }
    (void)hearth__service_run_releases(service, 0);
    return true;
}

/* Within a budget. False when somebody else's pass is going on. */
static bool trim_slice(struct hearth_service *service, struct hearth__pass *pass)
{
    if (!hearth__service_try_lock(service))
        return false;
    pass->released_at_start = service->releases.released_bytes;
    hearth__service_pass_by_age(service, pass);
    return true;
}

enum hearth_status hearth_service_trim(struct hearth_service *service, size_t goal,
                                       uint64_t budget_ns, struct hearth_trim_report *report)
{
    struct hearth_trim_report made = HEARTH_TRIM_REPORT_INIT;
    struct hearth__pass pass = {.domains = BOTH, .goal = goal};
    if (service == NULL || (report != NULL && report->size < sizeof report->size))
        return hearth__misuse(HEARTH_INVALID, "hearth_service_trim", NULL, report);
    enum hearth_status status = HEARTH_OK;
    uint64_t began = hearth__now_ns();
    bool mine = true;
    if (budget_ns == 0) {
        status = hearth_io_tick();
        mine = trim_all(service, &pass);
        if (!mine)
            status = HEARTH_BUSY; /* called back from a pass */
    } else {
        made.more = hearth__reclaim_pending() ? 1 : 0;
        /* Half of it: one step may take as long as the rest, such as a purge that finds more than was reckoned. */
        pass.deadline_ns = began + budget_ns / 2 < began ? UINT64_MAX : began + budget_ns / 2;
        mine = trim_slice(service, &pass);
    }
    if (mine) {
        made.purged_bytes = hearth__service_purge(service) + pass.purged_spans;
        made.kept_by_backing = hearth__service_unpurged(service);
        add_up(service, &pass, &made);
        count_released(service, &pass, &made);
        hearth__service_unlock(service);
    } else {
        add_up(service, &pass, &made);
    }
    if (!mine || pass.more || (pass.unknown && budget_ns != 0))
        made.more = 1;
    made.elapsed_ns = hearth__now_ns() - began;
    if (report != NULL)
        copy_report(&made, report);
    return status;
}

/* Hooks. */

static size_t above(size_t bytes, size_t floor)
{
    return bytes > floor ? bytes - floor : 0;
}

/* From one domain, down to a floor. */
static void take_from(struct hearth_service *service, enum hearth_domain domain, size_t floor,
                      struct hearth__pass *pass)
{
    struct hearth__service_reading now;
    hearth__service_read(service, &now);
    size_t there = domain == HEARTH_DOMAIN_EXEC ? now.exec_retained : now.io_retained;
    size_t goal = pass->goal;
    size_t most = pass->released + above(there, floor);
    if (pass->released >= goal || most == pass->released)
        return;
    pass->domains = domain;
    pass->looked = false;
    pass->goal = most < goal ? most : goal;
    pass->most = floor == 0 ? 0 : most;
    hearth__service_pass_by_age(service, pass);
    pass->goal = goal;
    pass->most = 0;
}

bool hearth__service_make_room(struct hearth_service *service, const struct hearth_exec *exec,
                               int64_t weight)
{
    struct hearth__pass pass = {.asking = exec};
    if (hearth__service_is_closed(service) || !hearth__service_try_lock(service))
        return false;
    if (hearth__now_ns() - service->passed_ns >= MS) {
        /* Some more than what is asked for, so that the next ones find credit. */
        size_t bytes = hearth__weight_capacity((hearth__weight)weight) + HEARTH__WEIGHT_UNIT;
        size_t batch = hearth__budget_ceiling(&service->budget) / 16;
        pass.goal = bytes > batch ? bytes : batch;
        take_from(service, exec != NULL ? HEARTH_DOMAIN_EXEC : HEARTH_DOMAIN_IO, 0, &pass);
        take_from(service, exec != NULL ? HEARTH_DOMAIN_IO : HEARTH_DOMAIN_EXEC,
                  exec != NULL ? service->io_floor : service->exec_floor, &pass);
    }
    hearth__service_unlock(service);
    return pass.released != 0;
}

size_t hearth__service_reclaim(struct hearth_service *service)
{
    struct hearth__pass pass = {.domains = BOTH, .goal = SIZE_MAX, .force = true};
    if (!hearth__service_lock_patiently(service))
        return 0;
    hearth__service_pass(service, &pass);
    (void)hearth__service_run_releases(service, 0);
    (void)hearth__service_purge(service);
    hearth__service_unlock(service);
    if (pass.released != 0)
        hearth__service_note_reclaimed(service, pass.released);
    return pass.released;
}

/* Limits. */

void hearth__service_apply_ceiling(struct hearth_service *service, size_t bytes)
{
    struct hearth__budget *budget = &service->budget;
    hearth__budget_set_ceiling(budget, bytes);
    hearth__io_credit_ceiling(service->io);
    if (bytes != HEARTH_UNBOUNDED)
        hearth__service_raise(service, HEARTH__ATTENTION_METERED);
    else if (hearth__membarrier_ready())
        (void)hearth__membarrier();
    hearth__io_alert(service->io, HEARTH__ATTENTION_CREDIT);
    hearth__service_charge_books(service);
}

/* Until what is retained and reachable fits the ceiling. With the pass lock held. */
static void evict_above_ceiling(struct hearth_service *service)
{
    size_t ceiling = hearth__budget_ceiling(&service->budget);
    /* Whatever the goal: each arena is charged for what it retains, or gives it back. */
    struct hearth__pass all = {
        .domains = HEARTH_DOMAIN_EXEC,
        .goal = SIZE_MAX,
        .force = true,
        .caps = true,
    };
    hearth__service_pass(service, &all);
    (void)hearth__service_run_releases(service, 0);
    for (unsigned i = 0; i < 4; i++) {
        struct hearth__service_reading now;
        hearth__service_read(service, &now);
        size_t excess = above(above(now.exec_retained + now.io_retained, now.lost), ceiling);
        int64_t missing = hearth__budget_missing(&service->budget);
        size_t uncharged = missing <= 0 ? 0 : hearth__weight_capacity((hearth__weight)missing) + 1;
        struct hearth__pass pass = {.domains = BOTH, .force = true};
        pass.goal = excess > uncharged ? excess : uncharged;
        if (pass.goal == 0)
            break;
        hearth__service_pass_by_age(service, &pass);
        (void)hearth__service_run_releases(service, 0);
    }
    (void)hearth__service_purge(service);
}

enum hearth_status hearth_service_set_ceiling(struct hearth_service *service, size_t bytes)
{
    if (service == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_set_ceiling", NULL, NULL);
    if (!hearth__reclaim_may_wait() || hearth__io_thread_inside() || !hearth__service_lock(service))
        return HEARTH_BUSY;
    hearth__store_relaxed(&service->asked_ceiling, bytes);
    service->looked_ns = 0;
    if (service->ceiling_percent != 0)
        hearth__service_look_at_container(service, hearth__now_ns());
    else
        hearth__service_apply_ceiling(service, bytes);
    if (hearth__budget_bounded(&service->budget))
        evict_above_ceiling(service);
    hearth__service_unlock(service);
    return HEARTH_OK;
}

enum hearth_status hearth_service_set_retention_cap(struct hearth_service *service,
                                                    uint32_t domains, size_t bytes)
{
    if (service == NULL || domains == 0 || (domains & ~BOTH) != 0)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_set_retention_cap", NULL, NULL);
    if (!hearth__reclaim_may_wait() || hearth__io_thread_inside() || !hearth__service_lock(service))
        return HEARTH_BUSY;
    if ((domains & HEARTH_DOMAIN_IO) != 0)
        (void)hearth_io_set_retention_cap(service->io, bytes);
    if ((domains & HEARTH_DOMAIN_EXEC) != 0) {
        struct hearth__pass pass = {.domains = HEARTH_DOMAIN_EXEC, .goal = 0, .force = true};
        hearth__store_relaxed(&service->exec_cap, bytes);
        hearth__service_raise(service, HEARTH__ATTENTION_CREDIT);
        pass.caps = true;
        pass.goal = SIZE_MAX;
        hearth__service_pass(service, &pass);
        (void)hearth__service_run_releases(service, 0);
        (void)hearth__service_purge(service);
    }
    hearth__service_unlock(service);
    return HEARTH_OK;
}

enum hearth_status hearth_service_set_live_limit(struct hearth_service *service, size_t bytes,
                                                 size_t reserve)
{
    static const char call[] = "hearth_service_set_live_limit";
    if (service == NULL || reserve > bytes || (reserve != 0 && bytes == HEARTH_UNBOUNDED))
        return hearth__misuse(HEARTH_INVALID, call, NULL, NULL);
    if (!service->budget.metered)
        return hearth__misuse_detail(HEARTH_INVALID, call, NULL, NULL,
                                     "the service does not count live bytes; create it with a "
                                     "live_limit, HEARTH_UNBOUNDED for one to be set later");
    return hearth__budget_set_live_limit(&service->budget, bytes, reserve) ? HEARTH_OK
                                                                           : HEARTH_BUSY;
}

enum hearth_status hearth_service_set_ageing(struct hearth_service *service, uint32_t age_runs,
                                             uint32_t age_ms)
{
    if (service == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_set_ageing", NULL, NULL);
    hearth__store_relaxed(&service->age_runs, age_runs == 0 ? HEARTH_AGE_RUNS_DEFAULT : age_runs);
    hearth__store_relaxed(&service->age_ms, age_ms == 0 ? HEARTH_AGE_MS_DEFAULT : age_ms);
    hearth__service_grew(service, 0); /* there may have been no need of a thread so far */
    hearth__service_wake(service);
    return HEARTH_OK;
}
