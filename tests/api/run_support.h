/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs about plans, contexts and sessions share, on top of service_support.h: a plan from a
 * table, one kernel that adds and notes where everything lives, a log of events, an allocator that counts,
 * and a session on a service whose backing must have everything back at the end. */
#ifndef HEARTH_TESTS_API_RUN_SUPPORT_H
#define HEARTH_TESTS_API_RUN_SUPPORT_H

#include "service_support.h"

#include <hearth/runtime.h>

enum { OP_INPUTS = 6, OP_OUTPUTS = 3, LOG_EVENTS = 1024, ELEMENTS = 16 };

typedef enum hearth_status kernel_fn(struct hearth_context *context, void *user);

/* What run_op() does, and what it saw. Zero means: one output as long as the first input. Element i of
 * output s is 1 + s + the sum of each input's element i (modulo its length). */
struct op {
    unsigned outs;              /* outputs 0 to outs - 1; 0: 1 */
    uint32_t count[OP_OUTPUTS]; /* elements of each; 0: as the first input */
    uint32_t temporary;         /* bytes of a workspace; 0: none */
    bool old;                   /* makes its outputs with the active allocator */
    enum hearth_status fail;    /* its answer, after all its work */

    unsigned calls;
    struct hearth_allocator *active; /* when it was called */
    struct hearth_allocator *temporary_owner;
    struct hearth_allocator *in[OP_INPUTS];
    struct hearth_allocator *out[OP_OUTPUTS];
    struct hearth_allocator *predicted[OP_OUTPUTS]; /* allocator_for_output */
    enum hearth_owner in_kind[OP_INPUTS];
    enum hearth_owner out_kind[OP_OUTPUTS];
    const void *in_data[OP_INPUTS];
    const void *out_data[OP_OUTPUTS];
    const void *made[OP_OUTPUTS]; /* data when an old-style kernel made it, before it was put */
};

/* The kernel of rows without one; its user is a struct op or NULL. */
kernel_fn run_op;
/* Copies input 0 to output 0, whatever its type. */
kernel_fn copy_op;

/* A node. Names are separated by spaces; "-" is a slot that is not used. */
struct row {
    const char *name;
    const char *inputs;
    const char *outputs;
    void *user;
    kernel_fn *kernel; /* NULL: run_op */
    uint32_t flags;
    struct hearth_plan *bodies[2]; /* the plan takes over the reference */
};

/* Rows: OP("name", "a b", "c -", &op) and NODE("name", "a b", "c", .kernel = other, .user = &its). */
#define OP(name_, inputs_, outputs_, op_) NODE(name_, inputs_, outputs_, .user = (op_))
#define NODE(name_, inputs_, outputs_, ...)                                                        \
    {                                                                                              \
        .name = (name_), .inputs = (inputs_), .outputs = (outputs_), __VA_ARGS__                   \
    }

struct hearth_plan *plan_of(const char *inputs, const char *outputs, const struct row *rows,
                            size_t count);
#define PLAN(inputs, outputs, ...)                                                                 \
    plan_of(inputs, outputs, (const struct row[]){__VA_ARGS__},                                    \
            sizeof((const struct row[]){__VA_ARGS__}) / sizeof(struct row))

struct logged {
    uint32_t kind;
    uint32_t thread;
    size_t step;
    size_t node;
    char value[32]; /* "(null)" for none */
    uint64_t bytes;
    uint64_t execution_live;
    uint64_t execution_peak;
    uint64_t io_live;
    uint64_t io_peak;
};

struct event_log {
    struct hearth_event_handler handler;
    pthread_mutex_t lock;
    size_t count;
    struct logged events[LOG_EVENTS];
};

void log_open(struct event_log *log);
void log_clear(struct event_log *log);
size_t log_count(struct event_log *log, enum hearth_event_kind kind);
/* The number of events of a kind about a value. */
size_t log_about(struct event_log *log, enum hearth_event_kind kind, const char *value);

/* An allocator that passes everything to another one and counts. */
struct counting {
    struct hearth_allocator allocator;
    struct hearth_allocator *inner;
    struct hearth_allocator_ops ops;
    unsigned allocs;
    unsigned frees;
    unsigned fail_at; /* this alloc from now on, counted from 1, is refused; 0: none */
};

struct hearth_allocator *counting_open(struct counting *counting, struct hearth_allocator *inner);

/* A session with one context on a service of its own. */
struct run {
    struct rig rig;
    struct hearth_plan *plan;
    struct hearth_session *session;
    struct hearth_context *context;
    struct event_log log;
};

#define CONTEXT_OPTIONS(...)                                                                       \
    ((struct hearth_context_options){.size = sizeof(struct hearth_context_options), __VA_ARGS__})

/* The run takes over the reference to the plan. */
void run_open(struct run *run, struct hearth_plan *plan);
/* As run_open(), with options; the plan, and a NULL handler, are filled in. */
void run_open_with(struct run *run, struct hearth_plan *plan, struct hearth_service_options service,
                   struct hearth_context_options context);
/* Ends all of it; everything must be home. */
void run_close(struct run *run);
struct hearth_context *context_of(struct hearth_plan *plan, struct hearth_context_options options);
struct hearth_session *session_of(struct hearth_plan *plan, struct hearth_service *service);

/* One serial run, and its figures. */
struct hearth_run_stats run_once(struct run *run);
struct hearth_run_stats run_expecting(struct run *run, enum hearth_status expected);

/* {0, 1, ..., ELEMENTS - 1} as UINT32. */
extern const uint32_t ramp[ELEMENTS];

struct hearth_shape shape_of(size_t count);
/* Borrow `count` UINT32 for an input. */
void lend_input(struct hearth_context *context, const char *name, const uint32_t *data,
                size_t count);
/* lend_input() with the ramp. */
void lend_ramp(struct hearth_context *context, const char *name);
/* The value, which is there. */
const struct hearth_tensor *value_of(const struct hearth_context *context, const char *name);
bool has_value(const struct hearth_context *context, const char *name);
/* A tensor of UINT32, all of them `fill`. */
void make_u32(struct hearth_allocator *allocator, size_t count, uint32_t fill,
              struct hearth_tensor *tensor);
/* The data is `count` UINT32, number i being first + i * step. */
void expect_u32(const void *data, size_t bytes, size_t count, uint32_t first, uint32_t step);
void expect_value(const struct hearth_context *context, const char *name, size_t count,
                  uint32_t first, uint32_t step);
/* The names that have a value are these, in any order; separated by spaces. */
void expect_names(const struct hearth_context *context, const char *names);

struct hearth_lease export_of(struct hearth_context *context, const char *name);

/* A graph of 4 layers with 4 nodes: node i of a layer reads i and i + 1 of the one before. x -> v0 ... v15;
 * v5 and the last layer are declared. Node i has a workspace of 64 * i bytes, node 0 none. */
enum { LAYER_WIDTH = 4, LAYER_NODES = 4 * LAYER_WIDTH, LAYER_OUTPUTS = 5 };
extern struct op layer_ops[LAYER_NODES];
struct hearth_plan *layers(void);
/* The values of the run's context are those of a run on the ramp, and nothing else is live. */
void expect_layers(struct run *run);

/* Bytes in use on the C heap; always 0 where a sanitizer has its own. */
size_t heap_bytes(void);

#endif
