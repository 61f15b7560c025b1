/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's data allocator (NEP 49) on a service: what the files of hearth._numpy_memory share.
 *
 * The handler's functions use nothing of Python's: NumPy calls them with the GIL today and without
 * one on a free-threaded interpreter, on any thread.
 */
#ifndef HEARTH_PYTHON_NUMPY_MEMORY_H
#define HEARTH_PYTHON_NUMPY_MEMORY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* What NumPy 1.22 has is enough, whatever the headers' line is. */
#define NPY_TARGET_VERSION 0x0000000f
#define NPY_NO_DEPRECATED_API 0x0000000f
#include <numpy/ndarraytypes.h>

#include <hearth/io.h>
#include <hearth/service.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks below this are NumPy's own business: its cache and the C heap beat an arena there. */
#define HEARTHPY_NUMPY_THRESHOLD ((size_t)256 << 10)
/* Zeros from this size on are lazy where that is the policy. It is the size from which the C heap maps each block
 * afresh: below it calloc() in a loop writes to warm pages, and lazy zeros would be slower when they are touched. */
#define HEARTHPY_NUMPY_LAZY_THRESHOLD ((size_t)32 << 20)

/* A handler's figures: X(name, text). All but the live ones only grow. */
#define HEARTHPY_NUMPY_STATS_MAP(X)                                                                \
    X(live_count, "blocks of the service that arrays own now")                                     \
    X(live_bytes, "their bytes, as asked for")                                                     \
    X(allocations, "blocks taken from the service")                                                \
    X(frees, "blocks given back to it")                                                            \
    X(zeroed, "blocks taken for zeros, and written to where they were not known to be zero")       \
    X(zeroed_lazily, "blocks taken for zeros, whose pages were given back instead")                \
    X(resized, "blocks resized where they are")                                                    \
    X(moved, "blocks whose content was copied for another size")                                   \
    X(fallbacks, "blocks left to NumPy's own functions: the service is closed or has no slot")     \
    X(failures, "requests answered with MemoryError")                                              \
    X(wrong_sizes, "frees that told another size than the block has")                              \
    X(foreign, "frees and resizes of another service's blocks")                                    \
    X(refused, "frees that were wrong: a second one, or one of a leased block")

enum hearthpy_numpy_stat {
#define HEARTHPY_NUMPY_STAT(name, text) HEARTHPY_NUMPY_##name,
    HEARTHPY_NUMPY_STATS_MAP(HEARTHPY_NUMPY_STAT)
#undef HEARTHPY_NUMPY_STAT
        HEARTHPY_NUMPY_STATS
};

/* What a handler does; chosen when it is made. */
struct hearthpy_numpy_policy {
    size_t threshold;      /* smaller blocks are NumPy's own */
    size_t lazy_threshold; /* zeros from this size on are lazy; SIZE_MAX: none are */
};

struct hearthpy_numpy_handler;

/*
 * Make a handler on a service, which it references. `plain` is NumPy's default handler, whose
 * functions serve what is not the service's. NULL: out of memory.
 * Ownership: the caller holds the handler, and gives it up with hearthpy_numpy_handler_drop(). It
 * lives on while blocks of it do.
 */
struct hearthpy_numpy_handler *
hearthpy_numpy_handler_new(struct hearth_service *service, const PyDataMem_Handler *plain,
                           const struct hearthpy_numpy_policy *policy);
void hearthpy_numpy_handler_drop(struct hearthpy_numpy_handler *handler);

/* What NumPy is given, and the way back. */
PyDataMem_Handler *hearthpy_numpy_handler_table(struct hearthpy_numpy_handler *handler);
struct hearthpy_numpy_handler *hearthpy_numpy_handler_of(PyDataMem_Handler *table);

/* The figures, each by itself; together they are exact while nobody allocates. */
void hearthpy_numpy_handler_stats(struct hearthpy_numpy_handler *handler,
                                  uint64_t stats[HEARTHPY_NUMPY_STATS]);

#endif
