/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file runtime.h
 * Routing: tensors, plans, contexts and sessions. The kernel never decides where an output lives.
 *
 * Declared ahead of its implementation: not installed yet. Experimental until 1.0: names, structs
 * and values of this header may change in any version; it is a separate library target.
 *
 * A plan is built once from nodes with named inputs and outputs and from the graph's declared
 * outputs. It knows, for every output slot of every node, whether the value stays inside (execution
 * role) or leaves (I/O role), and after which node a value dies. A context holds the values of one
 * run at a time. A session runs a plan on contexts, serially or on an executor.
 *
 *     value                         storage
 *     declared output               I/O arena, written in place, exported as a lease
 *     intermediate, workspace       execution arena of the thread that runs the node
 *     input, borrowed               the caller's; nothing is allocated
 *     input, staged                 I/O arena
 *     value of a body (subgraph)    a child execution arena; crosses by handle, or by take to the
 *                                   I/O arena: no copy
 *
 * Names are NUL-terminated UTF-8, copied when a plan is built; the empty name is an optional slot
 * that is not used. Payload copies made by the runtime are counted, each of them; there are four
 * causes: an input staged from the caller's bytes, a borrowed value that became an intermediate or
 * an output, an old-style kernel's output that `take` could not move, and an output put from
 * another allocator than its role's that `take` could not move. hearth_io_take() moves execution
 * storage to the I/O arena; in the other direction there is only the copy.
 *
 * A context, plan, session and service may be ended in any order: exported outputs stay valid.
 *
 * Thread: a plan is immutable and used by any number of threads. A context is used by one run or
 * one caller at a time. A session may run several contexts at the same time.
 */
#ifndef HEARTH_RUNTIME_H
#define HEARTH_RUNTIME_H

#include <hearth/allocator.h>
#include <hearth/exec.h>
#include <hearth/export.h>
#include <hearth/handle.h>
#include <hearth/io.h>
#include <hearth/service.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_context;
struct hearth_plan;
struct hearth_plan_builder;
struct hearth_pool;
struct hearth_session;

/* Element types and shapes */

/**
 * The one list of element types: X(NAME, value, bits per element, text). The values are those of
 * ONNX TensorProto.DataType, and pinned. 0 bits: no fixed size, the byte size must be given.
 */
#define HEARTH_DTYPE_MAP(X)                                                                        \
    X(UNDEFINED, 0, 0, "undefined")                                                                \
    X(FLOAT, 1, 32, "float")                                                                       \
    X(UINT8, 2, 8, "uint8")                                                                        \
    X(INT8, 3, 8, "int8")                                                                          \
    X(UINT16, 4, 16, "uint16")                                                                     \
    X(INT16, 5, 16, "int16")                                                                       \
    X(INT32, 6, 32, "int32")                                                                       \
    X(INT64, 7, 64, "int64")                                                                       \
    X(STRING, 8, 0, "string")                                                                      \
    X(BOOL, 9, 8, "bool")                                                                          \
    X(FLOAT16, 10, 16, "float16")                                                                  \
    X(DOUBLE, 11, 64, "double")                                                                    \
    X(UINT32, 12, 32, "uint32")                                                                    \
    X(UINT64, 13, 64, "uint64")                                                                    \
    X(COMPLEX64, 14, 64, "complex64")                                                              \
    X(COMPLEX128, 15, 128, "complex128")                                                           \
    X(BFLOAT16, 16, 16, "bfloat16")                                                                \
    X(FLOAT8E4M3FN, 17, 8, "float8e4m3fn")                                                         \
    X(FLOAT8E4M3FNUZ, 18, 8, "float8e4m3fnuz")                                                     \
    X(FLOAT8E5M2, 19, 8, "float8e5m2")                                                             \
    X(FLOAT8E5M2FNUZ, 20, 8, "float8e5m2fnuz")                                                     \
    X(UINT4, 21, 4, "uint4")                                                                       \
    X(INT4, 22, 4, "int4")                                                                         \
    X(FLOAT4E2M1, 23, 4, "float4e2m1")                                                             \
    X(FLOAT8E8M0, 24, 8, "float8e8m0")                                                             \
    X(UINT2, 25, 2, "uint2")                                                                       \
    X(INT2, 26, 2, "int2")

enum hearth_dtype {
#define HEARTH_DTYPE_ENUM(name, value, bits, text) HEARTH_DTYPE_##name = value,
    HEARTH_DTYPE_MAP(HEARTH_DTYPE_ENUM)
#undef HEARTH_DTYPE_ENUM
};

/** The type's text, for example "float"; "unknown" for a value this library does not know. Static
 *  storage. Thread: any. */
HEARTH_API HEARTH_CONST const char *hearth_dtype_name(enum hearth_dtype dtype);

/** Bits of one element; 0 for UNDEFINED, STRING and unknown values. Thread: any. */
HEARTH_API HEARTH_CONST uint32_t hearth_dtype_bits(enum hearth_dtype dtype);

/** Most dimensions of a shape. */
#define HEARTH_RANK_MAX 8

/** A shape: a small value. Rank 0 is a scalar: one element. */
struct hearth_shape {
    int64_t dims[HEARTH_RANK_MAX]; /**< Outermost first, none negative; 0 gives no elements. */
    uint32_t rank;                 /**< Dimensions in use, at most HEARTH_RANK_MAX. */
    uint32_t reserved;             /**< Must be zero. */
};

/** A scalar. */
#define HEARTH_SHAPE_INIT                                                                          \
    {                                                                                              \
        {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0                                                             \
    }

/**
 * Bytes of a tensor: elements times bits, rounded up to whole bytes once for the whole tensor.
 * Elements smaller than a byte are packed as in ONNX, the first in the lowest bits.
 * Thread: any. Progress: wait-free.
 * Returns INVALID (a negative dimension, rank too large, a type without a fixed size), OVERFLOW.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_shape_bytes(enum hearth_dtype dtype, const struct hearth_shape *shape, size_t *bytes);

/* Tensors */

/** Who owns a tensor's storage. */
enum hearth_owner {
    HEARTH_OWNER_NONE = 0,     /**< The tensor is empty. */
    HEARTH_OWNER_INLINE = 1,   /**< The tensor itself, on the C heap: no arena is involved. */
    HEARTH_OWNER_HANDLE = 2,   /**< A handle in the tensor: a buffer or a lease. */
    HEARTH_OWNER_BORROWED = 3, /**< Somebody else, who keeps it valid while the tensor exists. */
};

/**
 * A tensor: type, shape and one owner of its bytes. Treat the members as private; zero-initialised
 * means empty. Copying the struct does not copy the ownership: move it. Moving neither moves nor
 * copies the bytes, whatever the owner.
 * Thread: one thread at a time; its reset may run on any thread.
 */
struct hearth_tensor {
    struct hearth_shape shape;
    void *data;
    size_t size;                 /**< Logical bytes. */
    size_t capacity;             /**< Usable bytes. */
    struct hearth_handle handle; /**< Empty unless the owner is a handle. */
    uint32_t dtype;              /**< enum hearth_dtype */
    uint32_t owner;              /**< enum hearth_owner */
    uint64_t reserved[2];
};

#define HEARTH_TENSOR_INIT                                                                         \
    {                                                                                              \
        HEARTH_SHAPE_INIT, NULL, 0, 0, HEARTH_HANDLE_INIT, 0, 0,                                   \
        {                                                                                          \
            0, 0                                                                                   \
        }                                                                                          \
    }

/** A tensor that is reset when its scope is left (GCC and Clang). */
#define HEARTH_TENSOR_SCOPED __attribute__((cleanup(hearth_tensor_cleanup))) struct hearth_tensor

/**
 * Make a tensor in an empty one, with unspecified content. `allocator` NULL: inline, else owned by
 * a handle. `bytes` 0: as the type and shape say; for STRING, and for layouts of the caller's own,
 * the byte size, which may not be smaller than what type and shape say.
 * Thread, Progress: those of hearth_alloc() on the allocator; inline uses the C heap.
 * Ownership: the tensor owns the storage until it is reset, moved or released.
 * Returns BUSY (*tensor is not empty), INVALID, OVERFLOW, and what hearth_alloc() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_tensor_make(struct hearth_allocator *allocator, enum hearth_dtype dtype,
                   const struct hearth_shape *shape, size_t bytes, struct hearth_tensor *tensor);

/**
 * Make an empty tensor look at `bytes` bytes of somebody else's at `data`, which must stay valid
 * and never enter a free list. Wait-free. Returns BUSY, INVALID (too few bytes for type and shape).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_tensor_borrow(void *data, size_t bytes, enum hearth_dtype dtype,
                     const struct hearth_shape *shape, struct hearth_tensor *tensor);

/**
 * Make an empty tensor from what a handle owns; the handle is empty afterwards. Wait-free.
 * Returns BUSY, INVALID (empty handle, too few bytes for type and shape), STALE.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_tensor_from_handle(struct hearth_handle *handle, enum hearth_dtype dtype,
                          const struct hearth_shape *shape, struct hearth_tensor *tensor);

/** Reset `to`, then move `from` into it; `from` is empty afterwards. Moving a tensor onto itself
 *  changes nothing. O(1). Returns what the reset of `to` answered, or INVALID for NULL; the move
 *  itself cannot fail. */
HEARTH_API enum hearth_status hearth_tensor_move(struct hearth_tensor *to,
                                                 struct hearth_tensor *from);

/** Return the storage to its owner, and make the tensor empty in every case. OK for NULL and for an
 *  empty one; STALE when the buffer was already returned. Progress: that of hearth_free(). */
HEARTH_API enum hearth_status hearth_tensor_reset(struct hearth_tensor *tensor);

/**
 * Release the allocation as a handle: what the tensor owns goes to the empty `handle`, and the
 * tensor is empty. Nothing is copied. Wait-free. Returns BUSY (*handle is not empty), INVALID (the
 * owner is not a handle; the tensor is then unchanged).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_tensor_release(struct hearth_tensor *tensor,
                                                                     struct hearth_handle *handle);

/**
 * Turn what a tensor owns into a lease of `io` without a copy, and make the tensor empty: a buffer
 * of `io` is exported, a lease is handed out, an execution buffer is taken (by its arena's owner
 * only), inline storage is adopted.
 * Thread: any but for execution buffers. Ownership: the caller holds one reference.
 * Returns INVALID (empty, borrowed, or hearth_io_can_take() is false), NOT_OWNER, STALE, LEASED,
 * CLOSED, NO_SLOT, NO_MEMORY, BUSY (re-entered); the tensor is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_tensor_export(struct hearth_tensor *tensor,
                                                                    struct hearth_io *io,
                                                                    struct hearth_lease *lease);

/**
 * Give a tensor another shape within its capacity: no storage moves. If the byte size changes, the
 * buffer's logical size follows, which only the owner of its arena can do.
 * Returns INVALID (empty, does not fit the capacity, impossible shape), OVERFLOW, NOT_OWNER, LEASED
 * (byte size of a leased buffer), STALE; the tensor is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_tensor_reshape(struct hearth_tensor *tensor, const struct hearth_shape *shape);

/** For HEARTH_TENSOR_SCOPED: resets the tensor and ignores the answer. */
HEARTH_API void hearth_tensor_cleanup(struct hearth_tensor *tensor);

/* Getters. Thread: whoever may use the tensor. Wait-free. NULL counts as an empty tensor. */

/** Start of the bytes; NULL when empty. */
HEARTH_API void *hearth_tensor_data(const struct hearth_tensor *tensor);
/** Logical bytes; 0 when empty. */
HEARTH_API size_t hearth_tensor_size(const struct hearth_tensor *tensor);
/** Usable bytes, at least hearth_tensor_size(); 0 when empty. */
HEARTH_API size_t hearth_tensor_capacity(const struct hearth_tensor *tensor);
/** The element type; UNDEFINED when empty. */
HEARTH_API enum hearth_dtype hearth_tensor_dtype(const struct hearth_tensor *tensor);
/** The shape, valid as long as the tensor is not changed; NULL when empty. */
HEARTH_API const struct hearth_shape *hearth_tensor_shape(const struct hearth_tensor *tensor);
/** The kind of owner; NONE when empty. */
HEARTH_API enum hearth_owner hearth_tensor_owner(const struct hearth_tensor *tensor);
/** The allocator of a handle's buffer or lease; NULL for every other owner. */
HEARTH_API struct hearth_allocator *hearth_tensor_allocator(const struct hearth_tensor *tensor);

/* Plans */

/** Where an output slot's value lives. */
enum hearth_role {
    HEARTH_ROLE_NONE = 0,      /**< An optional slot that is not used. */
    HEARTH_ROLE_EXECUTION = 1, /**< An intermediate. */
    HEARTH_ROLE_IO = 2,        /**< A declared output. */
};

/** No node: the answer where there is none. */
#define HEARTH_NODE_NONE SIZE_MAX

/** The kernel follows the slots: it uses only hearth_context_make_output(), _put_output(),
 *  _make_temporary(). Its outputs are not checked for their arena afterwards. */
#define HEARTH_NODE_SLOT_AWARE 1u

/** One node, as given to a builder. Everything is copied, except `user`. */
struct hearth_node {
    size_t size;               /**< Set by HEARTH_NODE_INIT. */
    const char *name;          /**< For error texts; need not be unique. */
    const char *const *inputs; /**< NULL or "": an optional input that is not used. */
    size_t input_count;
    const char *const *outputs; /**< NULL or "": an optional output that is not used. */
    size_t output_count;
    /**
     * What the node does; required. `context` is the run's context as this node sees it, valid
     * until the kernel returns, on this thread only; slots are the node's own. The kernel must
     * leave a value in every output slot that is used. Any answer but OK ends the run with that
     * answer.
     */
    enum hearth_status (*kernel)(struct hearth_context *context, void *user);
    void *user; /**< Passed to the kernel; outlives the plan. */
    /** Subgraphs that the kernel runs; referenced. A value of this graph that a body uses must be
     *  an input of the node, so that it lives as long as the node runs. */
    struct hearth_plan *const *bodies;
    size_t body_count;
    uint32_t flags; /**< HEARTH_NODE_* joined. */
    uint32_t reserved;
};

#define HEARTH_NODE_INIT                                                                           \
    {                                                                                              \
        sizeof(struct hearth_node), NULL, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0              \
    }

/** Create an empty builder. Thread: one at a time. Ownership: hearth_plan_builder_destroy() ends
 *  it. Returns INVALID, NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_create(struct hearth_plan_builder **builder);

/** End a builder; plans made from it stay. NULL is fine. */
HEARTH_API void hearth_plan_builder_destroy(struct hearth_plan_builder *builder);

/** Declare an initial input, in the order of the graph. Returns INVALID (empty name, declared
 *  before), NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_add_input(struct hearth_plan_builder *builder, const char *name);

/** Declare an output of the graph, in its order. Returns INVALID (empty name, declared before),
 *  NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_add_output(struct hearth_plan_builder *builder, const char *name);

/**
 * Add a node, in any order. `index`, if not NULL, receives its number: nodes count from 0 in the
 * order they were added, and keep that number in the plan.
 * Returns INVALID (no kernel, wrong size, unknown flags, a NULL array with a count), NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_add_node(struct hearth_plan_builder *builder, const struct hearth_node *node,
                             size_t *index);

/**
 * Build the plan: order the nodes, give each output slot its role, find each value's last use.
 *
 * Refused are a cycle, a value with two producers (an initial input counts as one), an input that
 * nothing produces, and a declared output that nothing produces. `message`, if not NULL, then
 * receives one line of at most `bytes` bytes with its NUL that names the node and the value; it is
 * written in every case, empty on OK.
 * Thread: the builder's. The builder is unchanged and can be built from again.
 * Ownership: the caller holds one reference to *plan, given up by hearth_plan_unref().
 * Returns INVALID (as above, or NULL), OVERFLOW (more than 2^32 - 1 nodes or values), NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_build(const struct hearth_plan_builder *builder, struct hearth_plan **plan,
                          char *message, size_t bytes);

/** Take one more reference. Wait-free. NULL is fine. */
HEARTH_API void hearth_plan_ref(struct hearth_plan *plan);

/** Give up a reference. Contexts, sessions and plans that use it hold their own. NULL is fine. */
HEARTH_API void hearth_plan_unref(struct hearth_plan *plan);

/* Questions to a plan. Thread: any. Wait-free, O(1) but for looking up a name (a hash). Numbers out
 * of range, names that are no value of the plan and NULL get the answer for "none". */

/** Nodes in the plan. */
HEARTH_API size_t hearth_plan_node_count(const struct hearth_plan *plan);
/** A node's name; "" if it has none. Valid as long as the plan. */
HEARTH_API const char *hearth_plan_node_name(const struct hearth_plan *plan, size_t node);
/** The node that a serial run starts as number `step`, from 0; HEARTH_NODE_NONE. */
HEARTH_API size_t hearth_plan_node_at(const struct hearth_plan *plan, size_t step);
/** Declared outputs. */
HEARTH_API size_t hearth_plan_output_count(const struct hearth_plan *plan);
/** The name of a declared output, in the order they were declared; NULL. */
HEARTH_API const char *hearth_plan_output_name(const struct hearth_plan *plan, size_t index);
/** The role of one output slot of a node. */
HEARTH_API enum hearth_role hearth_plan_role(const struct hearth_plan *plan, size_t node,
                                             size_t slot);
/** The node that produces a value; HEARTH_NODE_NONE for initial inputs. */
HEARTH_API size_t hearth_plan_producer(const struct hearth_plan *plan, const char *value);
/** The last node in serial order that uses a value: its producer when nobody does, and
 *  HEARTH_NODE_NONE for declared outputs, which do not die in the run. */
HEARTH_API size_t hearth_plan_last_use(const struct hearth_plan *plan, const char *value);
/** How many nodes use a value: a parallel run releases it after that many. */
HEARTH_API size_t hearth_plan_use_count(const struct hearth_plan *plan, const char *value);
/** Whether an output slot may take over an input slot's storage in every order of execution: the
 *  input's only remaining use is this node, in this slot alone, and the roles agree. */
HEARTH_API bool hearth_plan_may_reuse(const struct hearth_plan *plan, size_t node,
                                      size_t input_slot, size_t output_slot);

/* Events */

/** What happened in a step. */
enum hearth_event_kind {
    HEARTH_EVENT_NODE_BEGIN = 1,
    HEARTH_EVENT_NODE_END = 2,
    HEARTH_EVENT_MADE = 3,     /**< A value got storage. */
    HEARTH_EVENT_REUSED = 4,   /**< A value took over an input's storage. */
    HEARTH_EVENT_RELEASED = 5, /**< A value died at its last use. */
    HEARTH_EVENT_COPIED = 6,   /**< A payload copy; see the causes in the file comment. */
    HEARTH_EVENT_TAKEN = 7,    /**< Execution storage was taken by the I/O arena, without a copy. */
    HEARTH_EVENT_EXPORTED = 8, /**< An output became a lease. */
};

/** One event, valid during the callback only. */
struct hearth_event {
    size_t size;                   /**< sizeof(struct hearth_event), set by the library. */
    uint32_t kind;                 /**< enum hearth_event_kind */
    uint32_t thread;               /**< 0: the thread that called run; others from 1. */
    size_t step;                   /**< Nodes started before this one in the run. */
    size_t node;                   /**< HEARTH_NODE_NONE outside of nodes. */
    const char *value;             /**< The value's name; NULL for NODE_BEGIN and NODE_END. */
    uint64_t bytes;                /**< The value's logical bytes. */
    uint64_t execution_live_bytes; /**< Logical bytes of the run in execution arenas now. */
    uint64_t execution_peak_bytes; /**< The largest of them since the run began. */
    uint64_t io_live_bytes;        /**< Logical bytes of the run in the I/O arena now. */
    uint64_t io_peak_bytes;        /**< The largest of them since the run began. */
};

/** An event callback. It runs on the thread the event happened on, in a parallel run on several at
 *  once, outside of the library's protected sections. The object outlives what it was given to. */
struct hearth_event_handler {
    void (*fn)(void *user, const struct hearth_event *event);
    void *user;
};

/* Contexts */

/** Allow values made by allocators other than the context's: they stay where they are. Otherwise
 *  execution storage of a declared output changes arena by take where hearth_io_can_take() allows
 *  it, and everything else with one counted copy. */
#define HEARTH_CONTEXT_FOREIGN 1u

/** Options of a context. Zero means default everywhere. */
struct hearth_context_options {
    size_t size; /**< Set by HEARTH_CONTEXT_OPTIONS_INIT. */
    /** The plan whose names get O(1) access and no allocation per value (referenced); NULL: names
     *  are learned as they come, each allocating once. */
    struct hearth_plan *plan;
    /** Serves intermediates and workspaces; it outlives the context's values. NULL: the session's
     *  service, with the running thread's arena; without one, tensors are inline and workspaces are
     *  INVALID. A run on an executor needs NULL. */
    struct hearth_allocator *execution;
    /** Serves declared outputs and staged inputs. NULL: the allocator of `arena`; without one, as
     *  `execution`. */
    struct hearth_allocator *io;
    /** The arena that exports become leases of (referenced); NULL: the session's service's; without
     *  one, exports are INVALID. */
    struct hearth_io *arena;
    /** NULL: none. */
    const struct hearth_event_handler *events;
    /** HEARTH_CONTEXT_* joined. */
    uint32_t flags;
    uint32_t reserved;
};

#define HEARTH_CONTEXT_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct hearth_context_options), NULL, NULL, NULL, NULL, NULL, 0, 0                  \
    }

/** Create a context. `options` may be NULL. Thread: any. Ownership: hearth_context_destroy() ends
 *  it. Returns INVALID, NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_create(const struct hearth_context_options *options,
                      struct hearth_context **context);

/** Clear and end a context. Exported outputs stay valid. BUSY, and nothing changes, while a run
 *  uses it or when it is a node's or a body's. NULL is OK. */
HEARTH_API enum hearth_status hearth_context_destroy(struct hearth_context *context);

/**
 * Give a value to a name that has none: `tensor` is moved, and empty afterwards.
 * Thread: the context's user. Progress: no allocation for names of the plan.
 * Returns BUSY (the name has a value, or a run uses the context), INVALID (empty name or tensor),
 * NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_set(struct hearth_context *context, const char *name, struct hearth_tensor *tensor);

/** As hearth_context_set(), and a value the name has is released first. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_put(struct hearth_context *context, const char *name, struct hearth_tensor *tensor);

/** Look at a value. Ownership: the context's; valid until the value is replaced, removed, taken or
 *  dies. Returns INVALID when the name has no value; *tensor is then NULL. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_get(const struct hearth_context *context, const char *name,
                   const struct hearth_tensor **tensor);

/** Move a value out to an empty tensor; the name has none afterwards. Returns BUSY (*tensor is not
 *  empty, or a run uses the context), INVALID. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_take(struct hearth_context *context, const char *name, struct hearth_tensor *tensor);

/** Release a value. Returns INVALID when the name has none, BUSY. */
HEARTH_API enum hearth_status hearth_context_remove(struct hearth_context *context,
                                                    const char *name);

/** Release every value and forget bound outputs. What was exported stays valid. Room for names is
 *  kept. Returns BUSY, INVALID. */
HEARTH_API enum hearth_status hearth_context_clear(struct hearth_context *context);

/** Names that have a value. */
HEARTH_API size_t hearth_context_count(const struct hearth_context *context);

/**
 * List the names that have a value, in no particular order. At most `room` pointers are written;
 * *count receives the number of names. Ownership: the context's; valid until it changes.
 * Returns OVERFLOW when there are more than `room`, INVALID.
 */
HEARTH_API enum hearth_status hearth_context_names(const struct hearth_context *context,
                                                   const char **names, size_t room, size_t *count);

/* Inputs and outputs of a run, before and after it. Thread: the context's user. BUSY in a run. */

/** Give an input that stays the caller's: nothing is allocated or copied, and the runtime does not
 *  write to it. It replaces a value. Returns as hearth_context_put(). */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_borrow(struct hearth_context *context, const char *name, const void *data,
                      size_t bytes, enum hearth_dtype dtype, const struct hearth_shape *shape);

/**
 * Make room for an input in the I/O arena, for the caller to convert or receive into; with `data`,
 * copy `bytes` bytes from there, counted. `bytes` as in hearth_tensor_make(). It replaces a value.
 * `tensor`, if not NULL, receives it. Ownership: the context's.
 * Returns as hearth_context_put(), and what hearth_alloc() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_stage(struct hearth_context *context, const char *name, enum hearth_dtype dtype,
                     const struct hearth_shape *shape, const void *data, size_t bytes,
                     struct hearth_tensor **tensor);

/**
 * Bind a preallocated tensor to a declared output: it is moved, and each run writes the output
 * there when type and byte size fit its capacity, and fails with INVALID when they do not. The
 * binding holds until the output is exported, taken or cleared: a bound buffer that left is never
 * written again. A tensor that holds a lease cannot be bound: it left already. A borrowed
 * one can; its memory is the caller's and is written by every run.
 * Returns BUSY (bound before, or a run uses the context), INVALID (not a declared output of the
 * context's plan, empty tensor), LEASED.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_bind_output(struct hearth_context *context, const char *name,
                           struct hearth_tensor *tensor);

/**
 * Export a value as a lease; the name has no value afterwards. Nothing is copied, except a borrowed
 * value, counted. `tensor`, if not NULL, must be empty and receives type and shape, borrowing the
 * lease's data.
 * Ownership: the caller holds one reference, which outlives everything else.
 * Returns INVALID (no value, no arena), BUSY (a run uses the context), and what
 * hearth_tensor_export() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_context_export(struct hearth_context *context,
                                                                     const char *name,
                                                                     struct hearth_lease *lease,
                                                                     struct hearth_tensor *tensor);

/* For kernels: on the context that the kernel got. Slots count from 0. O(1), no metadata
 * allocation. On any other context they are INVALID (pointers: NULL, bool: false). */

/** An input's value; NULL for an optional slot that is not used. Ownership: the context's; valid
 *  until the kernel returns, or the input is reused in place. */
HEARTH_API const struct hearth_tensor *hearth_context_input(const struct hearth_context *context,
                                                            size_t slot);

/** An output's value made so far; NULL. Ownership: the context's. */
HEARTH_API struct hearth_tensor *hearth_context_output(const struct hearth_context *context,
                                                       size_t slot);

/**
 * Make the tensor of an output slot where its role wants it: bound storage, the I/O allocator or
 * the execution allocator. The content is unspecified. Making a slot twice releases the first
 * value.
 * Ownership: the context's. The kernel may write to it until it returns.
 * Returns INVALID (unused or unknown slot, impossible type or shape, does not fit bound storage),
 * OVERFLOW, and what hearth_alloc() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_make_output(struct hearth_context *context, size_t slot, enum hearth_dtype dtype,
                           const struct hearth_shape *shape, struct hearth_tensor **tensor);

/** As hearth_context_make_output() with the byte size given, as in hearth_tensor_make(); for STRING
 *  and for layouts of the kernel's own. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_make_output_sized(struct hearth_context *context, size_t slot,
                                 enum hearth_dtype dtype, const struct hearth_shape *shape,
                                 size_t bytes, struct hearth_tensor **tensor);

/** Whether make_output_in_place() of these slots would reuse the input now: the plan allows it, and
 *  the input's value is neither borrowed nor leased nor bound. Another byte size than the input's
 *  also needs the buffer to be of the running thread's arena. */
HEARTH_API bool hearth_context_can_reuse(const struct hearth_context *context, size_t input_slot,
                                         size_t output_slot);

/**
 * Make an output in its input's storage, content kept: the input's value is gone. Within the
 * input's capacity only. Ownership: as hearth_context_make_output().
 * Returns INVALID (see hearth_context_can_reuse(), or it does not fit), OVERFLOW,
 * NOT_OWNER (another byte size, another thread's buffer); the input is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_context_make_output_in_place(
    struct hearth_context *context, size_t input_slot, size_t output_slot, enum hearth_dtype dtype,
    const struct hearth_shape *shape, struct hearth_tensor **tensor);

/**
 * Give a finished tensor to an output slot: it is moved. For a declared output, execution storage
 * is taken by the I/O arena, or copied, counted, where it cannot be (hearth_io_can_take() is false,
 * or the buffer is another thread's). For an intermediate, storage of the I/O arena is copied,
 * counted: no take leads there. A borrowed tensor is copied, counted, in either role.
 * Returns INVALID, and what hearth_alloc() answers; the tensor is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_put_output(struct hearth_context *context, size_t slot,
                          struct hearth_tensor *tensor);

/**
 * Take a workspace from the execution allocator, whatever allocator is active and whatever roles
 * the node's outputs have. It is returned when the kernel returns, or before by
 * hearth_context_free_temporary(); do not return it in another way.
 * Returns what hearth_alloc() answers, INVALID.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_make_temporary(struct hearth_context *context, size_t bytes,
                              struct hearth_buf **buf);

/** Return a workspace early. Returns FOREIGN for what is not a workspace of this node. */
HEARTH_API enum hearth_status hearth_context_free_temporary(struct hearth_context *context,
                                                            struct hearth_buf *buf);

/** The allocator that hearth_context_make_output() would use for a slot; NULL when it would be
 *  inline, bound or the slot is not used. */
HEARTH_API struct hearth_allocator *
hearth_context_allocator_for_output(const struct hearth_context *context, size_t slot);

/** The execution allocator in force here: the option's, or the running thread's arena; NULL. */
HEARTH_API struct hearth_allocator *
hearth_context_execution_allocator(const struct hearth_context *context);

/** The I/O allocator in force here; NULL. */
HEARTH_API struct hearth_allocator *
hearth_context_io_allocator(const struct hearth_context *context);

/**
 * The active allocator, for old-style kernels that know no slots: before each node the runtime sets
 * it to the I/O allocator if every used output of the node is declared, else to the execution
 * allocator. The declared outputs of a mixed node are then taken by the I/O arena, or copied,
 * counted, where hearth_io_can_take() is false; its intermediates are where they belong. Works on
 * every context. NULL when there is none.
 */
HEARTH_API struct hearth_allocator *hearth_context_allocator(const struct hearth_context *context);

/** Switch the active allocator, in a kernel until it returns; NULL: the default again. The
 *  allocator outlives the values it makes. An intermediate made in the I/O arena this way is
 *  copied, counted, when the kernel returns. Returns INVALID for a NULL context. */
HEARTH_API enum hearth_status hearth_context_set_allocator(struct hearth_context *context,
                                                           struct hearth_allocator *allocator);

/* Bodies: subgraphs, functions and loops. For kernels of nodes that have bodies.
 *
 *     hearth_context_body(ctx, 0, &body);
 *     for (...) {
 *         hearth_context_put(body, "state", &state);              // moved in
 *         hearth_context_lend(body, "x", hearth_context_input(ctx, 0));
 *         hearth_context_run_body(body);
 *         hearth_context_take(body, "next", &state);              // moved out
 *     }
 *     hearth_context_put_output(ctx, 0, &state);
 */

/**
 * The context of one of the node's bodies, empty. Its intermediates come from a child execution
 * arena of the running thread, which is kept for later runs: a body that runs again, in a loop or
 * in the next run, allocates nothing. Its declared outputs have the role of the parent's slot they
 * are routed to, and the execution role in the parent otherwise.
 * Ownership: the node's; valid until the kernel returns. Calling it again clears the same context.
 * Returns INVALID (no such body), NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_body(struct hearth_context *context, size_t index, struct hearth_context **body);

/** Route a declared output of a body to an output slot of the node: the body writes it straight
 *  where the slot's role wants it. Holds until the kernel returns. Returns INVALID. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_route_output(struct hearth_context *body, const char *name, size_t slot);

/** Lend a value to a body: it borrows the tensor, which must not change until the body's run is
 *  over and the value is replaced or cleared. Nothing is copied. Returns as
 *  hearth_context_put(). */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_lend(struct hearth_context *body, const char *name,
                    const struct hearth_tensor *tensor);

/** Run a body once, serially, on this thread. Its declared outputs are values of `body` afterwards;
 *  its inputs are gone unless lent. Returns as hearth_session_run(). */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_context_run_body(struct hearth_context *body);

/* Executors */

/**
 * An executor: any thread pool that can be told to call a function. Zero-initialise it and set what
 * you have.
 */
struct hearth_executor {
    size_t size; /**< Set by HEARTH_EXECUTOR_INIT. */
    /**
     * Call fn(arg) once, on any thread, at any later time, also before submit returns. Any answer
     * but OK means that fn will not be called; the run then goes on with the threads it has. A call
     * that comes after the run ended finds nothing to do, so a pool may be busy with other work,
     * and a run may be started from a thread of the pool itself.
     */
    enum hearth_status (*submit)(void *pool, void (*fn)(void *arg), void *arg);
    void *pool; /**< Passed to submit. */
    /** Threads that may run tasks at the same time: at most so many are submitted; 0: as many as
     *  the process has processors. */
    uint32_t threads;
    uint32_t reserved;
};

#define HEARTH_EXECUTOR_INIT                                                                       \
    {                                                                                              \
        sizeof(struct hearth_executor), NULL, NULL, 0, 0                                           \
    }

/** Create a small pthread pool, for tests, examples and programs that have none. `threads` 0: the
 *  number of processors. Ownership: hearth_pool_destroy() ends it. Returns INVALID, NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_pool_create(uint32_t threads,
                                                                  struct hearth_pool **pool);

/** Finish what was submitted, join the threads, end the pool. BUSY on one of its own threads. NULL
 *  is OK. */
HEARTH_API enum hearth_status hearth_pool_destroy(struct hearth_pool *pool);

/** Fill `executor` with the pool's. Valid as long as the pool. Returns INVALID. */
HEARTH_API enum hearth_status hearth_pool_executor(struct hearth_pool *pool,
                                                   struct hearth_executor *executor);

/* Sessions */

/** The one list of a run's figures: X(name, unit, text). New figures are added at the end. */
#define HEARTH_RUN_STATS_MAP(X)                                                                    \
    X(runs, "count", "runs of the session so far, this one included")                              \
    X(nodes, "count", "nodes run")                                                                 \
    X(threads, "count", "threads that ran at least one node")                                      \
    X(tensors, "count", "output tensors made")                                                     \
    X(temporaries, "count", "workspaces made")                                                     \
    X(released, "count", "values that died at their last use")                                     \
    X(reused_in_place, "count", "outputs made in an input's storage")                              \
    X(remote_deaths, "count", "intermediates that died on another thread than they were made on")  \
    X(payload_copies, "count", "payload copies made by the runtime")                               \
    X(copied_bytes, "bytes", "bytes of these copies")                                              \
    X(staged_copies, "count", "the part of payload_copies from staged inputs")                     \
    X(migration_copies, "count", "the part of payload_copies from outputs in the wrong arena")     \
    X(taken, "count", "execution buffers taken by the I/O arena without a copy")                   \
    X(body_runs, "count", "runs of bodies")                                                        \
    X(backing_acquires, "count", "storage obtained from the service's backings in the time")       \
    X(backing_releases, "count", "storage given back to them in the time")                         \
    X(execution_peak_bytes, "bytes", "largest logical bytes of the run in execution arenas")       \
    X(io_peak_bytes, "bytes", "largest logical bytes of the run in the I/O arena")                 \
    X(elapsed_ns, "nanoseconds", "time the run took")

/** The figures of one run. Peaks are exact for a serial run; in a parallel run within the sizes of
 *  the operations in flight. The backing's figures include what others did in the same time. */
struct hearth_run_stats {
    size_t size; /**< sizeof(struct hearth_run_stats), set by the caller. */
#define HEARTH_RUN_STATS_MEMBER(name, unit, text) uint64_t name;
    HEARTH_RUN_STATS_MAP(HEARTH_RUN_STATS_MEMBER)
#undef HEARTH_RUN_STATS_MEMBER
};

#define HEARTH_RUN_STATS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct hearth_run_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0   \
    }

/** Options of a session. Zero means default everywhere. */
struct hearth_session_options {
    size_t size; /**< Set by HEARTH_SESSION_OPTIONS_INIT. */
    /** What to run; required. Referenced. */
    struct hearth_plan *plan;
    /** Serves contexts that bring no allocators of their own; needed for parallel runs and for
     *  bodies. Referenced. NULL: none. */
    struct hearth_service *service;
    /** Contexts that may run at the same time without an allocation; 0: 1. More than that work. */
    uint32_t concurrent_runs;
    uint32_t reserved;
};

#define HEARTH_SESSION_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct hearth_session_options), NULL, NULL, 0, 0                                    \
    }

/** Create a session. Thread: any. Ownership: hearth_session_destroy() ends it.
 *  Returns INVALID (no plan, wrong size), NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_session_create(const struct hearth_session_options *options,
                      struct hearth_session **session);

/** End a session; tasks that an executor has not called yet stay safe to call. BUSY, and nothing
 *  changes, while a run is going on. NULL is OK. */
HEARTH_API enum hearth_status hearth_session_destroy(struct hearth_session *session);

/**
 * Run the plan once, node after node in the plan's order, on the calling thread.
 *
 * The context must have a value for every initial input that a node uses, and have been created for
 * this plan. Declared outputs and initial inputs are its values afterwards, intermediates are gone.
 * Outputs of the run before are released first; those that were exported are untouched. A declared
 * output that is an initial input is that value itself.
 *
 * `stats` may be NULL; stats->size must be set (HEARTH_RUN_STATS_INIT), members beyond it are not
 * written; it is written, as far as the run came, in every case but INVALID.
 * Thread: any; the owner of the execution allocator, where it has one.
 * Progress: after at most three runs with the same shapes no system call and no metadata
 * allocation.
 * Returns INVALID (a missing input, another plan; hearth_session_error() names it), BUSY (the
 * context is in a run), what a kernel answered, what an allocator answered. After a run that failed
 * the context keeps its inputs, and nothing else.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_session_run(struct hearth_session *session,
                                                                  struct hearth_context *context,
                                                                  struct hearth_run_stats *stats);

/**
 * Run the plan once with an executor: a node starts as soon as its inputs are there. The calling
 * thread works too, so the run ends even if the executor never calls anything. Outputs and
 * workspaces with the execution role come from the arena of the thread that runs the node, and may
 * die on another. After a kernel's failure no new node starts.
 * Thread: any, also a thread of the executor.
 * Progress: waits for the nodes that other threads run.
 * Returns as hearth_session_run(); INVALID without a service, or when the context has an execution
 * allocator of its own.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_session_run_on(struct hearth_session *session, struct hearth_context *context,
                      const struct hearth_executor *executor, struct hearth_run_stats *stats);

/**
 * Export every declared output of a context after a run: leases[i] is the output that was declared
 * as number i. All or none. `count` must be the plan's number of outputs.
 * Ownership: the caller holds one reference of each lease; they outlive everything else.
 * Returns as hearth_context_export().
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_session_export_outputs(struct hearth_session *session, struct hearth_context *context,
                              struct hearth_lease *leases, size_t count);

/**
 * What went wrong in the context's last run: one line that names the node and the value, "" after
 * OK.
 * Ownership: the context's; valid until its next run. Thread: the context's user.
 */
HEARTH_API const char *hearth_session_error(const struct hearth_context *context);

HEARTH_END_DECLS

#endif
