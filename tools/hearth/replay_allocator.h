/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator under test, behind one small table. The engine knows nothing else about it, so a
 * new peer, a new store or a shared arena is one more table.
 */
#ifndef HEARTH_TOOL_REPLAY_ALLOCATOR_H
#define HEARTH_TOOL_REPLAY_ALLOCATOR_H

#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_MESSAGE_BYTES 512u

struct hearth_exec;

/* One allocation of a replay. */
struct replay_block {
    void *data;   /* NULL: not live. */
    void *handle; /* What the allocator frees by, if not by `data`. */
    void *origin; /* The arena it came from: the free may run on another thread. */
};

/* One replaying thread, as the allocator sees it. Lives in memory that the engine provides. */
struct replay_lane {
    struct hearth_exec *exec;     /* Buffers that die inside a run. */
    struct hearth_exec *exported; /* Buffers that outlive it: lifetimes do not share a free list. */
    uint64_t backing_calls;       /* This thread's calls into the general allocator. */
    void *last;                   /* The broken allocator's. */
    size_t last_bytes;
};

/* Process-wide figures at one moment. */
struct replay_snapshot {
    uint64_t backing_calls; /* Those that no lane counts. */
    uint64_t page_events;   /* 0 unless replay_allocator.knows_page_events. */
    uint64_t footprint;
};

struct replay_allocator;

struct replay_allocator_ops {
    /* Called by the replaying thread itself before its first and after its last operation. end may
     * be called for a lane whose begin failed or never ran. */
    enum hearth_status (*thread_begin)(struct replay_allocator *self, struct replay_lane *lane);
    enum hearth_status (*thread_end)(struct replay_allocator *self, struct replay_lane *lane);
    enum hearth_status (*alloc)(struct replay_lane *lane, size_t bytes, bool exported,
                                struct replay_block *block);
    enum hearth_status (*free)(struct replay_lane *lane, struct replay_block *block);
    /* Called while no operation runs. */
    void (*snapshot)(struct replay_allocator *self, struct replay_snapshot *snapshot);
    void (*destroy)(struct replay_allocator *self);
};

struct replay_allocator {
    const struct replay_allocator_ops *ops;
    const char *name;
    const char *backing; /* Its name; NULL: the allocator has none that can be chosen. */
    bool knows_page_events;
};

/**
 * Create an allocator named "hearth", "malloc", "jemalloc" or, for tests, "broken". `backing` names
 * hearth's backing ("jemalloc" or "mmap"); NULL: the default. NULL with a message that names the
 * remedy on failure.
 */
struct replay_allocator *replay_allocator_create(const char *name, const char *backing,
                                                 char message[REPLAY_MESSAGE_BYTES]);

/** Whether `name` is one of the above. */
bool replay_allocator_known(const char *name);

/* The makers behind replay_allocator_create(). */
struct replay_allocator *replay_hearth_create(const char *backing,
                                              char message[REPLAY_MESSAGE_BYTES]);
struct replay_allocator *replay_malloc_create(char message[REPLAY_MESSAGE_BYTES]);
struct replay_allocator *replay_jemalloc_create(char message[REPLAY_MESSAGE_BYTES]);
struct replay_allocator *replay_broken_create(void);

/**
 * jemalloc can only stand in for malloc when it is loaded first. Starts this program again with it
 * unless it is loaded already; returns false with a message when that is impossible.
 * `argv` is the subcommand's.
 */
bool replay_jemalloc_preload(char **argv, char message[REPLAY_MESSAGE_BYTES]);

#endif
