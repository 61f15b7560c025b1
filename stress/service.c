/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <hearth/allocator.h>
#include <hearth/io.h>
#include <hearth/status.h>

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BOXES 24
#define PASSES 400       /* of a trim that has to reach everybody */
#define PASS_NS 2000000L /* more than the shortest distance of two passes */

static _Atomic(struct stress_parcel *) boxes[BOXES];

void stress_nap(void)
{
    static const struct timespec moment = {0, PASS_NS};
    (void)nanosleep(&moment, NULL);
}

void stress_expect(enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK)
        stress_violation("%s was answered %s", what, hearth_status_name(status));
}

static void expect_zeros(const struct hearth_buf *buf, size_t size)
{
    const uint64_t *words = hearth_buf_data(buf);
    size_t count = size / sizeof *words;
    for (size_t i = 0; i < count; i += i < 64 || count - i <= 64 ? 1 : 61) {
        if (words[i] != 0) {
            stress_violation("word %zu of %zu was asked to be zero", i, count);
            return;
        }
    }
}

static bool is_plain(const struct hearth_request *request)
{
    return request->zero == 0 && request->deadline_ns == 0 && request->priority == 0 &&
           request->alignment == 0;
}

static enum hearth_status take_exec(struct hearth_exec *exec, const struct hearth_request *request,
                                    struct stress_parcel *parcel)
{
    enum hearth_status status = is_plain(request)
                                    ? hearth_exec_alloc(exec, request->size, &parcel->buf)
                                    : hearth_exec_alloc_ex(exec, request, &parcel->buf);
    parcel->kind = STRESS_EXEC;
    parcel->exec = exec;
    return status;
}

static enum hearth_status take_bare(struct hearth_io *io, const struct hearth_request *request,
                                    struct stress_parcel *parcel)
{
    enum hearth_status status = is_plain(request) ? hearth_io_alloc(io, request->size, &parcel->buf)
                                                  : hearth_io_alloc_ex(io, request, &parcel->buf);
    parcel->kind = STRESS_BARE;
    parcel->io = io;
    return status;
}

static enum hearth_status take_lease(struct hearth_io *io, const struct hearth_request *request,
                                     struct stress_parcel *parcel)
{
    enum hearth_status status = is_plain(request)
                                    ? hearth_io_lease(io, request->size, &parcel->lease)
                                    : hearth_io_lease_ex(io, request, &parcel->lease);
    parcel->kind = STRESS_LEASE;
    if (status == HEARTH_OK)
        parcel->buf = hearth_lease_buf(parcel->lease);
    return status;
}

static void export(struct stress_parcel *parcel)
{
    stress_expect(hearth_io_export(parcel->io, parcel->buf, &parcel->lease), "an export");
    parcel->kind = STRESS_LEASE;
}

/* A refused take leaves the execution buffer what it was. */
static void move(struct hearth_io *io, struct stress_parcel *parcel)
{
    struct hearth_buf *moved = NULL;
    if (hearth_io_can_take(io, parcel->exec) &&
        hearth_io_take(io, parcel->buf, &moved) == HEARTH_OK) {
        parcel->kind = STRESS_BARE;
        parcel->io = io;
        parcel->buf = moved;
    }
}

enum hearth_status stress_parcel_take(struct hearth_service *service, struct hearth_exec *exec,
                                      const struct hearth_request *request, uint64_t draw,
                                      struct stress_parcel *parcel)
{
    struct stress_parcel taken = {.kind = STRESS_NOTHING};
    struct hearth_io *io = hearth_service_io(service);
    unsigned choice = (unsigned)(draw % 8);
    enum hearth_status status;
    if (exec != NULL && choice < 5)
        status = take_exec(exec, request, &taken);
    else if (choice % 2 == 0)
        status = take_bare(io, request, &taken);
    else
        status = take_lease(io, request, &taken);
    if (status != HEARTH_OK)
        return status;
    if (request->zero != 0)
        expect_zeros(taken.buf, request->size);
    if (taken.kind == STRESS_EXEC && choice == 0)
        move(io, &taken);
    if (taken.kind == STRESS_BARE && (draw >> 3) % 2 == 0)
        export(&taken);
    taken.size = request->size;
    taken.capacity = hearth_buf_capacity(taken.buf);
    taken.tag = draw ^ (uint64_t)(uintptr_t)taken.buf << 20 ^ hearth_buf_generation(taken.buf);
    stress_mark(hearth_buf_data(taken.buf), taken.size, taken.tag);
    *parcel = taken;
    return HEARTH_OK;
}

void stress_parcel_check(const struct stress_parcel *parcel)
{
    const void *data = parcel->kind == STRESS_LEASE ? hearth_lease_data(parcel->lease)
                                                    : hearth_buf_data(parcel->buf);
    if (data == NULL || !stress_marked(data, parcel->size, parcel->tag))
        stress_violation("the payload of what is held (kind %d) is not its holder's",
                         (int)parcel->kind);
}

static void return_lease(struct hearth_lease lease, uint64_t draw)
{
    if (draw % 4 == 0) {
        stress_expect(hearth_lease_retain(lease), "a retain");
        stress_expect(hearth_lease_release(lease), "a release");
    }
    stress_expect(hearth_lease_release(lease), "a last release");
}

void stress_parcel_return(struct stress_parcel *parcel, uint64_t draw)
{
    if (parcel->kind == STRESS_NOTHING)
        return;
    stress_parcel_check(parcel);
    stress_mark(hearth_buf_data(parcel->buf), parcel->size, ~parcel->tag); /* for a second holder */
    if (parcel->kind == STRESS_BARE && draw % 4 == 0)
        export(parcel);
    if (parcel->kind == STRESS_LEASE)
        return_lease(parcel->lease, draw >> 8);
    else if (draw % 2 == 0)
        stress_expect(hearth_free(hearth_buf_owner(parcel->buf), parcel->buf), "a free by owner");
    else if (parcel->kind == STRESS_EXEC)
        stress_expect(hearth_exec_free(parcel->exec, parcel->buf), "a free");
    else
        stress_expect(hearth_io_free(parcel->io, parcel->buf), "an I/O free");
    parcel->kind = STRESS_NOTHING;
}

enum hearth_status stress_parcel_resize(struct stress_parcel *parcel, size_t size, bool keep)
{
    stress_parcel_check(parcel);
    enum hearth_status status =
        keep ? hearth_buf_resize_keep(parcel->buf, size) : hearth_buf_resize(parcel->buf, size);
    if (status != HEARTH_OK) {
        stress_parcel_check(parcel);
        return status;
    }
    if (keep && size >= parcel->size)
        stress_parcel_check(parcel);
    parcel->size = size;
    parcel->capacity = hearth_buf_capacity(parcel->buf);
    stress_mark(hearth_buf_data(parcel->buf), size, parcel->tag);
    return HEARTH_OK;
}

void stress_post(struct stress_parcel *parcel, uint64_t draw)
{
    struct stress_parcel *copy = malloc(sizeof *copy);
    if (copy == NULL)
        abort();
    *copy = *parcel;
    parcel->kind = STRESS_NOTHING;
    copy = atomic_exchange_explicit(&boxes[draw % BOXES], copy, memory_order_acq_rel);
    if (copy != NULL)
        *parcel = *copy;
    free(copy);
}

void stress_clear_boxes(void)
{
    for (unsigned i = 0; i < BOXES; i++) {
        struct stress_parcel *parcel =
            atomic_exchange_explicit(&boxes[i], NULL, memory_order_acq_rel);
        if (parcel != NULL)
            stress_parcel_return(parcel, i);
        free(parcel);
    }
}

void stress_count(const struct stress_parcel *parcels, unsigned count, size_t *bytes,
                  size_t *capacity)
{
    for (unsigned i = 0; i < count; i++) {
        bool held = parcels[i].kind != STRESS_NOTHING;
        *bytes += held ? parcels[i].size : 0;
        *capacity += held ? parcels[i].capacity : 0;
    }
}

void stress_count_boxes(size_t *bytes, size_t *capacity)
{
    for (unsigned i = 0; i < BOXES; i++) {
        const struct stress_parcel *parcel = atomic_load_explicit(&boxes[i], memory_order_acquire);
        if (parcel != NULL)
            stress_count(parcel, 1, bytes, capacity);
    }
}

struct hearth_service *stress_service_open(struct stress_lender *lender,
                                           struct hearth_service_options options)
{
    struct hearth_service *service = NULL;
    struct hearth_backing *backing = lender == NULL ? NULL : stress_lender_open(lender);
    options.exec_backing = backing;
    options.io_backing = backing;
    stress_must(hearth_service_create(&options, &service), "create");
    hearth_backing_unref(backing);
    return service;
}

static void look_at(const char *name, uint64_t value, uint64_t most)
{
    if (value > most)
        stress_violation("%s is %" PRIu64 ", at most %" PRIu64 " is possible", name, value, most);
}

void stress_service_look(const struct hearth_service *service, size_t threads, size_t bytes)
{
    look_at("thread_count", hearth_service_thread_count(service), threads);
    look_at("waiter_count", hearth_service_waiter_count(service), threads);
    look_at("live_bytes", hearth_service_live_bytes(service), bytes);
    look_at("live_capacity", hearth_service_live_capacity(service), bytes);
    look_at("retained_bytes", hearth_service_retained_bytes(service), bytes);
    look_at("stranded_bytes", hearth_service_stranded_bytes(service), bytes);
    look_at("footprint", hearth_service_footprint(service), bytes);
}

static uint64_t kept(const struct hearth_trim_report *report)
{
    return report->kept_live + report->kept_leased + report->kept_pending + report->kept_busy +
           report->kept_unreached + report->kept_lost;
}

struct hearth_trim_report stress_service_trim(struct hearth_service *service, size_t goal,
                                              uint64_t budget_ns, bool alone)
{
    static const uint64_t possible = UINT64_C(1) << 40;
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    uint64_t before = hearth_service_footprint(service);
    stress_expect(hearth_service_trim(service, goal, budget_ns, &report), "a trim");
    if (report.released_bytes != report.released_exec_bytes + report.released_io_bytes)
        stress_violation("%" PRIu64 " bytes released are not %" PRIu64 " and %" PRIu64,
                         report.released_bytes, report.released_exec_bytes,
                         report.released_io_bytes);
    look_at("released_bytes", report.released_bytes, possible);
    look_at("kept bytes", kept(&report), possible);
    if (alone && report.released_bytes + kept(&report) != before)
        stress_violation("%" PRIu64 " released and %" PRIu64 " kept (%" PRIu64 " live, %" PRIu64
                         " leased, %" PRIu64 " pending, %" PRIu64 " busy, %" PRIu64
                         " unreached) of %" PRIu64,
                         report.released_bytes, kept(&report), report.kept_live, report.kept_leased,
                         report.kept_pending, report.kept_busy, report.kept_unreached, before);
    return report;
}

bool stress_has_spans(void)
{
    const char *conf = getenv("HEARTH_CONF");
    return conf != NULL && strstr(conf, "exec_store:spans") != NULL;
}

size_t stress_service_quiet(struct hearth_service *service, size_t live, bool alone)
{
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    size_t retained = SIZE_MAX, footprint = SIZE_MAX;
    bool more = true;
    for (unsigned pass = 0; pass < PASSES && more; pass++) {
        report = stress_service_trim(service, HEARTH_UNBOUNDED, 0, alone);
        retained = hearth_service_retained_bytes(service);
        footprint = hearth_service_footprint(service);
        /* A segment whose pages went one by one is not retained, and goes with a trim of everything. */
        more = retained != 0 || (live == 0 && footprint != 0 && stress_has_spans());
        if (more)
            stress_nap();
    }
    if (retained != 0)
        stress_violation("all is quiet, and trim does not reach %zu bytes", retained);
    else if (alone && footprint != report.kept_live + report.kept_leased + report.kept_pending)
        stress_violation("%" PRIu64 " bytes kept live and %" PRIu64 " pending are not the "
                         "footprint %zu",
                         report.kept_live + report.kept_leased, report.kept_pending, footprint);
    else if (alone && !stress_has_spans() && footprint != live + report.kept_pending)
        stress_violation("%zu bytes live and %" PRIu64 " pending are not the footprint %zu", live,
                         report.kept_pending, footprint);
    if (footprint < live)
        stress_violation("%zu bytes are live, the footprint is %zu", live, footprint);
    return footprint < live ? 0 : footprint - live;
}

/* A figure that has to be 0. Somebody else may be taking returns in: it is exact when nobody is. */
static void expect_none(const char *name, size_t (*figure)(const struct hearth_service *),
                        const struct hearth_service *service, bool alone)
{
    size_t value = figure(service);
    for (unsigned pass = 0; pass < PASSES && !alone && value != 0; pass++) {
        stress_nap();
        value = figure(service);
    }
    look_at(name, value, 0);
}

void stress_service_home(struct hearth_service *service, bool alone)
{
    expect_none("live_bytes at the end", hearth_service_live_bytes, service, alone);
    expect_none("live_capacity at the end", hearth_service_live_capacity, service, alone);
    look_at("waiter_count at the end", hearth_service_waiter_count(service), 0);
    look_at("pending at the end", stress_service_quiet(service, 0, alone), 0);
}

void stress_lender_ended(struct stress_lender *lender)
{
    uint64_t ends = 0;
    for (unsigned i = 0; i < PASSES && ends == 0; i++) {
        ends = atomic_load_explicit(&lender->destroys, memory_order_acquire);
        if (ends != 0)
            break;
        stress_nap();
        (void)hearth_io_tick();
    }
    if (ends != 1)
        stress_violation("the service ended, and its backing %" PRIu64 " times", ends);
}
