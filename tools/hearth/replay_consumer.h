/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consumers: threads that exported allocations are handed to, that hold them for a while, look
 * whether the content is still there, and free them.
 *
 * A clone has one outlet. Where the trace frees an exported allocation, the clone hands it to the
 * next consumer in turn, which keeps it until the clone has finished `hold` more runs. At the end
 * of a run each consumer is told, and the clone's first exported allocation of the next run waits
 * until all have answered. So a clone never has more outside than the outputs of `hold` runs and of
 * the present one, and a replay needs the same memory in each pass.
 *
 * All memory is there before the first pass. A consumer waits for nothing but messages.
 */
#ifndef HEARTH_TOOL_REPLAY_CONSUMER_H
#define HEARTH_TOOL_REPLAY_CONSUMER_H

#include "replay_allocator.h"
#include "replay_log.h"
#include "trace.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

struct replay_engine;

/* Messages that one consumer may have waiting; a clone that finds no room waits. */
#define REPLAY_QUEUE_LENGTH 256u

enum replay_message_kind {
    REPLAY_MESSAGE_OUTPUT,   /* Hold this. */
    REPLAY_MESSAGE_RUN_END,  /* The clone finished its run `run`; to be answered. */
    REPLAY_MESSAGE_PASS_END, /* The clone sends nothing more in this pass. */
};

/* An exported allocation on its way or held. */
struct replay_output {
    struct replay_block block;
    const struct trace_event *event; /* Its free. */
    uint64_t seed;
    uint64_t run;
    uint32_t clone;
    uint32_t pass;
    bool written; /* With the marks of `seed`. */
    bool at_once; /* Not to be held. */
};

struct replay_message {
    enum replay_message_kind kind;
    struct replay_output output; /* RUN_END: clone and run only. */
};

/* Between one consumer and all clones. */
struct replay_queue {
    struct replay_message *messages; /* REPLAY_QUEUE_LENGTH */
    pthread_mutex_t lock;            /* Guards both numbers. */
    pthread_cond_t changed;
    uint64_t sent;
    uint64_t received;
};

/* Writer: the worker of the clone that runs. */
struct replay_outlet {
    alignas(128) sem_t answers;
    uint64_t run;  /* Runs begun in all passes. */
    uint32_t owed; /* Answers not yet waited for. */
    uint32_t next; /* Consumer in turn. */
};

struct replay_consumer_sample {
    uint64_t faults;
    uint64_t backing_calls;
};

struct replay_consumer {
    alignas(128) struct replay_engine *engine;
    struct replay_output *held; /* Oldest first within a clone. */
    size_t held_count;
    size_t held_most;
    struct replay_consumer_sample *samples; /* By pass. */
    struct replay_lane lane;
    struct replay_log log;
    pthread_t thread;
    bool started;
    struct replay_queue queue;
};

/** Memory, locks and outlets of all consumers of engine->job. False: no memory; call destroy all
 *  the same. */
bool replay_consumers_create(struct replay_engine *engine);
void replay_consumers_destroy(struct replay_engine *engine);

/** Body of a consumer's thread; the argument is its struct replay_consumer. */
void *replay_consumer_main(void *argument);

/* For the worker of a clone that runs. Without consumers none of them may be called. */

/** Give an output to the consumer in turn. */
void replay_outlet_send(struct replay_engine *engine, const struct replay_output *output);

/** Wait until all consumers have dealt with the end of the clone's last run. */
void replay_outlet_settle(struct replay_engine *engine, uint32_t clone);

void replay_outlet_end_run(struct replay_engine *engine, uint32_t clone);
void replay_outlet_end_pass(struct replay_engine *engine, uint32_t clone);

#endif
