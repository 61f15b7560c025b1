/* SPDX-License-Identifier: Apache-2.0 */
#include "core/zero.h"

#include <string.h>

/* How much is left to write at the front, up to what was given back, which ends at *behind; all of it where the backing
 * gave back less than was asked. */
static size_t discard(struct hearth_backing *backing, char *data, size_t size, size_t *behind)
{
    const uintptr_t mask = HEARTH__ZERO_PAGE_BYTES - 1;
    size_t front = -(uintptr_t)data & mask;
    size_t bytes = (size - front) & ~(size_t)mask;
    if ((backing->ops.flags & HEARTH_BACKING_DISCARD_ZEROES) == 0 ||
        backing->ops.discard(backing->context, data + front, bytes) != bytes)
        return size;
    *behind = front + bytes;
    return front;
}

void hearth__zero(struct hearth_backing *backing, void *data, size_t size, uint32_t how, bool known)
{
    size_t front = size;
    size_t behind = size;
    if (how == HEARTH_ZERO_NONE || known)
        return;
    if (how == HEARTH_ZERO_LAZY && size >= HEARTH__ZERO_LAZY_LEAST_BYTES)
        front = discard(backing, data, size, &behind);
    memset(data, 0, front);
    memset((char *)data + behind, 0, size - behind);
}
