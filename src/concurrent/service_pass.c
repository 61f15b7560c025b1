/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service: passes, which take retained storage from whoever does not need it at the moment.
 *
 * Problem. Memory must come back from threads that do nothing any more, and threads that are at work must not
 * lose what they are about to use again: two visitors in a loop turned 99.99 % of an owner's allocations into
 * misses.
 *
 * Picture. One pass at a time (a mutex that no owner takes), at most one per millisecond looks at what the
 * threads do. For each execution arena:
 *
 *     DEAD                       claimed like a thread that attaches would, served as its owner, left again
 *     the caller's own           served as its owner; when one of them makes room for itself, of the others those that
 *                                are not at work
 *     cells moved since the      at work: left alone, and asked to give back, in slices of its own, what it has
 *     last pass                  not used since the last pass (ASKED; exec_meter.c)
 *     cells stood still          visited (exec_visit.c): flags of up to 64 arenas are raised, then one
 *                                membarrier, then each is served
 *
 * and for the I/O arena: caches that stood still are flushed to the shared lists, and the lists are swept of what
 * is old (io_age.c); all of it if nobody was at work, else what was freed before the last pass.
 *
 * Age. Stamps count returns, not time. Each pass notes {time, clock} of every arena (core/ages.h), which tells
 * of a stamp how old it is at least. With a goal the pass goes from old to young in steps of a quarter of the
 * ageing time; within a step and an arena the least recently freed goes first.
 *
 * Storage that was taken is given back through a list that can stop at a deadline in the middle of a large
 * segment (core/release.h); what is left waits for the next pass.
 *
 * Progress. Waits for nobody's operation.
 */
#include "concurrent/exec_spans.h"
#include "concurrent/service.h"

#include "concurrent/membarrier.h"
#include "core/clock.h"
#include "core/perturb.h"

/* Flags raised for one membarrier. */
#define BATCH 64u

/* Two looks further apart than this do not tell whether a thread is at work now. */
#define RECENT_NS ((uint64_t)10000000)

#define MS ((uint64_t)1000000)

/* Whether there is time: also for the purge of what was released by then. */
static bool in_time(const struct hearth__pass *pass)
{
    if (pass->deadline_ns == 0)
        return true;
    const struct hearth_service *service = pass->service;
    uint64_t purge_ns = hearth__service_unpurged(service) / 1024 * service->purge_rate;
    return hearth__now_ns() + purge_ns < pass->deadline_ns;
}

static bool goes_on(struct hearth__pass *pass)
{
    if (pass->released >= pass->goal || pass->more)
        return false;
    /* One step is made in any case. */
    pass->more = pass->released != 0 && !in_time(pass);
    return !pass->more;
}

static void count_released(struct hearth__pass *pass, bool exec, size_t bytes)
{
    pass->released += bytes;
    if (exec)
        pass->released_exec += bytes;
    else
        pass->released_io += bytes;
}

/* What may still be given back; 0: no bound. */
static size_t left_of(const struct hearth__pass *pass, size_t bytes)
{
    size_t gone = pass->released + bytes;
    if (pass->most == 0)
        return 0;
    return gone < pass->most ? pass->most - gone : 1; /* no buffer is that small */
}

static size_t retained_of(const struct hearth_exec *arena)
{
    return hearth_exec_retained_bytes(arena);
}

static void count_busy(struct hearth__pass *pass, const struct hearth_exec *arena)
{
    pass->busy++;
    pass->busy_bytes += retained_of(arena);
}

/* Whether returns of others wait to be taken in. */
static bool is_pending(const struct hearth_exec *arena)
{
    return hearth__inbox_waiting(&arena->inbox) || hearth__load_relaxed(&arena->backlog) != NULL;
}

/* What of an idle arena the pass may take. */
static uint64_t before_of(const struct hearth_exec *arena, const struct hearth__pass *pass,
                          uint64_t now_ms)
{
    if (pass->caps)
        return 0;
    return pass->age_ms == 0 ? UINT64_MAX : hearth__ages_before(&arena->ages, now_ms, pass->age_ms);
}

/* Take in what others returned, until so many bytes found no place in the arena. Returns those. */
static size_t drain(struct hearth_exec *arena, size_t goal, struct hearth__exec_after *after)
{
    size_t chained = 0;
    for (unsigned i = 0; i < HEARTH__VISIT_MOST && chained < goal; i++) {
        const struct hearth_buf *before = after->chain;
        if (!hearth__exec_drain(arena, 1, after) && after->chain == before)
            break;
        for (const struct hearth_buf *buf = after->chain; buf != before; buf = buf->next)
            chained += hearth__buf_capacity(buf);
    }
    return chained;
}

/* Pages of spans, up to the goal. */
static bool purge_some(struct hearth_exec *arena, uint64_t before, const struct hearth__pass *pass,
                       size_t taken, size_t *purged)
{
    size_t most = pass->goal - pass->released - taken;
    size_t left = left_of(pass, taken);
    if (left != 0 && left < most)
        most = left;
    if (most > HEARTH__PURGE_STEP)
        most = HEARTH__PURGE_STEP;
    return left != 1 && hearth__exec_spans_purge(arena, before, most, false, purged);
}

/* What one step as the owner took off. */
struct step {
    size_t bytes;   /* to be given back, pages included */
    size_t purged;  /* pages of spans that went already */
    size_t chained; /* came home, and found no place */
    unsigned count;
};

/* Inside, as the owner. */
static void take_off(struct hearth_service *service, struct hearth_exec *arena, uint64_t before,
                     const struct hearth__pass *pass, struct step *step)
{
    while (step->count < HEARTH__VISIT_MOST &&
           pass->released + step->chained + step->bytes < pass->goal) {
        size_t so_far = step->chained + step->bytes;
        size_t purged = step->purged;
        struct hearth_buf *buf = hearth__exec_evict_within(arena, before, left_of(pass, so_far),
                                                           pass->goal - pass->released - so_far);
        if (buf == NULL && purge_some(arena, before, pass, so_far, &step->purged)) {
            step->bytes += step->purged - purged;
            step->count++;
            continue;
        }
        if (buf == NULL && before == UINT64_MAX && hearth__exec_let_go(arena))
            continue;
        if (buf == NULL)
            return;
        struct hearth_segment segment;
        hearth__buf_detach(buf, &segment);
        hearth__exec_count_given(arena, segment.length);
        hearth__exec_slot_put(arena, buf);
        (void)hearth__releases_add(&service->releases, arena->backing, &segment);
        step->bytes += segment.length;
        step->count++;
    }
}

/* As the owner: a step at a time, each an operation of its own. */
static void serve_as_owner(struct hearth_service *service, struct hearth_exec *arena,
                           uint64_t before, struct hearth__pass *pass)
{
    bool more = true;
    while (more && goes_on(pass)) {
        struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
        struct step step = {0, 0, 0, 0};
        after.untold = &service->untold;
        uint64_t gone = hearth__exec_gone(arena);
        uint64_t given = hearth__exec_given(arena);
        if (hearth__exec_begin(arena, "hearth_service_trim") != HEARTH_OK) {
            pass->busy++;
            return;
        }
        if (arena->visited) {
            hearth__exec_end(arena, &after);
            count_busy(pass, arena);
            return;
        }
        bool was_to_end = arena->run.to_end;
        if (before == UINT64_MAX && arena->run.book != NULL)
            arena->run.to_end = true;
        arena->run.requesting = true; /* it gives back: a run that it finds over is planned later */
        /* This is what was asked for. */
        (void)hearth__fetch_and_acquire(&arena->section.attention, ~HEARTH__ATTENTION_ASKED);
        step.chained = drain(arena, pass->goal - pass->released, &after);
        take_off(service, arena, before, pass, &step);
        hearth__exec_discharge(arena);
        if (!hearth__exec_is_idle(arena))
            arena->run.to_end = was_to_end; /* the run goes on */
        hearth__exec_end(arena, &after);

        given = hearth__exec_given(arena) - given;
        gone = hearth__exec_gone(arena) - gone;
        count_released(pass, true, (size_t)gone);
        pass->purged_spans += gone - given;
        /* What came home above the cap went straight back. */
        pass->released_directly += (size_t)given - (step.bytes - step.purged);
        more = step.count == HEARTH__VISIT_MOST || (gone != 0 && is_pending(arena));
        if (!hearth__service_run_releases(service, pass->deadline_ns))
            pass->more = true;
    }
}

static void serve_dead(struct hearth_service *service, struct hearth_exec *arena, uint64_t before,
                       struct hearth__pass *pass)
{
    bool useful = before != 0 || pass->caps || is_pending(arena);
    if (!useful || !hearth__service_claim(arena))
        return;
    serve_as_owner(service, arena, before, pass);
    hearth__service_unclaim(arena);
}

/* At work: leave word. */
static void ask(struct hearth_exec *arena, uint64_t before)
{
    if (before == 0 || before <= hearth__load_relaxed(&arena->asked_before))
        return;
    hearth__store_relaxed(&arena->asked_before, before);
    (void)hearth__fetch_or_release(&arena->section.attention, HEARTH__ATTENTION_ASKED);
}

/* One look at what the owners did. */
struct look {
    uint64_t now_ms;
    bool recent; /* the last one was not long ago */
};

/* Whether the arena is used: what is seen now against the last look. */
static void look_at(struct hearth_exec *arena, const struct look *look, uint64_t age_ms)
{
    uint64_t gives = hearth__load_acquire(&arena->cells.gives);
    uint64_t out = hearth__load_acquire(&arena->cells.out_weight);
    arena->seen_at_work = gives != arena->seen_gives || out != arena->seen_out;
    arena->seen_tick = arena->seen_gives;
    arena->seen_gives = gives;
    arena->seen_out = out;
    hearth__ages_note(&arena->ages, look->now_ms, gives, age_ms);
}

/* An arena whose flag is up. What is taken off is given back when no flag is up any more: so once the list of
 * releases is full the rest has to wait. Whether the arena has to be visited again. */
static bool serve_raised(struct hearth_service *service, struct hearth_exec *arena, bool apart,
                         const struct look *look, struct hearth__pass *pass)
{
    if (service->releases.count + HEARTH__VISIT_MOST > HEARTH__RELEASES_MOST || !goes_on(pass)) {
        struct hearth__visit nothing = {.releases = &service->releases, .untold = &service->untold};
        (void)hearth__exec_visit_serve(arena, false, &nothing);
        return true;
    }
    struct hearth__visit visit = {
        .before = before_of(arena, pass, look->now_ms),
        .goal = pass->goal - pass->released,
        .most = left_of(pass, 0),
        .releases = &service->releases,
        .untold = &service->untold,
    };
    count_released(pass, true, hearth__exec_visit_serve(arena, apart, &visit));
    pass->purged_spans += visit.purged;
    pass->visited += !visit.busy;
    if (visit.busy)
        count_busy(pass, arena);
    return visit.more;
}

/* Visits, a batch at a time; each arena until nothing is left to take. */
static void visit_batch(struct hearth_service *service, struct hearth_exec **arenas, size_t count,
                        const struct look *look, struct hearth__pass *pass)
{
    while (count > 0 && goes_on(pass)) {
        size_t raised = 0;
        struct hearth_exec *again[BATCH];
        for (size_t i = 0; i < count; i++) {
            if (hearth__section_raise(&arenas[i]->section))
                again[raised++] = arenas[i];
            else
                count_busy(pass, arenas[i]);
        }
        HEARTH__PERTURB("section.visit");
        bool apart = raised == 0 || hearth__membarrier();
        count = 0;
        for (size_t i = 0; i < raised; i++)
            if (serve_raised(service, again[i], apart, look, pass))
                arenas[count++] = again[i];
        if (!hearth__service_run_releases(service, pass->deadline_ns))
            pass->more = true;
    }
}

/* Put an arena where it belongs: served at once, asked, or among those to be visited. True for the last. */
static bool sort_out(struct hearth_service *service, struct hearth_exec *arena,
                     const struct look *look, struct hearth__pass *pass)
{
    uint32_t attention = hearth__load_acquire(&arena->section.attention);
    if ((attention & HEARTH__ATTENTION_GONE) != 0)
        return false;
    if (pass->looks && !pass->looked)
        look_at(arena, look, hearth__load_relaxed(&service->age_ms));
    bool used = arena->seen_at_work && !pass->force;
    uint64_t before = before_of(arena, pass, look->now_ms);
    if ((attention & HEARTH__ATTENTION_DEAD) != 0) {
        serve_dead(service, arena, before, pass);
        return false;
    }
    if (hearth__load_relaxed(&arena->owner) == hearth__thread_token_peek()) {
        if (arena == pass->asking)
            return false;
        bool inside = hearth__section_busy(&arena->section); /* this is a signal handler */
        if (!inside && (pass->asking == NULL || !used)) {
            serve_as_owner(service, arena, before, pass);
            return false;
        }
        count_busy(pass, arena);
        ask(arena, before < arena->seen_tick ? before : arena->seen_tick);
        return false;
    }
    bool waiting = is_pending(arena);
    if (retained_of(arena) == 0 && !waiting && !pass->caps)
        return false;
    if (used || !pass->visits) {
        count_busy(pass, arena);
        pass->unknown |= used && !look->recent;
        ask(arena, before < arena->seen_tick ? before : arena->seen_tick);
        return false;
    }
    return before != 0 || waiting || pass->caps;
}

static void pass_exec(struct hearth_service *service, const struct look *look,
                      struct hearth__pass *pass)
{
    struct hearth_exec *arena = hearth__service_arenas(service);
    while (arena != NULL) {
        struct hearth_exec *batch[BATCH];
        size_t count = 0;
        for (; arena != NULL && count < BATCH; arena = arena->next_in_service)
            if (sort_out(service, arena, look, pass))
                batch[count++] = arena;
        visit_batch(service, batch, count, look, pass);
    }
}

/* What the lists hold. */
static void sweep(struct hearth_service *service, uint64_t before, struct hearth__pass *pass)
{
    struct hearth_io *io = service->io;
    bool more = true;
    while (more && goes_on(pass)) {
        struct hearth__io_access access;
        struct hearth__io_sweep sweep = {
            .before = before,
            .goal = pass->goal - pass->released,
            .most = left_of(pass, 0),
            .deadline = pass->deadline_ns,
            .releases = &service->releases,
        };
        hearth__io_enter(io, &access);
        size_t bytes = hearth__io_sweep(&access, &sweep);
        hearth__io_leave(&access);
        count_released(pass, false, bytes);
        more = sweep.more && bytes != 0;
        pass->more |= sweep.more && bytes == 0; /* it goes on from there the next time */
        if (!hearth__service_run_releases(service, pass->deadline_ns))
            pass->more = true;
    }
}

void hearth__service_flush_own(struct hearth_io *io)
{
    struct hearth__io_access access;
    hearth__io_enter(io, &access);
    if (access.cache != NULL)
        (void)hearth__io_cache_flush(io, access.cache);
    hearth__io_leave(&access);
}

/* Flush the caches that stood still, and see whether all did. */
static void look_at_io(struct hearth_io *io, const struct look *look, uint64_t age_ms,
                       struct hearth__pass *pass)
{
    struct hearth__io_pass seen =
        pass->force ? hearth__io_visit_all(io) : hearth__io_visit_idle(io);
    bool shared = hearth__io_shared_moved(io);
    uint64_t clock = hearth__load_relaxed(&io->clock) + 1;
    pass->visited += seen.visited;
    pass->busy += seen.busy;
    io->seen_at_work = seen.busy != 0 || shared;
    io->seen_tick = hearth__load_relaxed(&io->seen_clock);
    hearth__store_relaxed(&io->seen_clock, clock);
    hearth__ages_note(&io->ages, look->now_ms, clock, age_ms);
}

/* The oldest first, when not all of it is to go. What is too large for the goal goes, too. */
static void evict(struct hearth_service *service, uint64_t before, struct hearth__pass *pass)
{
    struct hearth__io_access access;
    hearth__io_enter(service->io, &access);
    size_t bytes =
        hearth__io_evict_old(&access, pass->goal - pass->released, before, pass->deadline_ns);
    hearth__io_leave(&access);
    count_released(pass, false, bytes);
    pass->released_directly += bytes;
    (void)goes_on(pass);
}

static void pass_io(struct hearth_service *service, const struct look *look,
                    struct hearth__pass *pass)
{
    struct hearth_io *io = service->io;
    uint64_t age_ms = pass->age_ms;
    if (age_ms == 0)
        hearth__service_flush_own(io);
    if (pass->looks && !pass->looked)
        look_at_io(io, look, hearth__load_relaxed(&service->age_ms), pass);
    bool used = io->seen_at_work && !pass->force;
    uint64_t before =
        age_ms == 0 ? UINT64_MAX : hearth__ages_before(&io->ages, look->now_ms, age_ms);
    if (used && before > io->seen_tick)
        before = io->seen_tick;
    pass->unknown |= used && !look->recent;
    pass->at_work |= used;
    if (used && age_ms != 0 && look->now_ms - io->flushed_ms >= age_ms) {
        /* What threads at work keep in magazines that they do not use. */
        io->flushed_ms = look->now_ms;
        hearth__io_alert(io, HEARTH__ATTENTION_FLUSH);
    }
    /* Lists give back their youngest first: that is fine where all of it goes, or all that is old. */
    if (pass->goal != SIZE_MAX && age_ms == 0 && pass->most == 0 && pass->released < pass->goal &&
        !pass->more)
        evict(service, before, pass);
    else
        sweep(service, before, pass);
    if (used)
        pass->busy_bytes += hearth_io_retained_bytes(io);
}

void hearth__service_pass(struct hearth_service *service, struct hearth__pass *pass)
{
    uint64_t now = hearth__now_ns();
    pass->service = service;
    struct look look = {
        .now_ms = now / MS,
        .recent = now - service->passed_ns < RECENT_NS,
    };
    if (!pass->looked) {
        /* More often than that it is no look at what they do. */
        pass->looks = pass->force || now - service->passed_ns >= MS;
        pass->visits = pass->looks && hearth__membarrier_ready();
        if (pass->looks)
            service->passed_ns = now;
    }
    /* What was taken before and waits is the first to go, and part of the goal. */
    if (!pass->looked)
        count_released(pass, true, hearth__load_relaxed(&service->releases.held_bytes));
    if (!hearth__service_run_releases(service, pass->deadline_ns)) {
        pass->more = true;
        return;
    }
    if ((pass->domains & HEARTH_DOMAIN_EXEC) != 0)
        pass_exec(service, &look, pass);
    if ((pass->domains & HEARTH_DOMAIN_EXEC) != 0) {
        hearth__service_pass_books(service, pass, look.now_ms);
        if (pass->age_ms != 0 || pass->goal == SIZE_MAX)
            hearth__service_plan_books(service);
        if (!hearth__service_run_releases(service, pass->deadline_ns))
            pass->more = true;
    }
    if ((pass->domains & HEARTH_DOMAIN_IO) != 0 && !service->ended)
        pass_io(service, &look, pass);
    pass->looked = true;
}

void hearth__service_pass_by_age(struct hearth_service *service, struct hearth__pass *pass)
{
    uint64_t age = hearth__load_relaxed(&service->age_ms);
    uint64_t last = pass->age_ms;
    if (pass->goal != SIZE_MAX && age != HEARTH_AGE_NEVER) {
        for (unsigned quarters = 6; quarters > 0; quarters--) {
            pass->age_ms = age * quarters / 4;
            if (pass->age_ms <= last || pass->released >= pass->goal || pass->more)
                break;
            hearth__service_pass(service, pass);
            pass->visited = 0;
            pass->busy = 0;
            pass->busy_bytes = 0;
        }
    }
    pass->age_ms = last;
    if (pass->released < pass->goal && !pass->more)
        hearth__service_pass(service, pass);
}
