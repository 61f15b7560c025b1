/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks in the middle of runs.
 *
 * Players (player.h) play scripts on a service with plans, all weathers in turn; the main thread plays as well,
 * and forks again and again, in the middle of a run of its own or between two. The child goes on with the run,
 * returns what it holds, lives a few lives of its own, trims, gives up the reference and exits with 0.
 *
 * Oracle: that of stress_plans, in the parent and in each child; no child hangs or crashes, and what it holds is
 * found live; the parent goes on undisturbed, and at the end all is home.
 */
#include "player.h"
#include "runs.h"
#include "service.h"

#include "core/atomic.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 16
#define ROUNDS_OF_SMOKE 16
#define CHILD_LIVES 2
#define CHILD_SECONDS 12
#define POSSIBLE ((size_t)1 << 40)

/* The sanitizers' heaps do not survive a fork among threads: there, pages from the system. Plans are made on the heap,
 * though: under sanitizers there are forks of one thread alone. */
#if defined(__SANITIZE_ADDRESS__) || defined(HEARTH__THREAD_SANITIZER)
#define PLAYERS(count) 0u
#else
#define PLAYERS(count) (count)
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(HEARTH__THREAD_SANITIZER)
#define LENDER(lender) ((void)(lender), (struct stress_lender *)NULL)
#else
#define LENDER(lender) (lender)
#endif

#ifdef HEARTH__THREAD_SANITIZER
/* A thread that ended just before the fork is never joined in the child, which is no leak. */
const char *__tsan_default_options(void); /* NOLINT(bugprone-reserved-identifier) */

const char *__tsan_default_options(void) /* NOLINT(bugprone-reserved-identifier) */
{
    return "report_thread_leaks=0";
}
#endif

static struct stress_options options;
static struct stress_script scripts[STRESS_SCRIPTS];
static struct player players[THREADS_MAX];
static struct player self; /* the main thread's */
static struct stress_lender lender;
static struct hearth_service *service;

static size_t held(void)
{
    size_t capacity = player_kept(&self);
    for (unsigned i = 0; i < STRESS_PLACES; i++) {
        const struct stress_block *block = &self.held[i];
        if (block->buf == NULL)
            continue;
        stress_block_check(block);
        capacity += hearth_buf_capacity(block->buf);
    }
    return capacity;
}

static _Noreturn void be_child(const struct stress_script *script, unsigned from, uint64_t random)
{
    uint64_t found = stress_found();
    atomic_store_explicit(&lender.child, true, memory_order_relaxed);
    /* Whatever becomes of the parent; but fork() itself may hang, too. */
    (void)alarm(CHILD_SECONDS);
    (void)signal(SIGALRM, SIG_DFL);
    self.child = true;
    self.random = random | 1;
    if (random % 4 == 0) /* the first thing a child does may be this */
        (void)stress_service_trim(service, HEARTH_UNBOUNDED, 0, false);
    if (hearth_service_live_capacity(service) < held())
        stress_violation("a child holds more than is live");
    if (random / 4 % 2 == 0)
        player_play(&self, script, from, script->count);
    for (unsigned i = 0; i < STRESS_PLACES; i++)
        stress_block_return(&self.held[i], false, random >> i % 8);
    player_leave(&self);
    for (unsigned i = 0; i < CHILD_LIVES; i++)
        player_live(&self);
    stress_service_look(service, (size_t)THREADS_MAX * 4, POSSIBLE);
    player_return_all(&self);
    (void)stress_service_trim(service, HEARTH_UNBOUNDED, 0, false);
    if (random % 3 == 0)
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
    uint64_t start = stress_now_ns();
    int code = 0;
    for (;;) {
        pid_t ended = waitpid(child, &code, WNOHANG);
        if (ended == child)
            break;
        if (ended < 0 && errno != EINTR)
            abort();
        if (stress_now_ns() - start > (CHILD_SECONDS + 1) * UINT64_C(1000000000)) {
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

static void fork_at(const struct stress_script *script, unsigned from)
{
    uint64_t random = stress_next(&self.random);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        be_child(script, from, random);
    if (child < 0)
        abort();
    wait_for(child);
}

/* Three quiet runs, so that a plan is at work, and the fork in the next one or after it. */
static void play_and_fork(uint64_t number)
{
    const struct stress_script *script = &scripts[stress_next(&self.random) % STRESS_SCRIPTS];
    self.noise = 0;
    player_attach(&self);
    for (unsigned i = 0; i < 3; i++)
        player_play(&self, script, 0, script->count);
    self.noise = (unsigned)(number % 3);
    unsigned at = number % 4 == 3 ? 0 : (unsigned)(stress_next(&self.random) % script->count);
    player_play(&self, script, 0, at);
    fork_at(script, at);
    player_play(&self, script, at, script->count);
    player_clean_up(&self);
    player_leave(&self);
}

static struct hearth_service_options some_options(void)
{
    struct hearth_service_options with = HEARTH_SERVICE_OPTIONS_INIT;
    with.exec_store = HEARTH_EXEC_STORE_PLANS;
    with.exec_cap = EXEC_CAP;
    with.maintenance_bytes = 65536;
    with.age_ms = 20;
#if defined(HEARTH__THREAD_SANITIZER) || defined(__SANITIZE_ADDRESS__)
    with.flags =
        HEARTH_SERVICE_NO_THREAD; /* a child could not start it, or use the heap beside it */
#endif
    return with;
}

static void one_round(uint64_t number)
{
    pthread_t threads[THREADS_MAX] = {0};
    struct stress_lender *used = LENDER(&lender);
    lender = (struct stress_lender){0};
    service = stress_service_open(used, some_options());
    self.service = service;
    self.weather = (enum weather)((number + options.seed) % WEATHERS);
    for (unsigned i = 0; i < options.threads; i++) {
        players[i].service = service;
        players[i].weather = (enum weather)((number + options.seed) % WEATHERS);
        players[i].lives = UINT_MAX;
        atomic_store_explicit(&players[i].ended, false, memory_order_relaxed);
        pthread_create(&threads[i], NULL, player_work, &players[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        play_and_fork(number * 4 + i);
    for (unsigned i = 0; i < options.threads; i++)
        atomic_store_explicit(&players[i].ended, true, memory_order_relaxed);
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < options.threads; i++)
        player_return_all(&players[i]);
    player_return_all(&self);
    stress_blocks_clear();
    stress_expect(hearth_service_detach(service), "a detach");
    stress_service_home(service, false);
    hearth_service_unref(service);
    if (used != NULL)
        stress_lender_ended(used);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 0, takes = 0, hits = 0;
    options = stress_parse(argc, argv, "stress_plans_fork", 3);
    options.threads = PLAYERS(options.threads > THREADS_MAX ? THREADS_MAX : options.threads);
    stress_scripts_make(scripts, stress_seed(&options, THREADS_MAX));
    for (unsigned i = 0; i < options.threads; i++)
        player_init(&players[i], &options, scripts, i);
    player_init(&self, &options, scripts, options.threads);
    for (; stress_goes_on(&options, rounds, ROUNDS_OF_SMOKE / 4); rounds++)
        one_round(rounds);
    for (unsigned i = 0; i < options.threads; i++) {
        takes += players[i].tally.takes;
        hits += players[i].tally.hits;
    }
    char counts[160];
    snprintf(counts, sizeof counts, "%" PRIu64 " forks, %" PRIu64 " buffers, %" PRIu64 " hits",
             rounds * 4, takes, hits);
    return stress_verdict("stress_plans_fork", &options, counts);
}
