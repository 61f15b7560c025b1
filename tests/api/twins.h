/* SPDX-License-Identifier: Apache-2.0 */
/* Two execution arenas that are told the same: one with lists and one with plans. After each operation every
 * status and every figure that does not tell where storage is kept must agree; in both no two live buffers share
 * a byte, and the figures add up to what the backing lent. A failure names the seed, the operation and its
 * number. */
#ifndef HEARTH_TESTS_API_TWINS_H
#define HEARTH_TESTS_API_TWINS_H

#include "support.h"

#include <hearth/io.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TWINS = 120, TWINS_KEPT = 4, ARENAS = 2 };

/* One buffer, and its twin in the other arena. */
struct twin {
    struct hearth_buf *buf[ARENAS];
    size_t size;
    uint64_t owner; /* 0: nothing is here */
    bool taken;     /* moved to the I/O arenas */
};

struct twins {
    enum hearth_status answers[ARENAS]; /* to the call that is made */
    struct hearth_exec *arena[ARENAS];
    struct hearth_io *io[ARENAS];
    struct memory memory[ARENAS];
    struct twin places[TWINS], kept[TWINS_KEPT];
    uint64_t seed, random, serial;
    size_t step, size_most;
    unsigned noise; /* one of so many steps is not as it was; 0: none */
    bool begun, unowned;
    const char *what;
};

#define AGREE(self, condition, ...)                                                                \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            char detail_[256];                                                                     \
            snprintf(detail_, sizeof detail_, __VA_ARGS__);                                        \
            cr_assert_fail("HEARTH_TEST_SEED=%llu, operation %zu (%s): %s",                        \
                           (unsigned long long)(self)->seed, (self)->step, (self)->what, detail_); \
        }                                                                                          \
    } while (0)

/* Of `limit` bytes a request fails; 0: none. */
void twins_open(struct twins *self, uint64_t seed, size_t slots, size_t cap, size_t limit);
void twins_close(struct twins *self);

uint64_t twins_draw(struct twins *self, uint64_t below);
size_t twins_size(struct twins *self);

void twins_alloc(struct twins *self, struct twin *twin, const struct hearth_request *request);
void twins_free(struct twins *self, struct twin *twin); /* with noise also in wrong ways */
void twins_resize(struct twins *self, struct twin *twin, size_t size, bool keep);
void twins_run(struct twins *self, bool begin, uint64_t key);

/* A trim, a cap, a take, a misuse: whatever may come between two steps. */
void twins_something(struct twins *self);

/* Compare all figures; and the next operation finds an owner. */
void twins_compare(struct twins *self);

#endif
