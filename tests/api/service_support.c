/* SPDX-License-Identifier: Apache-2.0 */
#include "service_support.h"

#include <hearth/stats.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

static enum hearth_status bank_acquire(void *context, size_t bytes, size_t alignment,
                                       struct hearth_segment *segment)
{
    struct bank *bank = context;
    enum hearth_status status = HEARTH_NO_MEMORY;
    pthread_mutex_lock(&bank->lock);
    bank->acquires++;
    bank->waiting++;
    pthread_cond_broadcast(&bank->changed);
    while (bank->shut)
        pthread_cond_wait(&bank->changed, &bank->lock);
    bank->waiting--;
    if (bytes < 1024 * MIB && (bank->budget == 0 || bank->bytes + bytes <= bank->budget)) {
        void *base = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
        if (base) {
            memset(base, 0xA5, bytes);
            *segment = (struct hearth_segment){.base = base, .length = bytes};
            bank->bytes += bytes;
            status = HEARTH_OK;
        }
    }
    pthread_mutex_unlock(&bank->lock);
    return status;
}

static void bank_release(void *context, const struct hearth_segment *segment)
{
    struct bank *bank = context;
    pthread_mutex_lock(&bank->lock);
    bank->releases++;
    bank->bytes -= segment->length;
    if (bank->keep && bank->kept_count < BANK_KEPT)
        bank->kept[bank->kept_count++] = *segment;
    else
        free(segment->base);
    pthread_mutex_unlock(&bank->lock);
}

/* What spans give back while their segment stays: nobody may rely on it any more. */
static size_t bank_discard(void *context, void *base, size_t length)
{
    const struct bank *bank = context;
    memset(base, bank->keep ? 0 : 0xdd, length); /* what is kept is looked at */
    return length;
}

atomic_uint banks_ended;

static void bank_destroy(void *context)
{
    (void)context; /* perhaps gone: a thread that used the arena may outlive the test's bank */
    atomic_fetch_add(&banks_ended, 1);
}

static const struct hearth_backing_ops bank_ops = {
    .size = sizeof(struct hearth_backing_ops),
    .name = "bank",
    .granule = 64,
    .acquire = bank_acquire,
    .release = bank_release,
    .discard = bank_discard,
    .destroy = bank_destroy,
};

void bank_open(struct bank *bank)
{
    *bank = (struct bank){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    EXPECT(HEARTH_OK, hearth_backing_create(&bank_ops, bank, &bank->backing));
}

void bank_close(struct bank *bank)
{
    EXPECT_SIZE(0, bank_bytes(bank));
    EXPECT_SIZE(0, hearth_backing_footprint(bank->backing));
    hearth_backing_unref(bank->backing);
    for (unsigned i = 0; i < bank->kept_count; i++)
        free(bank->kept[i].base);
}

void bank_shut(struct bank *bank)
{
    pthread_mutex_lock(&bank->lock);
    bank->shut = true;
    pthread_mutex_unlock(&bank->lock);
}

void bank_unshut(struct bank *bank)
{
    pthread_mutex_lock(&bank->lock);
    bank->shut = false;
    pthread_cond_broadcast(&bank->changed);
    pthread_mutex_unlock(&bank->lock);
}

void bank_await(struct bank *bank, unsigned count)
{
    pthread_mutex_lock(&bank->lock);
    while (bank->waiting < count)
        pthread_cond_wait(&bank->changed, &bank->lock);
    pthread_mutex_unlock(&bank->lock);
}

size_t bank_bytes(struct bank *bank)
{
    pthread_mutex_lock(&bank->lock);
    size_t bytes = bank->bytes;
    pthread_mutex_unlock(&bank->lock);
    return bytes;
}

uint64_t bank_acquires(struct bank *bank)
{
    pthread_mutex_lock(&bank->lock);
    uint64_t acquires = bank->acquires;
    pthread_mutex_unlock(&bank->lock);
    return acquires;
}

void rig_open(struct rig *rig, struct hearth_service_options options)
{
    *rig = (struct rig){0};
    bank_open(&rig->bank);
    misuse_record();
    if (options.exec_backing == NULL)
        options.exec_backing = rig->bank.backing;
    if (options.io_backing == NULL)
        options.io_backing = rig->bank.backing;
    EXPECT(HEARTH_OK, hearth_service_create(&options, &rig->service));
    cr_assert_not_null(rig->service);
    rig->io = hearth_service_io(rig->service);
    cr_assert_not_null(rig->io);
}

void rig_identity(struct rig *rig)
{
    const struct hearth_service *service = rig->service;
    /* The maintenance thread may be giving something back at this moment. */
    for (unsigned i = 0; i < 300 && hearth_service_footprint(service) != bank_bytes(&rig->bank);
         i++)
        io_pause(10);
    size_t retained = hearth_service_retained_bytes(service);
    size_t footprint = hearth_service_footprint(service);
    EXPECT_SIZE(bank_bytes(&rig->bank), footprint);
    cr_assert_leq(hearth_service_live_capacity(service) + retained, footprint);
    cr_assert_leq(retained, hearth_service_ceiling(service));
    cr_assert_geq(retained, hearth_io_retained_bytes(rig->io));
}

void rig_close(struct rig *rig)
{
    EXPECT_SIZE(0, hearth_service_live_bytes(rig->service));
    EXPECT_SIZE(0, hearth_service_live_capacity(rig->service));
    rig_identity(rig);
    hearth_service_unref(rig->service);
    bank_close(&rig->bank);
}

struct hearth_exec *exec_of(struct hearth_service *service)
{
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_service_exec(service, &arena));
    cr_assert_not_null(arena);
    return arena;
}

bool exec_store_is(const char *name)
{
    const char *conf = getenv("HEARTH_CONF");
    const char *at = conf == NULL ? NULL : strstr(conf, "exec_store:");
    return at != NULL && strncmp(at + strlen("exec_store:"), name, strlen(name)) == 0;
}

size_t exec_warm(const struct hearth_exec *arena)
{
    struct hearth_exec_stats stats = HEARTH_EXEC_STATS_INIT;
    EXPECT(HEARTH_OK, hearth_exec_stats(arena, &stats));
    return (size_t)(stats.retained_bytes - stats.cold_bytes);
}

void warm_exec(struct hearth_service *service, size_t size, size_t count)
{
    struct hearth_exec *arena = exec_of(service);
    struct hearth_buf **bufs = calloc(count, sizeof *bufs);
    cr_assert_not_null(bufs);
    for (size_t i = 0; i < count; i++)
        bufs[i] = take(arena, size);
    for (size_t i = 0; i < count; i++)
        give(arena, bufs[i]);
    free(bufs);
}

void warm_io(struct hearth_service *service, size_t size, size_t count)
{
    struct hearth_lease *leases = calloc(count, sizeof *leases);
    cr_assert_not_null(leases);
    for (size_t i = 0; i < count; i++)
        leases[i] = io_lease(hearth_service_io(service), size);
    for (size_t i = 0; i < count; i++)
        io_drop(leases[i]);
    free(leases);
}

struct hearth_lease lease_by(struct hearth_io *io, size_t size, uint64_t deadline_ns,
                             enum hearth_status expected)
{
    struct hearth_request request = {.size = size, .deadline_ns = deadline_ns};
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    EXPECT(expected, hearth_io_lease_ex(io, &request, &lease));
    cr_assert((lease.buf != NULL) == (expected == HEARTH_OK));
    return lease;
}

struct hearth_trim_report service_trim(struct hearth_service *service, size_t goal,
                                       uint64_t budget_ns)
{
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    size_t before = hearth_service_footprint(service);
    EXPECT(HEARTH_OK, hearth_service_trim(service, goal, budget_ns, &report));
    EXPECT_SIZE(sizeof report, report.size);
    EXPECT_SIZE(before, report.released_bytes + report.kept_live + report.kept_leased +
                            report.kept_pending + report.kept_busy + report.kept_unreached +
                            report.kept_lost);
    EXPECT_SIZE(report.released_bytes, report.released_exec_bytes + report.released_io_bytes);
    EXPECT_SIZE(before - report.released_bytes, hearth_service_footprint(service));
    EXPECT_SIZE(0, report.kept_lost);
    return report;
}

size_t service_trim_idle(struct hearth_service *service)
{
    size_t released = 0;
    for (unsigned i = 0; i < 200; i++) {
        struct hearth_trim_report report = service_trim(service, HEARTH_UNBOUNDED, 0);
        released += report.released_bytes;
        if (report.busy_caches == 0 && report.kept_busy + report.kept_unreached == 0)
            return released;
        io_pause(5);
    }
    cr_assert_fail("%zu bytes of idle threads were not reached",
                   hearth_service_retained_bytes(service));
    return released;
}

struct hearth_refusal refusal_of(const struct hearth_service *service)
{
    struct hearth_refusal refusal = HEARTH_REFUSAL_INIT;
    EXPECT(HEARTH_OK, hearth_service_refusal(service, &refusal));
    EXPECT_SIZE(sizeof refusal, refusal.size);
    return refusal;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t in_ms(uint64_t milliseconds)
{
    return now_ns() + milliseconds * 1000000u;
}

bool wait_until(bool (*holds)(void *), void *argument, uint64_t milliseconds)
{
    uint64_t deadline = in_ms(milliseconds);
    while (!holds(argument)) {
        if (now_ns() > deadline)
            return holds(argument);
        io_pause(1);
    }
    return true;
}

static void *worker_loop(void *argument)
{
    struct worker *worker = argument;
    pthread_mutex_lock(&worker->lock);
    while (!worker->over) {
        if (worker->fn == NULL) {
            pthread_cond_wait(&worker->changed, &worker->lock);
            continue;
        }
        pthread_mutex_unlock(&worker->lock);
        worker->fn(worker->argument);
        pthread_mutex_lock(&worker->lock);
        worker->fn = NULL;
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

void worker_start(struct worker *worker)
{
    *worker =
        (struct worker){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    cr_assert_eq(pthread_create(&worker->thread, NULL, worker_loop, worker), 0);
}

void worker_begin(struct worker *worker, void (*fn)(void *), void *argument)
{
    pthread_mutex_lock(&worker->lock);
    worker->fn = fn;
    worker->argument = argument;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

void worker_wait(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->fn != NULL)
        pthread_cond_wait(&worker->changed, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
}

void worker_run(struct worker *worker, void (*fn)(void *), void *argument)
{
    worker_begin(worker, fn, argument);
    worker_wait(worker);
}

void worker_end(struct worker *worker)
{
    worker_wait(worker);
    pthread_mutex_lock(&worker->lock);
    worker->over = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    cr_assert_eq(pthread_join(worker->thread, NULL), 0);
}

void ask(void *argument)
{
    struct asking *asking = argument;
    struct hearth_request request = {
        .size = asking->size, .deadline_ns = asking->deadline_ns, .priority = asking->priority};
    asking->name = hearth_service_waiter(asking->service);
    asking->lease = (struct hearth_lease)HEARTH_LEASE_INIT;
    asking->status =
        hearth_io_lease_ex(hearth_service_io(asking->service), &request, &asking->lease);
    asking->ended_ns = now_ns();
    asking->refusal = refusal_of(asking->service);
}

void ask_begin(struct hearth_service *service, struct asking *asking, size_t size,
               uint64_t deadline_ns)
{
    *asking = (struct asking){.service = service, .size = size, .deadline_ns = deadline_ns};
    worker_start(&asking->worker);
    worker_begin(&asking->worker, ask, asking);
}

void ask_end(struct asking *asking, enum hearth_status expected)
{
    worker_end(&asking->worker);
    EXPECT(expected, asking->status);
    if (expected == HEARTH_OK)
        io_drop(asking->lease);
    else
        cr_assert_null(asking->lease.buf);
}

void await_waiters(struct hearth_service *service, size_t count)
{
    uint64_t deadline = in_ms(5000);
    while (hearth_service_waiter_count(service) != count) {
        cr_assert_lt(now_ns(), deadline, "%zu requests wait instead of %zu",
                     hearth_service_waiter_count(service), count);
        io_pause(1);
    }
}
