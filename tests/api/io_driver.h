/* SPDX-License-Identifier: Apache-2.0 */
/* Drives an I/O arena and its model side by side from a string of bytes: the random tests draw the bytes,
 * the fuzzer mutates them. Every byte string is a valid sequence; when it ends the sequence ends. Knows
 * nothing of Criterion. */
#ifndef HEARTH_TESTS_API_IO_DRIVER_H
#define HEARTH_TESTS_API_IO_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that a sequence of `operations` needs, about. */
#define IO_DRIVER_BYTES(operations) (8 + 10 * (size_t)(operations))

/* The next of a stream of random bytes; `state` is the seed at first. */
void io_driver_random(uint64_t *state, uint8_t *bytes, size_t count);

/* Run one sequence. False when arena and model disagree: `message` says where and how. */
bool io_driver_run(const uint8_t *bytes, size_t count, char *message, size_t message_bytes);

#endif
