/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search. One execution follows a trail of choices, {which of how many}, and makes new ones (always the
 * first) when the trail ends; the next execution changes the last choice that has an alternative left.
 * Nothing else is kept between executions.
 *
 * A thread chooses who goes on before each of its atomic accesses. Going on with another thread although
 * this one could go on is a preemption; there are at most `bound` of them. A thread that waits or has ended
 * is left for free.
 */
#include "explorer.h"
#include "engine.h"
#include "memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define TRAIL_MOST 1024
#define LOG_MOST 512
#define STACK_BYTES (64 << 10)

enum wait { READY, WAITS_FOR_VALUE, WAITS_FOR_READERS, ENDED };

struct thread {
    ucontext_t context;
    enum wait wait;
    unsigned location; /* waits for this location to be other than `value` */
    uint64_t value;
    unsigned depth;                       /* of read sections */
    unsigned sections;                    /* read sections begun */
    struct view left;                     /* what it knew when it left the last one */
    unsigned waits_for[EXPLORER_THREADS]; /* a grace period's: sections to be left; 0: none */
};

struct choice {
    uint8_t taken;
    uint8_t of;
};

struct entry {
    uint8_t thread;
    uint8_t location;
    uint8_t age;
    const char *what;
    enum order order;
    uint64_t before;
    uint64_t after;
};

static struct {
    const struct model *model;
    const struct scenario *scenario;
    struct exploration *exploration;
    struct choice trail[TRAIL_MOST];
    unsigned trail_length;
    unsigned trail_at;
    struct entry log[LOG_MOST];
    unsigned log_length;
    const char *failure;
    unsigned preemptions;
    unsigned current;
    struct view grace; /* what the last grace period began with */
    ucontext_t engine;
    struct thread threads[EXPLORER_THREADS];
} explorer;

static _Alignas(64) char stacks[EXPLORER_THREADS][STACK_BYTES];

unsigned engine_current(void)
{
    return explorer.current;
}

bool broken(unsigned variant)
{
    return explorer.exploration->variant == variant;
}

unsigned engine_choose(unsigned of)
{
    if (of == 1)
        return 0;
    unsigned at = explorer.trail_at++;
    assert(at < TRAIL_MOST);
    if (at == explorer.trail_length) {
        explorer.trail[at] = (struct choice){0, (uint8_t)of};
        explorer.trail_length++;
    }
    /* If not, the model is not deterministic. */
    assert(explorer.trail[at].of == of);
    return explorer.trail[at].taken;
}

/* To the next execution. False if there is none. */
static bool advance(void)
{
    while (explorer.trail_length > 0) {
        struct choice *last = &explorer.trail[explorer.trail_length - 1];
        if (++last->taken < last->of)
            return true;
        explorer.trail_length--;
    }
    return false;
}

void engine_note(const char *what, unsigned location, enum order order, uint64_t before,
                 uint64_t after, unsigned age)
{
    assert(explorer.log_length < LOG_MOST);
    explorer.log[explorer.log_length++] = (struct entry){
        .thread = (uint8_t)explorer.current,
        .location = (uint8_t)location,
        .age = (uint8_t)age,
        .what = what,
        .order = order,
        .before = before,
        .after = after,
    };
}

/* A thread that waits sees for itself: any value that it may read will do. */
static unsigned count_other(unsigned thread, unsigned location, uint64_t value, unsigned *ages)
{
    unsigned count = 0;
    unsigned readable = memory_readable(thread, location);
    for (unsigned age = 0; age < readable; age++)
        if (memory_peek(location, age) != value)
            ages[count++] = age;
    return count;
}

static bool readers_left(const struct thread *thread)
{
    for (unsigned i = 0; i < explorer.scenario->threads; i++) {
        const struct thread *reader = &explorer.threads[i];
        if (thread->waits_for[i] != 0 && reader->depth != 0 &&
            reader->sections == thread->waits_for[i])
            return false;
    }
    return true;
}

static bool enabled(unsigned number)
{
    const struct thread *thread = &explorer.threads[number];
    unsigned ages[MESSAGES_MOST];
    switch (thread->wait) {
    case READY:
        return true;
    case WAITS_FOR_VALUE:
        return count_other(number, thread->location, thread->value, ages) != 0;
    case WAITS_FOR_READERS:
        return readers_left(thread);
    case ENDED:
        break;
    }
    return false;
}

/* End the execution, wherever its threads are. */
static _Noreturn void leave(void)
{
    (void)setcontext(&explorer.engine);
    abort();
}

void engine_fail(const char *what)
{
    explorer.failure = what;
    if (explorer.current != EXPLORER_THREADS)
        leave();
}

/* Somebody goes on; back when it is the calling thread's turn. */
static void schedule(void)
{
    unsigned self = explorer.current;
    unsigned candidates[EXPLORER_THREADS];
    unsigned count = 0;
    bool stays = enabled(self);
    if (stays)
        candidates[count++] = self;
    for (unsigned i = 0; i < explorer.scenario->threads; i++)
        if (i != self && (!stays || explorer.preemptions < explorer.exploration->bound) &&
            enabled(i))
            candidates[count++] = i;
    if (count == 0) {
        bool ended = true;
        for (unsigned i = 0; i < explorer.scenario->threads; i++)
            ended = ended && explorer.threads[i].wait == ENDED;
        if (!ended)
            engine_fail("all threads wait for each other");
        leave();
    }
    unsigned next = candidates[engine_choose(count)];
    if (next == self)
        return;
    explorer.preemptions += stays;
    explorer.current = next;
    (void)swapcontext(&explorer.threads[self].context, &explorer.threads[next].context);
}

void engine_point(void)
{
    explorer.exploration->steps++;
    schedule();
}

void await_not(unsigned location, uint64_t value, enum order order)
{
    struct thread *thread = &explorer.threads[explorer.current];
    unsigned ages[MESSAGES_MOST];
    thread->location = location;
    thread->value = value;
    thread->wait = WAITS_FOR_VALUE;
    engine_point();
    thread->wait = READY;
    unsigned age = ages[engine_choose(count_other(explorer.current, location, value, ages))];
    uint64_t read = memory_load(explorer.current, location, age, order);
    engine_note("await", location, order, read, read, age);
}

void membarrier(void)
{
    engine_point();
    memory_membarrier(explorer.current, explorer.scenario->threads);
    engine_note("membarrier", EXPLORER_LOCATIONS, RELAXED, 0, 0, 0);
}

void rcu_enter(void)
{
    engine_point();
    struct thread *thread = &explorer.threads[explorer.current];
    thread->depth++;
    thread->sections++;
    /* A section that a grace period did not wait for sees what came before the grace period. */
    struct view grace = explorer.grace;
    memset(grace.clock, 0, sizeof grace.clock);
    view_join(memory_view(explorer.current), &grace);
    engine_note("rcu enter", EXPLORER_LOCATIONS, RELAXED, 0, 0, 0);
}

void rcu_leave(void)
{
    engine_point();
    struct thread *thread = &explorer.threads[explorer.current];
    struct view *view = memory_view(explorer.current);
    thread->depth--;
    thread->left = *view;
    view->clock[explorer.current]++;
    engine_note("rcu leave", EXPLORER_LOCATIONS, RELAXED, 0, 0, 0);
}

void rcu_synchronize(void)
{
    engine_point();
    struct thread *thread = &explorer.threads[explorer.current];
    view_join(&explorer.grace, memory_view(explorer.current));
    for (unsigned i = 0; i < explorer.scenario->threads; i++) {
        const struct thread *reader = &explorer.threads[i];
        thread->waits_for[i] = reader->depth != 0 ? reader->sections : 0;
    }
    engine_note("grace period begins", EXPLORER_LOCATIONS, RELAXED, 0, 0, 0);
    thread->wait = WAITS_FOR_READERS;
    engine_point();
    thread->wait = READY;
    for (unsigned i = 0; i < explorer.scenario->threads; i++)
        view_join(memory_view(explorer.current), &explorer.threads[i].left);
    engine_note("grace period ends", EXPLORER_LOCATIONS, RELAXED, 0, 0, 0);
}

void initial(unsigned location, uint64_t value)
{
    memory_initial(location, value);
}

uint64_t final(unsigned location)
{
    return memory_latest(location);
}

void require(bool condition, const char *what)
{
    if (!condition && explorer.failure == NULL)
        engine_fail(what);
}

static void thread_main(void)
{
    explorer.scenario->run(explorer.current);
    explorer.threads[explorer.current].wait = ENDED;
    schedule();
}

static void execute(void)
{
    memory_reset();
    memset(&explorer.grace, 0, sizeof explorer.grace);
    explorer.trail_at = 0;
    explorer.log_length = 0;
    explorer.preemptions = 0;
    explorer.current = EXPLORER_THREADS;
    explorer.scenario->start();
    for (unsigned i = 0; i < explorer.scenario->threads; i++) {
        struct thread *thread = &explorer.threads[i];
        thread->wait = READY;
        thread->depth = 0;
        thread->sections = 0;
        memset(&thread->left, 0, sizeof thread->left);
        thread->context = explorer.engine;
        thread->context.uc_link = NULL;
        thread->context.uc_stack.ss_sp = stacks[i];
        thread->context.uc_stack.ss_size = STACK_BYTES;
        makecontext(&thread->context, thread_main, 0);
    }
    explorer.current = engine_choose(explorer.scenario->threads);
    (void)swapcontext(&explorer.engine, &explorer.threads[explorer.current].context);
    explorer.current = EXPLORER_THREADS;
    if (explorer.failure == NULL && explorer.scenario->finish != NULL)
        explorer.scenario->finish();
}

static void print_entry(const struct entry *entry)
{
    static const char *const orders[] = {"relaxed", "acquire", "release", "acq_rel"};
    printf("    %*s%u: %s", (int)entry->thread * 28, "", entry->thread, entry->what);
    if (entry->location < EXPLORER_LOCATIONS) {
        printf(" %s %#" PRIx64, explorer.model->locations[entry->location], entry->before);
        if (entry->after != entry->before)
            printf(" -> %#" PRIx64, entry->after);
        if (strcmp(entry->what, "read") != 0 && strcmp(entry->what, "write") != 0)
            printf(" %s", orders[entry->order]);
        if (entry->age != 0)
            printf(" (stale by %u)", entry->age);
    }
    putchar('\n');
}

static void print_failure(void)
{
    printf("%s, scenario %s: %s\n", explorer.model->name, explorer.scenario->name,
           explorer.failure);
    if (explorer.exploration->trace)
        for (unsigned i = 0; i < explorer.log_length; i++)
            print_entry(&explorer.log[i]);
}

bool explore(const struct model *model, const struct scenario *scenario,
             struct exploration *exploration)
{
    assert(scenario->threads <= EXPLORER_THREADS);
    explorer.model = model;
    explorer.scenario = scenario;
    explorer.exploration = exploration;
    explorer.trail_length = 0;
    explorer.failure = NULL;
    (void)getcontext(&explorer.engine);
    do {
        execute();
        exploration->executions++;
        if (explorer.failure != NULL) {
            print_failure();
            return false;
        }
    } while (advance());
    return true;
}
