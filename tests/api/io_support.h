/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs about the I/O arena share, on top of support.h: short verbs, all figures at once, the
 * accounting identities. */
#ifndef HEARTH_TESTS_API_IO_SUPPORT_H
#define HEARTH_TESTS_API_IO_SUPPORT_H

#include "support.h"

#include <hearth/io.h>

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Every getter: X(name). */
#define IO_FIGURES(X)                                                                              \
    X(slots)                                                                                       \
    X(live_count)                                                                                  \
    X(owned_count)                                                                                 \
    X(leased_count)                                                                                \
    X(live_bytes)                                                                                  \
    X(leased_bytes)                                                                                \
    X(live_capacity)                                                                               \
    X(peak_bytes)                                                                                  \
    X(retained_count)                                                                              \
    X(retained_bytes)                                                                              \
    X(pending_count)                                                                               \
    X(pending_bytes)                                                                               \
    X(retention_cap)                                                                               \
    X(footprint)

struct io_figures {
#define IO_FIGURE(name) size_t name;
    IO_FIGURES(IO_FIGURE)
#undef IO_FIGURE
};

struct io_figures io_figures(const struct hearth_io *io);

/* Every figure is what it was. */
void io_unchanged(const struct io_figures *before, const struct hearth_io *io);

/* Identities that hold when nothing is in flight; and with the backing, which may be NULL. */
void io_identity(const struct hearth_io *io, const struct memory *memory);

/* An arena on `memory`; 0 means default everywhere. */
struct hearth_io *io_create(struct memory *memory, size_t slots, size_t cap, uint32_t ratio);
struct hearth_io *io_create_limited(struct memory *memory, size_t live_limit);

/* Checks the identities, destroys the arena, and that everything was given back. */
void io_finish(struct hearth_io *io, struct memory *memory);

struct hearth_buf *io_take(struct hearth_io *io, size_t size);
struct hearth_buf *io_take_aligned(struct hearth_io *io, size_t size, size_t alignment);
void io_give(struct hearth_io *io, struct hearth_buf *buf);
struct hearth_lease io_lease(struct hearth_io *io, size_t size);
struct hearth_lease io_export(struct hearth_io *io, struct hearth_buf *buf);
void io_drop(struct hearth_lease lease);

/* The lease was returned: all questions and verbs say so. */
void io_is_stale(struct hearth_lease lease);

/* Let `milliseconds` pass. */
void io_pause(long milliseconds);

#endif
