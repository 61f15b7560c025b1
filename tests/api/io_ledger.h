/* SPDX-License-Identifier: Apache-2.0 */
/* A backing for the model: segments exactly as long as asked, each with a serial number of its own, so that
 * storage can be told from later storage at the same address. One thread. Knows nothing of Criterion. */
#ifndef HEARTH_TESTS_API_IO_LEDGER_H
#define HEARTH_TESTS_API_IO_LEDGER_H

#include <hearth/backing.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IO_LEDGER_SEGMENTS = 1024 };

struct io_ledger {
    struct hearth_backing *backing;
    size_t bytes; /* lent now */
    size_t limit; /* larger requests are refused */
    uint64_t serial;
    size_t segments;
    struct io_ledger_segment {
        void *base;
        uint64_t serial;
    } segment[IO_LEDGER_SEGMENTS];
    bool refuse; /* refuse everything */
    bool destroyed;
};

enum hearth_status io_ledger_init(struct io_ledger *ledger, size_t limit);

/* Serial number of the segment lent at `base`; 0 when there is none. */
uint64_t io_ledger_serial(const struct io_ledger *ledger, const void *base);

/* Gives up the reference; whether everything was given back and the backing ended. */
bool io_ledger_fini(struct io_ledger *ledger);

#endif
