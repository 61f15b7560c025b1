/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of one execution: for each location the messages stored to it so far, oldest first, and for
 * each thread how much of that it must know (its view). A load may return any message that is not older
 * than the view's; a message carries the view that an acquire gets from it. The clocks in a view say
 * what happened before, and find races on plain data.
 */
#ifndef HEARTH_STRESS_EXPLORER_MEMORY_H
#define HEARTH_STRESS_EXPLORER_MEMORY_H

#include "explorer.h"

#define MESSAGES_MOST 48

struct view {
    uint8_t seen[EXPLORER_LOCATIONS]; /* place of the oldest message that may still be read */
    uint8_t clock[EXPLORER_THREADS];  /* accesses of each thread that happened before */
};

/* Forget everything. */
void memory_reset(void);

void memory_initial(unsigned location, uint64_t value);
uint64_t memory_latest(unsigned location);

/* How many messages a thread may read; 0 is the latest. */
unsigned memory_readable(unsigned thread, unsigned location);
uint64_t memory_peek(unsigned location, unsigned age);

uint64_t memory_load(unsigned thread, unsigned location, unsigned age, enum order order);
void memory_store(unsigned thread, unsigned location, uint64_t value, enum order order);
/* Read the latest message and put the next one right behind it. */
void memory_update(unsigned thread, unsigned location, uint64_t value, enum order order);
void memory_membarrier(unsigned caller, unsigned threads);

/* False: a race. */
bool memory_data_read(unsigned thread, unsigned location, uint64_t *value);
bool memory_data_write(unsigned thread, unsigned location, uint64_t value);

void view_join(struct view *view, const struct view *other);
/* What a thread knows now. */
struct view *memory_view(unsigned thread);

#endif
