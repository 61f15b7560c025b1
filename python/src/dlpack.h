/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory layout of what a DLPack capsule points to, from its specification: two structs that differ in their head.
 *
 *     capsule's name            points to          once it is consumed the name is
 *     "dltensor"                struct dl_legacy   "used_dltensor"
 *     "dltensor_versioned"      struct dl_managed  "used_dltensor_versioned"
 *
 * Whoever consumes a capsule renames it and calls the deleter when done, once, on any thread; a capsule that still has
 * its first name calls it itself when it dies.
 */
#ifndef HEARTH_PYTHON_DLPACK_H
#define HEARTH_PYTHON_DLPACK_H

#include <stddef.h>
#include <stdint.h>

#define DL_NAME "dltensor"
#define DL_NAME_USED "used_dltensor"
#define DL_NAME_VERSIONED "dltensor_versioned"
#define DL_NAME_VERSIONED_USED "used_dltensor_versioned"

enum {
    DL_DEVICE_CPU = 1,
    DL_MAJOR =
        1, /* another major version: only version, context and deleter are where they are here */
    DL_MINOR = 1,
};

enum dl_flags {
    DL_READ_ONLY = 1,
    DL_IS_COPIED = 2,
};

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits; /* of the element type */
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: C order */
    uint64_t byte_offset;
};

struct dl_legacy {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_legacy *self); /* may be NULL */
};

struct dl_managed {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_managed *self); /* may be NULL */
    uint64_t flags;
    struct dl_tensor tensor;
};

_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(struct dl_tensor) == 48 && sizeof(struct dl_legacy) == 64 &&
                    sizeof(struct dl_managed) == 80 && offsetof(struct dl_managed, tensor) == 32),
               "the structs are laid out as in the specification");

#endif
