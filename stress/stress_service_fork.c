/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks in the middle of everything a service does.
 *
 * Workers take, resize, move, give to each other and return buffers of both domains, wait for storage, trim,
 * tick, detach, create and end services, some of them in short threads, while the maintenance thread ages
 * storage; the main thread forks again and again. The child, alone with copies of whatever state the others
 * were in, uses the inherited service and its arenas and a service of its own, trims, gives up the
 * reference, and exits with 0.
 *
 * Oracle: no child hangs, crashes, finds a call refused, a payload wrong or a figure impossible; what it holds
 * itself is found live; the parent goes on undisturbed, and at the end of it nothing is live and the storage
 * is home.
 */
#include "service.h"

#include "core/atomic.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELD 6
#define KEPT 6 /* by the main thread, returned by each child for itself */
#define THREADS_MAX 64
#define SIZE_MOST ((size_t)131072)
#define SMOKE_ROUNDS 12
#define CHILD_STEPS 150
#define POSSIBLE ((size_t)1 << 40)

/* ThreadSanitizer does not let a child start threads: nobody maintains the service then. */
#ifdef HEARTH__THREAD_SANITIZER
#define CHILD_SECONDS 12
#define FLAGS HEARTH_SERVICE_NO_THREAD
#else
#define CHILD_SECONDS 8
#define FLAGS 0
#endif

/* The sanitizers' heaps do not survive a fork among threads: there, pages from the system. */
#if defined(__SANITIZE_ADDRESS__) || defined(HEARTH__THREAD_SANITIZER)
#define LENDER(lender) ((void)(lender), (struct stress_lender *)NULL)
#else
#define LENDER(lender) (lender)
#endif

struct worker {
    struct stress_parcel held[HELD];
    struct hearth_exec *arena;
    uint64_t random;
    uint64_t operations;
    bool child; /* nobody else posts or takes, and the boxes hold what is not its own */
};

static struct stress_options options;
static struct hearth_service *service;
static _Atomic(bool) finished;

static struct hearth_service_options some_options(void)
{
    struct hearth_service_options with = HEARTH_SERVICE_OPTIONS_INIT;
    with.maintenance_bytes = 65536;
    with.age_ms = 1;
    with.flags = FLAGS;
    with.ceiling = (size_t)1 << 20;
    with.grant = 65536;
    with.exhaustion = HEARTH_EXHAUSTION_WAIT;
    return with;
}

static void take(struct worker *self, struct stress_parcel *held)
{
    static const size_t sizes[] = {64, 65536, 1024, SIZE_MOST, 4096, 64};
    uint64_t draw = stress_next(&self->random);
    struct hearth_request request = HEARTH_REQUEST_INIT;
    request.size = sizes[draw % (sizeof sizes / sizeof *sizes)];
    request.zero = (draw >> 8) % 8 == 0;
    stress_expect(stress_parcel_take(service, self->arena, &request, draw >> 16, held),
                  "a request");
}

/* A service of one's own, from the cradle to the grave. */
static void short_service(struct worker *self)
{
    struct hearth_service *own = stress_service_open(NULL, some_options());
    struct hearth_exec *arena = NULL;
    struct hearth_request request = HEARTH_REQUEST_INIT;
    struct stress_parcel parcel = {.kind = STRESS_NOTHING};
    uint64_t draw = stress_next(&self->random);
    request.size = 5000;
    stress_expect(hearth_service_exec(own, &arena), "an attach");
    stress_expect(stress_parcel_take(own, arena, &request, draw, &parcel), "a request");
    if (draw % 2 == 0)
        stress_parcel_return(&parcel, draw >> 8);
    hearth_service_unref(own);
    stress_parcel_return(&parcel, draw >> 8);
}

static void use(struct worker *self, struct stress_parcel *held, uint64_t draw)
{
    if (held->kind == STRESS_NOTHING)
        take(self, held);
    else if (draw % 4 == 0 && held->kind == STRESS_EXEC && held->exec == self->arena)
        stress_expect(stress_parcel_resize(held, 64 + (draw >> 8) % SIZE_MOST, draw % 8 == 0),
                      "a resize");
    else if (draw % 4 == 1 && !self->child)
        stress_post(held, draw >> 8);
    else
        stress_parcel_return(held, draw >> 8);
}

static void step(struct worker *self)
{
    uint64_t draw = stress_next(&self->random);
    self->operations++;
    switch (draw % 256) {
    case 0:
    case 1:
        (void)stress_service_trim(service, HEARTH_UNBOUNDED, (draw >> 8) % 2 * 100000, false);
        return;
    case 2:
        short_service(self);
        return;
    case 3:
    case 4:
        stress_expect(hearth_service_tick(service), "a tick");
        return;
    case 5:
        stress_expect(hearth_service_detach(service), "a detach");
        self->arena = NULL;
        return;
    case 6:
        stress_expect(hearth_service_set_ceiling(service, (draw >> 8) % 2 == 0 ? 65536 : POSSIBLE),
                      "a ceiling");
        return;
    case 7:
        stress_expect(hearth_service_end_run(service), "the end of a run");
        return;
    default:
        break;
    }
    if (self->arena == NULL)
        stress_expect(hearth_service_exec(service, &self->arena), "an attach");
    use(self, &self->held[(draw >> 32) % HELD], draw >> 8);
}

static void *live(void *argument)
{
    struct worker *self = argument;
    uint64_t life = 200 + stress_next(&self->random) % 2000;
    self->arena = NULL; /* that of the thread before is not this one's */
    while (life-- > 0 && !atomic_load_explicit(&finished, memory_order_relaxed))
        step(self);
    return NULL;
}

static void *work(void *argument)
{
    struct worker *self = argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        pthread_t successor;
        if (stress_next(&self->random) % 2 == 0)
            (void)live(self);
        else if (pthread_create(&successor, NULL, live, self) == 0)
            (void)pthread_join(successor, NULL);
    }
    for (unsigned i = 0; i < HELD; i++)
        stress_parcel_return(&self->held[i], stress_next(&self->random));
    return NULL;
}

static struct stress_lender lender;

static _Noreturn void be_child(struct stress_parcel *kept, struct hearth_exec *arena,
                               uint64_t random)
{
    struct worker self = {.random = random, .child = true, .arena = arena};
    uint64_t found = stress_found();
    atomic_store_explicit(&lender.child, true, memory_order_relaxed);
    /* Whatever becomes of the parent; but fork() itself may hang, too. */
    (void)alarm(CHILD_SECONDS);
    (void)signal(SIGALRM, SIG_DFL);
    if (random % 4 == 0) /* the first thing a child does may be this */
        (void)stress_service_trim(service, HEARTH_UNBOUNDED, 0, false);
    for (unsigned i = 0; i < KEPT; i++)
        stress_parcel_return(&kept[i], random >> 8 >> i);
    for (unsigned i = 0; i < CHILD_STEPS; i++)
        step(&self);
    size_t bytes = 0, held = 0;
    stress_count(self.held, HELD, &bytes, &held);
    stress_service_look(service, (size_t)THREADS_MAX * 2, POSSIBLE);
    if (hearth_service_live_capacity(service) < held)
        stress_violation("a child holds more than is live");
    for (unsigned i = 0; i < HELD; i++)
        stress_parcel_return(&self.held[i], random >> i);
    short_service(&self);
    (void)stress_service_trim(service, HEARTH_UNBOUNDED, 0, false);
    if (random % 2 == 0)
        (void)hearth_service_close(service);
    hearth_service_unref(service);
    _exit(stress_found() == found ? 0 : 3);
}

static void nap(void)
{
    static const struct timespec moment = {0, 200000};
    (void)nanosleep(&moment, NULL);
}

static void wait_for(pid_t child)
{
    struct timespec start, now;
    int code = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        pid_t ended = waitpid(child, &code, WNOHANG);
        if (ended == child)
            break;
        if (ended < 0 && errno != EINTR)
            abort();
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > CHILD_SECONDS) {
            stress_violation("a child hangs");
            (void)kill(child, SIGKILL);
            (void)waitpid(child, &code, 0);
            return;
        }
        nap();
    }
    if (WIFSIGNALED(code) && WTERMSIG(code) == SIGALRM)
        stress_violation("a child hangs");
    else if (!WIFEXITED(code) || WEXITSTATUS(code) != 0)
        stress_violation("a child ended with %s %d", WIFEXITED(code) ? "code" : "signal",
                         WIFEXITED(code) ? WEXITSTATUS(code) : WTERMSIG(code));
}

static uint64_t fork_again_and_again(void)
{
    struct stress_parcel kept[KEPT] = {{.kind = STRESS_NOTHING}};
    struct worker self = {.random = stress_seed(&options, THREADS_MAX)};
    uint64_t forks = 0;
    stress_expect(hearth_service_exec(service, &self.arena), "an attach");
    for (unsigned i = 0; i < KEPT; i++)
        take(&self, &kept[i]);
    for (; stress_goes_on(&options, forks, SMOKE_ROUNDS); forks++) {
        uint64_t draw = stress_next(&self.random);
        struct stress_parcel *one = &kept[(draw >> 8) % KEPT];
        (void)fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            be_child(kept, self.arena, draw | 1 << 4);
        if (child < 0)
            abort();
        wait_for(child);
        stress_parcel_return(one, draw);
        take(&self, one);
    }
    for (unsigned i = 0; i < KEPT; i++)
        stress_parcel_return(&kept[i], i);
    stress_expect(hearth_service_detach(service), "a detach");
    return forks;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    struct worker workers[THREADS_MAX] = {{.random = 0}};
    uint64_t operations = 0;
    options = stress_parse(argc, argv, "stress_service_fork", 4);
    service = stress_service_open(LENDER(&lender), some_options());
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i] = (struct worker){.random = stress_seed(&options, i)};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    uint64_t forks = fork_again_and_again();
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    for (unsigned i = 0; i < options.threads; i++) {
        pthread_join(threads[i], NULL);
        operations += workers[i].operations;
    }
    stress_clear_boxes();
    stress_service_home(service, false);
    hearth_service_unref(service);
    struct stress_lender *used = LENDER(&lender);
    if (used != NULL)
        stress_lender_ended(used);
    char counts[80];
    snprintf(counts, sizeof counts, "%" PRIu64 " forks, %" PRIu64 " operations", forks, operations);
    return stress_verdict("stress_service_fork", &options, counts);
}
