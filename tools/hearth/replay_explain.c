/* SPDX-License-Identifier: Apache-2.0 */
/* The first few errors in words. */
#include "replay_engine.h"

#include <inttypes.h>
#include <stdio.h>

/* Failures explained per measurement. */
#define EXPLAINED 6u

static void explain(const struct replay_engine *engine, const struct replay_failure *failure)
{
    const struct trace_event *event = &failure->event;
    fprintf(stderr, "hearth replay: %s:%" PRIu32 ": clone %" PRIu32 ", pass %" PRIu32 ": ",
            engine->job->trace->path, event->line, failure->clone, failure->pass + 1);
    if (failure->kind == REPLAY_FAILED_CHECK) {
        fprintf(stderr,
                "id %" PRIu64 " (%" PRIu64 " bytes) was overwritten at offset %zu%s: expected "
                "%016" PRIx64 ", found %016" PRIx64 "\n",
                event->id, event->bytes, failure->mismatch.offset,
                failure->by_consumer ? " while a consumer had it" : "", failure->mismatch.expected,
                failure->mismatch.found);
        return;
    }
    if (failure->kind == REPLAY_FAILED_TELL) {
        fprintf(stderr, "telling of run %" PRIu32 ": %s: %s\n", event->run,
                hearth_status_name(failure->status), hearth_status_text(failure->status));
        return;
    }
    fprintf(stderr, "%s%s of id %" PRIu64 " (%" PRIu64 " bytes): %s: %s\n",
            failure->kind == REPLAY_FAILED_ALLOC ? "alloc" : "free",
            failure->by_consumer ? " by a consumer" : "", event->id, event->bytes,
            hearth_status_name(failure->status), hearth_status_text(failure->status));
}

/* Explains what a thread kept; returns how many are explained now. */
static uint32_t explain_log(const struct replay_engine *engine, const struct replay_log *log,
                            uint32_t explained)
{
    for (int kind = 0; kind < REPLAY_FAILURE_KINDS; kind++) {
        uint64_t kept = log->errors[kind];
        kept = kept < REPLAY_FAILURES_KEPT ? kept : REPLAY_FAILURES_KEPT;
        for (uint64_t i = 0; i < kept && explained < EXPLAINED; i++, explained++) {
            explain(engine, &log->failures[kind][i]);
        }
    }
    return explained;
}

static uint32_t explain_worker(const struct replay_engine *engine,
                               const struct replay_worker *worker, uint32_t explained)
{
    explained = explain_log(engine, &worker->log, explained);
    if (worker->end_status != HEARTH_OK && explained < EXPLAINED) {
        fprintf(stderr, "hearth replay: %s: clone %" PRIu32 ": %s: %s: %s\n",
                engine->job->trace->path, worker->clone,
                engine->job->fresh_threads ? "a new thread" : "ending its arena",
                hearth_status_name(worker->end_status), hearth_status_text(worker->end_status));
        explained++;
    }
    return explained;
}

void replay_explain(const struct replay_engine *engine)
{
    uint32_t explained = 0;
    /* Consumers first: theirs are few. */
    for (uint32_t i = 0; i < engine->job->consumers; i++) {
        explained = explain_log(engine, &engine->consumers[i].log, explained);
    }
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        explained = explain_worker(engine, &engine->workers[i], explained);
    }
    uint64_t errors = replay_count_errors(engine);
    if (errors > explained) {
        fprintf(stderr, "hearth replay: %s: %" PRIu64 " errors in all\n", engine->job->trace->path,
                errors);
    }
}
