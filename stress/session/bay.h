/* SPDX-License-Identifier: Apache-2.0 */
/* Where exported outputs wait: threads of their own look at them for a while and release them. */
#ifndef HEARTH_STRESS_SESSION_BAY_H
#define HEARTH_STRESS_SESSION_BAY_H

#include <hearth/io.h>

#include <stddef.h>
#include <stdint.h>

struct bay_lease {
    struct hearth_lease lease;
    uint64_t stamp;  /* what its bytes must be */
    const void *tag; /* whose it is */
};

/* Start so many consumers. */
void bay_open(unsigned count, uint64_t seed);

/* Check a lease and leave it there, or release another one where it is full. */
void bay_put(const struct bay_lease *lease);

/* Bytes and capacity of the leases of `tag`, while nobody puts. */
void bay_count(const void *tag, size_t *bytes, size_t *capacity);

/* Release all; the threads go on. */
void bay_clear(void);

/* Release all and end the threads. Returns how many leases there were. */
uint64_t bay_close(void);

#endif
