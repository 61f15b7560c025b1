/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator interface: calls through the table of operations. */
#include "core/buf.h"
#include "core/meta.h"
#include "core/misuse.h"

#include <hearth/allocator.h>

enum hearth_status hearth_alloc(struct hearth_allocator *allocator, size_t size,
                                struct hearth_buf **buf)
{
    const struct hearth_request request = {.size = size};
    return hearth_alloc_ex(allocator, &request, buf);
}

enum hearth_status hearth_alloc_ex(struct hearth_allocator *allocator,
                                   const struct hearth_request *request, struct hearth_buf **buf)
{
    if (allocator == NULL || request == NULL || buf == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_alloc", allocator, NULL);
    return allocator->ops->alloc(allocator, request, buf);
}

enum hearth_status hearth_free(struct hearth_allocator *allocator, struct hearth_buf *buf)
{
    if (allocator == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_free", allocator, buf);
    return allocator->ops->free(allocator, buf);
}

size_t hearth_live_bytes(const struct hearth_allocator *allocator)
{
    return allocator == NULL ? 0 : allocator->ops->live_bytes(allocator);
}

size_t hearth_peak_bytes(const struct hearth_allocator *allocator)
{
    return allocator == NULL ? 0 : allocator->ops->peak_bytes(allocator);
}

enum hearth_status hearth_reset_peak(struct hearth_allocator *allocator)
{
    if (allocator == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_reset_peak", NULL, NULL);
    return allocator->ops->reset_peak(allocator);
}

enum hearth_status hearth_resize(struct hearth_allocator *allocator, struct hearth_buf *buf,
                                 size_t size, bool keep)
{
    if (allocator == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_resize", NULL, buf);
    return allocator->ops->resize(allocator, buf, size, keep);
}

static enum hearth_status resize(struct hearth_buf *buf, size_t size, bool keep)
{
    /* A live buffer's arena exists. Of one that is not live nothing but its word may be believed. */
    struct hearth_allocator *owner = hearth_buf_owner(buf);
    if (owner == NULL)
        return hearth__misuse(hearth__segment_of(buf) == NULL ? HEARTH_FOREIGN : HEARTH_STALE,
                              "hearth_buf_resize", NULL, buf);
    return owner->ops->resize(owner, buf, size, keep);
}

enum hearth_status hearth_buf_resize(struct hearth_buf *buf, size_t size)
{
    return resize(buf, size, false);
}

enum hearth_status hearth_buf_resize_keep(struct hearth_buf *buf, size_t size)
{
    return resize(buf, size, true);
}
