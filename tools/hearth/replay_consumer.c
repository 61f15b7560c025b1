/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_consumer.h"

#include "prefault.h"
#include "replay_engine.h"

#include <errno.h>

static size_t held_most(const struct replay_job *job)
{
    /* Consumers take turns, so each gets its share of a run, rounded up. */
    size_t share = job->trace->run_outputs / job->consumers + 1;
    return share * job->clones * ((size_t)job->hold + 1) + 1;
}

static bool create_consumer(struct replay_engine *engine, struct replay_consumer *consumer)
{
    consumer->engine = engine;
    consumer->lane.allocator = engine->job->allocator;
    consumer->held_most = held_most(engine->job);
    consumer->held = prefault_alloc(consumer->held_most, sizeof *consumer->held);
    consumer->samples = prefault_alloc(engine->pass_count, sizeof *consumer->samples);
    consumer->queue.messages =
        prefault_alloc(REPLAY_QUEUE_LENGTH, sizeof *consumer->queue.messages);
    pthread_mutex_init(&consumer->queue.lock, NULL);
    pthread_cond_init(&consumer->queue.changed, NULL);
    return consumer->held != NULL && consumer->samples != NULL && consumer->queue.messages != NULL;
}

static void destroy_consumer(struct replay_engine *engine, struct replay_consumer *consumer)
{
    prefault_free(consumer->held, consumer->held_most, sizeof *consumer->held);
    prefault_free(consumer->samples, engine->pass_count, sizeof *consumer->samples);
    prefault_free(consumer->queue.messages, REPLAY_QUEUE_LENGTH, sizeof *consumer->queue.messages);
    if (consumer->engine != NULL) {
        pthread_mutex_destroy(&consumer->queue.lock);
        pthread_cond_destroy(&consumer->queue.changed);
    }
}

bool replay_consumers_create(struct replay_engine *engine)
{
    const struct replay_job *job = engine->job;
    if (job->consumers == 0) {
        return true;
    }
    engine->consumers = prefault_alloc(job->consumers, sizeof *engine->consumers);
    engine->outlets = prefault_alloc(job->clones, sizeof *engine->outlets);
    bool ok = engine->consumers != NULL && engine->outlets != NULL;
    for (uint32_t i = 0; engine->outlets != NULL && i < job->clones; i++) {
        sem_init(&engine->outlets[i].answers, 0, 0);
    }
    for (uint32_t i = 0; ok && i < job->consumers; i++) {
        ok = create_consumer(engine, &engine->consumers[i]);
    }
    return ok;
}

void replay_consumers_destroy(struct replay_engine *engine)
{
    const struct replay_job *job = engine->job;
    for (uint32_t i = 0; engine->consumers != NULL && i < job->consumers; i++) {
        destroy_consumer(engine, &engine->consumers[i]);
    }
    for (uint32_t i = 0; engine->outlets != NULL && i < job->clones; i++) {
        sem_destroy(&engine->outlets[i].answers);
    }
    prefault_free(engine->consumers, job->consumers, sizeof *engine->consumers);
    prefault_free(engine->outlets, job->clones, sizeof *engine->outlets);
}

static void send(struct replay_queue *queue, const struct replay_message *message)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->sent - queue->received == REPLAY_QUEUE_LENGTH) {
        pthread_cond_wait(&queue->changed, &queue->lock);
    }
    queue->messages[queue->sent++ % REPLAY_QUEUE_LENGTH] = *message;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static struct replay_message receive(struct replay_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->sent == queue->received) {
        pthread_cond_wait(&queue->changed, &queue->lock);
    }
    bool was_full = queue->sent - queue->received == REPLAY_QUEUE_LENGTH;
    struct replay_message message = queue->messages[queue->received++ % REPLAY_QUEUE_LENGTH];
    if (was_full) {
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return message;
}

static void send_to_all(struct replay_engine *engine, const struct replay_message *message)
{
    for (uint32_t i = 0; i < engine->job->consumers; i++) {
        send(&engine->consumers[i].queue, message);
    }
}

void replay_outlet_send(struct replay_engine *engine, const struct replay_output *output)
{
    struct replay_outlet *outlet = &engine->outlets[output->clone];
    struct replay_message message = {.kind = REPLAY_MESSAGE_OUTPUT, .output = *output};
    message.output.run = outlet->run;
    send(&engine->consumers[outlet->next].queue, &message);
    outlet->next = (outlet->next + 1) % engine->job->consumers;
}

void replay_outlet_settle(struct replay_engine *engine, uint32_t clone)
{
    struct replay_outlet *outlet = &engine->outlets[clone];
    for (; outlet->owed > 0; outlet->owed--) {
        while (sem_wait(&outlet->answers) != 0 && errno == EINTR) {
        }
    }
}

void replay_outlet_end_run(struct replay_engine *engine, uint32_t clone)
{
    struct replay_outlet *outlet = &engine->outlets[clone];
    struct replay_message message = {.kind = REPLAY_MESSAGE_RUN_END,
                                     .output = {.clone = clone, .run = outlet->run}};
    replay_outlet_settle(engine, clone);
    send_to_all(engine, &message);
    outlet->owed = engine->job->consumers;
    outlet->run++;
}

void replay_outlet_end_pass(struct replay_engine *engine, uint32_t clone)
{
    struct replay_message message = {.kind = REPLAY_MESSAGE_PASS_END, .output = {.clone = clone}};
    send_to_all(engine, &message);
}

static void let_go(struct replay_consumer *consumer, struct replay_output *output)
{
    const struct replay_job *job = consumer->engine->job;
    struct replay_failure failure = {.event = *output->event,
                                     .kind = REPLAY_FAILED_CHECK,
                                     .clone = output->clone,
                                     .pass = output->pass,
                                     .by_consumer = true};
    if (output->written && !pattern_check(output->block.data, output->event->bytes, job->stride,
                                          output->seed, &failure.mismatch)) {
        replay_log_add(&consumer->log, &failure);
    }
    failure.status = job->allocator->ops->free(&consumer->lane, &output->block);
    if (failure.status != HEARTH_OK) {
        failure.kind = REPLAY_FAILED_FREE;
        replay_log_add(&consumer->log, &failure);
    }
}

static void keep(struct replay_consumer *consumer, struct replay_output *output)
{
    if (output->at_once || consumer->engine->job->hold == 0 ||
        consumer->held_count == consumer->held_most) {
        let_go(consumer, output);
    } else {
        consumer->held[consumer->held_count++] = *output;
    }
}

/* Lets go what the clone gave in the run that is now `hold` runs ago, or before. */
static void end_run(struct replay_consumer *consumer, uint32_t clone, uint64_t run)
{
    struct replay_engine *engine = consumer->engine;
    size_t left = 0;
    for (size_t i = 0; i < consumer->held_count; i++) {
        struct replay_output *output = &consumer->held[i];
        if (output->clone == clone && output->run + engine->job->hold <= run) {
            let_go(consumer, output);
        } else {
            consumer->held[left++] = *output;
        }
    }
    consumer->held_count = left;
    sem_post(&engine->outlets[clone].answers);
}

static void serve_pass(struct replay_consumer *consumer)
{
    uint32_t clones = consumer->engine->job->clones;
    while (clones > 0) {
        struct replay_message message = receive(&consumer->queue);
        switch (message.kind) {
        case REPLAY_MESSAGE_OUTPUT:
            keep(consumer, &message.output);
            break;
        case REPLAY_MESSAGE_RUN_END:
            end_run(consumer, message.output.clone, message.output.run);
            break;
        case REPLAY_MESSAGE_PASS_END:
            clones--;
            break;
        }
    }
}

void *replay_consumer_main(void *argument)
{
    struct replay_consumer *consumer = argument;
    struct replay_engine *engine = consumer->engine;
    prefault_stack();
    if (!replay_wait_for_start(engine)) {
        return NULL;
    }
    pthread_barrier_wait(&engine->pass_gate); /* The controller looks at the workers. */
    for (;;) {
        pthread_barrier_wait(&engine->pass_gate);
        if (engine->mode == REPLAY_QUIT) {
            break;
        }
        struct replay_consumer_sample *sample = &consumer->samples[engine->pass];
        uint64_t calls = consumer->lane.backing_calls;
        uint64_t faults = replay_thread_faults();
        serve_pass(consumer);
        sample->faults = replay_thread_faults() - faults;
        sample->backing_calls = consumer->lane.backing_calls - calls;
        pthread_barrier_wait(&engine->pass_gate);
    }
    for (size_t i = 0; i < consumer->held_count; i++) {
        let_go(consumer, &consumer->held[i]);
    }
    return NULL;
}
