/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of plans and runs share.
 *
 * The GIL. A run goes on without it; a Python kernel takes it with the thread state that its thread gave it up with,
 * which is in the thread's entry. Every thread that runs nodes has one: the caller's is made by Runtime.run(), a
 * helper's by the task that an executor called. So no thread state is ever made here, and subinterpreters work.
 */
#ifndef HEARTH_PYTHON_RUNTIME_H
#define HEARTH_PYTHON_RUNTIME_H

#include "arena.h"

#include <hearth/context.h>
#include <hearth/kernel.h>
#include <hearth/plan.h>
#include <hearth/session.h>

/* A node of a plan, which owns it, at a place that stays. */
struct hearthpy_node {
    PyObject *kernel; /* NULL: the garbage collector took the plan apart */
    PyObject *name;   /* str */
    PyObject *inputs; /* tuples of str and None */
    PyObject *outputs;
    const struct hearthpy_plan *plan;
    size_t index;
    size_t input_count, output_count;
    /* Of a CKernel; NULL: Python. */
    enum hearth_status (*function)(struct hearth_context *, void *);
    void *user;
    bool slot_aware;
    /* Since the plan is complete. */
    Py_ssize_t *initial; /* by input slot: the number of the plan's input, or -1 */
    bool *shown;         /* by output slot: a Python kernel uses the value */
};

struct hearthpy_plan {
    PyObject_HEAD struct hearth_plan_builder *builder;
    struct hearth_plan *plan; /* NULL: not complete */
    struct hearthpy_node **nodes;
    size_t count;
    PyObject *inputs; /* tuples of str */
    PyObject *outputs;
    PyObject *numbers; /* dict of the inputs: name to number */
};

/* What a CKernel is made of. */
struct hearthpy_c_kernel {
    PyObject_HEAD enum hearth_status (*function)(struct hearth_context *, void *);
    void *user;
    PyObject *keep;
    bool slot_aware;
};

/* Somebody's memory, looked at as long as this is open. */
struct hearthpy_source {
    PyObject *object; /* what was given; NULL: closed */
    PyObject *lease;  /* the Lease that describes it; NULL: `view` does */
    Py_buffer view;
    const void *data; /* the first element */
    struct hearthpy_layout layout;
    size_t bytes; /* of all elements */
    bool contiguous;
};

/* A call that an executor dropped. */
struct hearthpy_call_back {
    void (*fn)(void *arg);
    void *arg;
    struct hearthpy_call_back *next;
};

/* Figures that the library's do not have: guarded by the GIL. */
struct hearthpy_extra {
    uint64_t temporaries, copies, copied_bytes, staged;
};

struct hearthpy_runtime {
    PyObject_HEAD PyObject *plan;
    PyObject *service;    /* each NULL: none */
    PyObject *execution;  /* an ExecutionArena that was given */
    PyObject *io_arena;   /* an IOArena that was given */
    struct hearth_io *io; /* the one in use; kept by the context */
    struct hearth_session *session;
    struct hearth_context *context;
    struct hearth_allocator *allocator; /* of the context: the execution arena's that was given */
    struct hearthpy_source *feeds;      /* by number of the plan's input */
    /* Guarded by the GIL. */
    bool running;
    bool pinned; /* the execution arena */
    bool ran;    /* `stats` are of a run */
    struct hearth_run_stats stats;
    struct hearthpy_extra extra;
    PyObject *executor; /* of the run that is going on; NULL */
    PyObject *error;    /* the exception that came first */
    struct hearthpy_call_back *dropped;
};

/* A thread that runs nodes of a runtime now. */
struct hearthpy_entry {
    struct hearthpy_runtime *runtime;
    PyThreadState *thread;
    struct hearthpy_entry *outer; /* a run inside of a kernel */
};

/* kernel.c */

/* Give up the GIL to run nodes, and take it again. */
void hearthpy_enter(struct hearthpy_entry *entry, struct hearthpy_runtime *runtime);
void hearthpy_leave(struct hearthpy_entry *entry);
/* The calling thread's; NULL: it is in no run. */
struct hearthpy_entry *hearthpy_entry(void);
/* The kernel of all nodes; `user` is a struct hearthpy_node. */
enum hearth_status hearthpy_node_run(struct hearth_context *context, void *user);
/* Keep the exception that is set, if none is kept. */
void hearthpy_keep_error(struct hearthpy_runtime *runtime);

/* tensor.c */

/* Have a lease own what a tensor owns; *lease, if not NULL, is one more reference to it. The tensor is as it was when
 * the answer is not OK. */
enum hearth_status hearthpy_tensor_to_lease(struct hearth_io *io, struct hearth_tensor *tensor,
                                            struct hearth_lease *lease);
/* One more reference to the lease that a tensor holds. INVALID when it holds none. */
enum hearth_status hearthpy_tensor_share(const struct hearth_tensor *tensor,
                                         struct hearth_lease *lease);
void hearthpy_shape_of(const struct hearthpy_layout *layout, struct hearth_shape *shape);
/* An array on a lease, which is taken over in every case. */
PyObject *hearthpy_array_on(const struct hearthpy_state *state, struct hearth_lease lease,
                            const struct hearthpy_layout *layout);

/* source.c */

/* `what` is for error texts, such as "input \"x\"". -1 with an exception set. */
int hearthpy_source_open(const struct hearthpy_state *state, struct hearth_io *io, PyObject *object,
                         const char *what, struct hearthpy_source *source);
void hearthpy_source_close(struct hearthpy_source *source);
/* Its elements in C order. */
void hearthpy_source_copy(const struct hearthpy_source *source, void *to);
/* The memory as a read-only array, which keeps it. */
PyObject *hearthpy_source_array(const struct hearthpy_state *state,
                                const struct hearthpy_source *source);

/* feeds.c */

/* Values of the inputs for a run. -1 with an exception set. */
int hearthpy_feeds_open(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                        PyObject *feeds);
void hearthpy_feeds_close(struct hearthpy_runtime *self);

/* node.c, node_put.c */

/* A kernel's view of its node. */
struct hearthpy_node_view {
    PyObject_HEAD struct hearth_context *context; /* NULL: the kernel has returned */
    struct hearthpy_runtime *runtime;
    const struct hearthpy_node *node;
    unsigned long thread;
    PyObject *inputs; /* NULL: nobody asked */
};

PyObject *hearthpy_node_view_new(const struct hearthpy_state *state,
                                 struct hearthpy_runtime *runtime, const struct hearthpy_node *node,
                                 struct hearth_context *context);
/* The kernel has returned. */
void hearthpy_node_view_end(PyObject *view);
/* Whether it may be used here and now; else an exception is set. */
bool hearthpy_node_view_check(struct hearthpy_node_view *self);
/* The output slot of an argument; NULL when there is none or it is not used: an exception is set then. */
PyObject *hearthpy_node_view_slot(struct hearthpy_node_view *self, Py_ssize_t slot);
PyObject *hearthpy_node_view_put(PyObject *object, PyObject *args, PyObject *keywords);

/* plan.c, plan_build.c */

int hearthpy_plan_complete(const struct hearthpy_state *state, struct hearthpy_plan *self);

/* runtime.c */

/* The execution arena that was given, if one was, may be used until hearthpy_runtime_unpin(). -1 with an exception. */
int hearthpy_runtime_pin(const struct hearthpy_state *state, struct hearthpy_runtime *self);
void hearthpy_runtime_unpin(struct hearthpy_runtime *self);

/* run.c, executor.c */

PyObject *hearthpy_runtime_run(PyObject *object, PyObject *args, PyObject *keywords);
/* An executor of C for one of Python's. */
int hearthpy_executor_of(const struct hearthpy_state *state, PyObject *executor, long threads,
                         struct hearth_executor *made);
/* Make the calls that the executor dropped; no run is going on. */
void hearthpy_call_dropped(struct hearthpy_runtime *self);

/* Types */

PyTypeObject *hearthpy_plan_type(PyObject *module);
PyTypeObject *hearthpy_c_kernel_type(PyObject *module);
PyTypeObject *hearthpy_node_type(PyObject *module);
PyTypeObject *hearthpy_runtime_type(PyObject *module);
PyTypeObject *hearthpy_task_type(PyObject *module);
/* run_stats.c; adds it to the module. */
PyTypeObject *hearthpy_run_stats_type(PyObject *module);
PyObject *hearthpy_run_stats(const struct hearthpy_state *state,
                             const struct hearth_run_stats *stats);

#endif
