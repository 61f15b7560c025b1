/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of the stress graphs do: check, make, stamp, check again. */
#ifndef HEARTH_STRESS_SESSION_KERNEL_H
#define HEARTH_STRESS_SESSION_KERNEL_H

#include <hearth/status.h>
#include <hearth/tensor.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth_context;
struct hearth_tensor;

/* `user` is a struct graph_node. */
enum hearth_status stress_kernel(struct hearth_context *context, void *user);

/* The shape of so many bytes of stamps, which are a multiple of eight. */
struct hearth_shape stamp_shape(size_t bytes);

/* Fill a tensor's bytes with a stamp; and whether they are all this stamp. */
void stamp_fill(void *data, size_t bytes, uint64_t stamp);
bool stamp_filled(const void *data, size_t bytes, uint64_t stamp);

#endif
