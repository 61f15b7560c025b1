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
    uint64_t seed;       /* Of the marks in it. */
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

/* A thread's execution arena: what it counted so far, and how it stands. */
struct replay_exec_figures {
    uint64_t created; /* Storage obtained. */
    uint64_t allocs;
    uint64_t plan_hits;
    uint64_t plan_misses;
    uint64_t plan_blocked;
    uint64_t plans_made;
    uint64_t footprint; /* From here on: at present. */
    uint64_t plans;
    uint64_t slab_bytes;
    uint64_t plan_bytes; /* Of the plan used last. */
    uint64_t plan_bound;
};

/* What is measured. */
struct replay_subject {
    const char *allocator;
    const char *backing; /* Hearth's, "jemalloc" or "mmap"; NULL: the default. */
    const char *store;   /* Hearth's; NULL: another allocator has none. */
};

/* Process-wide figures at one moment. */
struct replay_snapshot {
    uint64_t backing_calls; /* Those that no lane counts. */
    uint64_t page_events;   /* 0 unless replay_allocator.knows_page_events. */
    uint64_t footprint;
    uint64_t exec_footprint; /* 0 unless replay_allocator.lends_slabs. */
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
    /* NULL: it does not want to know. */
    enum hearth_status (*run_begin)(struct replay_lane *lane);
    enum hearth_status (*run_end)(struct replay_lane *lane);
    /* Only with has_arenas. The lane's arena must be there. */
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
    const char *store;   /* Its name; NULL: likewise. */
    bool knows_page_events;
    bool
        lends_slabs; /* Execution storage is not in threads' arenas alone: the snapshot tells of all. */
    bool has_arenas; /* Execution arenas and one I/O arena, whose figures can be read. */
};

/**
 * Create an allocator named "hearth", "service", "malloc", "jemalloc" or, for tests, "broken". NULL with a
 * message that names the remedy on failure.
 */
struct replay_allocator *replay_allocator_create(const struct replay_subject *subject,
                                                 char message[REPLAY_MESSAGE_BYTES]);

/** The allocator whose name is at `name`, `length` characters; NULL: there is none. */
const char *replay_allocator_find(const char *name, size_t length);

/** Whether an allocator has execution arenas, a backing and a store that can be chosen. */
bool replay_allocator_is_hearth(const char *name);

/** The store whose name is at `name`, `length` characters; NULL: there is none. */
const char *replay_store_find(const char *name, size_t length);

/** Its enum hearth_exec_store. */
uint32_t replay_store_number(const char *store);

/* The makers behind replay_allocator_create(). */
struct replay_allocator *replay_hearth_create(const struct replay_subject *subject,
                                              char message[REPLAY_MESSAGE_BYTES]);
struct replay_allocator *replay_malloc_create(char message[REPLAY_MESSAGE_BYTES]);
struct replay_allocator *replay_jemalloc_create(char message[REPLAY_MESSAGE_BYTES]);
struct replay_allocator *replay_broken_create(void);

/** Whether malloc is glibc's; if not, a message. */
bool replay_malloc_possible(char message[REPLAY_MESSAGE_BYTES]);

/** Whether malloc is jemalloc's here, or in this program started again; if not, a message. */
bool replay_jemalloc_possible(char message[REPLAY_MESSAGE_BYTES]);

/** Whether malloc is jemalloc's here. */
bool replay_jemalloc_loaded(void);

/**
 * jemalloc can only stand in for malloc when it is loaded first. Starts this program again with it, and with
 * the arguments `argv` from the command's name on; returns with a message when that is impossible.
 */
void replay_jemalloc_start(char *const *argv, char message[REPLAY_MESSAGE_BYTES]);

#endif
