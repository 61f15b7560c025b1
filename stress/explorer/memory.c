/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <assert.h>
#include <string.h>

struct message {
    uint64_t value;
    struct view view;
};

static struct {
    struct message messages[EXPLORER_LOCATIONS][MESSAGES_MOST];
    uint8_t count[EXPLORER_LOCATIONS];
    struct view threads[EXPLORER_THREADS];
    struct view fences; /* what the last membarrier collected; clocks unused */
    /* Plain data: the clock of each thread's last read and write. */
    uint8_t read[EXPLORER_LOCATIONS][EXPLORER_THREADS];
    uint8_t written[EXPLORER_LOCATIONS][EXPLORER_THREADS];
} memory;

void memory_reset(void)
{
    memset(memory.count, 0, sizeof memory.count);
    memset(memory.threads, 0, sizeof memory.threads);
    memset(&memory.fences, 0, sizeof memory.fences);
    memset(memory.read, 0, sizeof memory.read);
    memset(memory.written, 0, sizeof memory.written);
    for (unsigned i = 0; i < EXPLORER_LOCATIONS; i++)
        memory_initial(i, 0);
    for (unsigned i = 0; i < EXPLORER_THREADS; i++)
        memory.threads[i].clock[i] = 1;
}

void memory_initial(unsigned location, uint64_t value)
{
    memset(&memory.messages[location][0].view, 0, sizeof(struct view));
    memory.messages[location][0].value = value;
    memory.count[location] = 1;
}

uint64_t memory_latest(unsigned location)
{
    return memory_peek(location, 0);
}

uint64_t memory_peek(unsigned location, unsigned age)
{
    return memory.messages[location][memory.count[location] - 1 - age].value;
}

unsigned memory_readable(unsigned thread, unsigned location)
{
    return memory.count[location] - (unsigned)memory.threads[thread].seen[location];
}

void view_join(struct view *view, const struct view *other)
{
    for (unsigned i = 0; i < EXPLORER_LOCATIONS; i++)
        view->seen[i] = view->seen[i] > other->seen[i] ? view->seen[i] : other->seen[i];
    for (unsigned i = 0; i < EXPLORER_THREADS; i++)
        view->clock[i] = view->clock[i] > other->clock[i] ? view->clock[i] : other->clock[i];
}

static void join_seen(struct view *view, const struct view *other)
{
    for (unsigned i = 0; i < EXPLORER_LOCATIONS; i++)
        view->seen[i] = view->seen[i] > other->seen[i] ? view->seen[i] : other->seen[i];
}

struct view *memory_view(unsigned thread)
{
    return &memory.threads[thread];
}

static bool acquires(enum order order)
{
    return order == ACQUIRE || order == ACQ_REL;
}

static bool releases(enum order order)
{
    return order == RELEASE || order == ACQ_REL;
}

uint64_t memory_load(unsigned thread, unsigned location, unsigned age, enum order order)
{
    struct view *view = &memory.threads[thread];
    unsigned place = memory.count[location] - 1u - age;
    const struct message *message = &memory.messages[location][place];
    view->seen[location] = (uint8_t)place;
    if (acquires(order))
        view_join(view, &message->view);
    return message->value;
}

/* `before`: the message that a read-modify-write read, whose release sequence goes on; or NULL. */
static void append(unsigned thread, unsigned location, uint64_t value, enum order order,
                   const struct message *before)
{
    struct view *view = &memory.threads[thread];
    unsigned place = memory.count[location]++;
    assert(place < MESSAGES_MOST);
    struct message *message = &memory.messages[location][place];
    view->seen[location] = (uint8_t)place;
    message->value = value;
    if (releases(order)) {
        message->view = *view;
        /* What comes later did not happen before. */
        view->clock[thread]++;
        assert(view->clock[thread] != 0);
    } else {
        memset(&message->view, 0, sizeof message->view);
        message->view.seen[location] = (uint8_t)place;
    }
    if (before != NULL)
        view_join(&message->view, &before->view);
}

void memory_store(unsigned thread, unsigned location, uint64_t value, enum order order)
{
    append(thread, location, value, order, NULL);
}

void memory_update(unsigned thread, unsigned location, uint64_t value, enum order order)
{
    const struct message *before = &memory.messages[location][memory.count[location] - 1];
    (void)memory_load(thread, location, 0, order);
    append(thread, location, value, order, before);
}

void memory_membarrier(unsigned caller, unsigned threads)
{
    /* A fence in the caller, one in each other thread in any order, a second one in the caller. So
     * what two other threads know does not reach each other. */
    join_seen(&memory.fences, &memory.threads[caller]);
    struct view all = memory.fences;
    for (unsigned i = 0; i < threads; i++) {
        join_seen(&all, &memory.threads[i]);
        join_seen(&memory.threads[i], &memory.fences);
    }
    join_seen(&memory.threads[caller], &all);
    memory.fences = all;
}

static bool all_before(const uint8_t *clocks, const struct view *view, unsigned thread)
{
    for (unsigned i = 0; i < EXPLORER_THREADS; i++)
        if (i != thread && clocks[i] > view->clock[i])
            return false;
    return true;
}

bool memory_data_read(unsigned thread, unsigned location, uint64_t *value)
{
    const struct view *view = &memory.threads[thread];
    memory.read[location][thread] = view->clock[thread];
    *value = memory.messages[location][0].value;
    return all_before(memory.written[location], view, thread);
}

bool memory_data_write(unsigned thread, unsigned location, uint64_t value)
{
    const struct view *view = &memory.threads[thread];
    memory.written[location][thread] = view->clock[thread];
    memory.messages[location][0].value = value;
    return all_before(memory.written[location], view, thread) &&
           all_before(memory.read[location], view, thread);
}
