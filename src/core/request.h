/* SPDX-License-Identifier: Apache-2.0 */
/* What every allocator of ours asks of a request. */
#ifndef HEARTH_CORE_REQUEST_H
#define HEARTH_CORE_REQUEST_H

#include "core/buf.h"

#include <hearth/allocator.h>

#include <stdbool.h>
#include <stddef.h>

/* The log2 of the alignment that a request (NULL: none) wants, at least HEARTH__ALIGNMENT_LOG_MIN.
 * False for a request that is impossible. */
static inline bool hearth__request_alignment(const struct hearth_request *request, unsigned *log)
{
    if (request == NULL)
        return false;
    size_t alignment = request->alignment;
    const uint64_t *reserved = request->reserved;
    if ((alignment & (alignment - 1)) != 0 || alignment > HEARTH_ALIGNMENT_MAX ||
        request->priority > HEARTH_PRIORITY_HIGH ||
        (reserved[0] | reserved[1] | reserved[2] | reserved[3]) != 0)
        return false;
    *log = alignment <= HEARTH_ALIGNMENT ? HEARTH__ALIGNMENT_LOG_MIN
                                         : (unsigned)__builtin_ctzl(alignment);
    return true;
}

#endif
