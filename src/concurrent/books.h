/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The books of a service that nobody uses at present. Each has a home, an index that it keeps for life, so that giving
 * one back is a store and taking one an exchange.
 *
 *               take  put  look     '-' may overlap
 *     take       -     -    -
 *     put        -     -    -
 */
#ifndef HEARTH_CONCURRENT_BOOKS_H
#define HEARTH_CONCURRENT_BOOKS_H

#include "core/book.h"

/* Books of a service: runs at a time that can follow plans. */
#define HEARTH__BOOKS_MOST 256u

struct hearth__books {
    _Atomic(struct hearth__book *) idle[HEARTH__BOOKS_MOST];
    _Atomic(uint32_t) homes; /* given out so far */
    /* Of the idle ones. Monotone, modulo 2^64. */
    _Atomic(uint64_t) in_bytes, out_bytes;
};

void hearth__books_init(struct hearth__books *books);

/* An idle book, the one of this home first, or NULL. Wait-free. */
struct hearth__book *hearth__books_take(struct hearth__books *books, uint32_t home);

/* Only that one. */
struct hearth__book *hearth__books_take_at(struct hearth__books *books, uint32_t home);

/* A home for a new book; false: there are no more. */
bool hearth__books_settle(struct hearth__books *books, struct hearth__book *book);

/* Give a book back. Wait-free. */
void hearth__books_put(struct hearth__books *books, struct hearth__book *book);

/* A book that may be looked at (`uses`, `slab_bytes`), not used: somebody may take it at any moment. */
struct hearth__book *hearth__books_look(const struct hearth__books *books, uint32_t home);

static inline uint32_t hearth__books_homes(const struct hearth__books *books)
{
    return hearth__load_acquire(&books->homes);
}

/* In a forked child: somebody who is not there may have been about to take one or to put one. */
void hearth__books_after_fork(struct hearth__books *books);

/* Bytes of idle slabs. */
size_t hearth__books_idle_bytes(const struct hearth__books *books);

#endif
