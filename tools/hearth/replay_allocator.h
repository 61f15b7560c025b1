/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator under test, behind one small table. The engine knows nothing else about it, so a
 * new peer or a new store is one more table.
 */
#ifndef HEARTH_TOOL_REPLAY_ALLOCATOR_H
#define HEARTH_TOOL_REPLAY_ALLOCATOR_H

#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_MESSAGE_BYTES 512u

struct hearth_exec;
struct replay_allocator;

/* One allocation of a replay. */
struct replay_block {
    void *data;   /* NULL: not live. */
    void *handle; /* What the allocator frees by, if not by `data`. */
    void *origin; /* The arena it came from: the free may run on another thread. NULL: a lease. */
    uint64_t generation; /* The lease's. */
};

/* One thread, as the allocator sees it. Lives in memory that the engine provides. A consumer's is
 * used without thread_begin: it frees what is exported, and nothing else. */
struct replay_lane {
    struct replay_allocator *allocator;
    struct hearth_exec *exec; /* Buffers that die inside a run. */
    uint64_t backing_calls;   /* This thread's calls into the general allocator. */
    void *last;               /* The broken allocator's. */
    size_t last_bytes;
    void *last_exported;
    size_t last_exported_bytes;
};

/* A thread's execution arena. */
struct replay_exec_figures {
    uint64_t created; /* Storage obtained so far. */
    uint64_t footprint;
};

/* Process-wide figures at one moment. */
struct replay_snapshot {
    uint64_t backing_calls; /* Those that no lane counts. */
    uint64_t page_events;   /* 0 unless replay_allocator.knows_page_events. */
    uint64_t footprint;
    struct {
        uint64_t created; /* Storage obtained so far. */
        uint64_t footprint;
        uint64_t peak; /* Of logical live bytes, since forget_peak. */
        uint64_t retained;
        uint64_t leased; /* Buffers. */
    } io;                /* 0 unless replay_allocator.has_arenas. */
};

struct replay_allocator_ops {
    /* Called by the replaying thread itself before its first and after its last operation. end may
     * be called for a lane whose begin failed or never ran. */
    enum hearth_status (*thread_begin)(struct replay_allocator *self, struct replay_lane *lane);
    enum hearth_status (*thread_end)(struct replay_allocator *self, struct replay_lane *lane);
    enum hearth_status (*alloc)(struct replay_lane *lane, size_t bytes, bool exported,
                                struct replay_block *block);
    enum hearth_status (*free)(struct replay_lane *lane, struct replay_block *block);
    /* Only with has_arenas. */
    void (*exec_figures)(const struct replay_lane *lane, struct replay_exec_figures *figures);
    /* Called while no operation runs. */
    void (*snapshot)(struct replay_allocator *self, struct replay_snapshot *snapshot);
    /* Called while no operation runs. Only with has_arenas. */
    void (*forget_peak)(struct replay_allocator *self);
    /* Anything but OK: something is still out, or what is shared could not be ended. */
    enum hearth_status (*destroy)(struct replay_allocator *self);
};

struct replay_allocator {
    const struct replay_allocator_ops *ops;
    const char *name;
    const char *backing; /* Its name; NULL: the allocator has none that can be chosen. */
    bool knows_page_events;
    bool has_arenas; /* Execution arenas and one I/O arena, whose figures can be read. */
};

/**
 * Create an allocator named "hearth", "service", "malloc", "jemalloc" or, for tests, "broken". `backing` names
 * hearth's backing ("jemalloc" or "mmap"); NULL: the default. NULL with a message that names the
 * remedy on failure.
 */
struct replay_allocator *replay_allocator_create(const char *name, const char *backing,
                                                 char message[REPLAY_MESSAGE_BYTES]);

/** Whether `name` is one of the above. */
bool replay_allocator_known(const char *name);

/* The makers behind replay_allocator_create(). */
struct replay_allocator *replay_hearth_create(bool service, const char *backing,
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
