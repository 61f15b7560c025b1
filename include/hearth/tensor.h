/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file tensor.h
 * Tensors: an element type, a shape and one owner of the bytes.
 *
 * Experimental until 1.0: names, structs and values may change in any version. In libhearth-runtime.
 */
#ifndef HEARTH_TENSOR_H
#define HEARTH_TENSOR_H

#include <hearth/allocator.h>
#include <hearth/export.h>
#include <hearth/handle.h>
#include <hearth/io.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

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
 * a handle. `bytes` 0: as the type and shape say (0 for a type without a fixed size, if there are
 * no elements); for STRING, and for layouts of the caller's own, the byte size, which may not be
 * smaller than what type and shape say.
 * Thread, Progress: those of hearth_alloc() on the allocator; inline uses the C heap.
 * Ownership: the tensor owns the storage until it is reset, moved or released.
 * Returns BUSY (*tensor is not empty), INVALID, OVERFLOW, and what hearth_alloc() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_tensor_make(struct hearth_allocator *allocator, enum hearth_dtype dtype,
                   const struct hearth_shape *shape, size_t bytes, struct hearth_tensor *tensor);

/**
 * Make an empty tensor look at `bytes` bytes of somebody else's at `data`, which must stay valid
 * and never enters a free list. Wait-free. Returns BUSY, INVALID (too few bytes for type and shape),
 * OVERFLOW (a shape that no memory holds).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_tensor_borrow(void *data, size_t bytes, enum hearth_dtype dtype,
                     const struct hearth_shape *shape, struct hearth_tensor *tensor);

/**
 * Make an empty tensor from what a handle owns; the handle is empty afterwards. Wait-free.
 * Returns BUSY, INVALID (empty handle, too few bytes for type and shape), OVERFLOW, STALE.
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
 * of `io` is exported, a lease is handed out as it is, also one of another arena, an execution
 * buffer is taken (by its arena's owner only), inline storage is adopted.
 * Thread: any but for execution buffers. Ownership: the caller holds one reference.
 * Returns INVALID (empty, borrowed, or hearth_io_can_take() is false), NOT_OWNER, STALE, LEASED,
 * CLOSED, NO_SLOT, NO_MEMORY, BUSY (re-entered); the tensor is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_tensor_export(struct hearth_tensor *tensor,
                                                                    struct hearth_io *io,
                                                                    struct hearth_lease *lease);

/**
 * Give a tensor another shape within its capacity: no storage moves. If the byte size changes, the
 * buffer's logical size follows, which only the owner of its arena can do. Types without a fixed
 * size keep their byte size.
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

HEARTH_END_DECLS

#endif
