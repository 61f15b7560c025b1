/* SPDX-License-Identifier: Apache-2.0 */
#include <hearth/handle.h>

#include "core/buf.h"
#include "core/meta.h"
#include "core/misuse.h"

static enum hearth_status from(struct hearth_allocator *allocator, struct hearth_buf *buf,
                               struct hearth_handle *handle, const char *call)
{
    if (handle == NULL)
        return hearth__misuse(HEARTH_INVALID, call, allocator, buf);
    if (handle->kind != HEARTH_HANDLE_EMPTY)
        return hearth__misuse_detail(HEARTH_BUSY, call, allocator, buf,
                                     "the handle owns something already; reset or move it first");
    if (hearth__segment_of(buf) == NULL)
        return hearth__misuse(HEARTH_FOREIGN, call, allocator, buf);
    uint64_t word = hearth__load_acquire(&buf->state);
    if (hearth__word_state(word) != HEARTH__LIVE || allocator == NULL)
        return hearth__misuse(hearth__buf_not_live(word), call, allocator, buf);
    if (allocator->ops->free_exact == NULL)
        return hearth__misuse_detail(HEARTH_INVALID, call, allocator, buf,
                                     "this allocator's buffers cannot be returned by generation");
    *handle = (struct hearth_handle){
        .allocator = allocator,
        .buf = buf,
        .generation = hearth__word_generation(word),
        .size = hearth__load_relaxed(&buf->size),
        .kind = HEARTH_HANDLE_BUF,
    };
    return HEARTH_OK;
}

enum hearth_status hearth_handle_from_buf(struct hearth_buf *buf, struct hearth_handle *handle)
{
    return from(hearth_buf_owner(buf), buf, handle, "hearth_handle_from_buf");
}

enum hearth_status hearth_handle_from(struct hearth_allocator *allocator, struct hearth_buf *buf,
                                      struct hearth_handle *handle)
{
    if (allocator == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_handle_from", NULL, buf);
    return from(allocator, buf, handle, "hearth_handle_from");
}

enum hearth_status hearth_handle_reset(struct hearth_handle *handle)
{
    if (handle == NULL || handle->kind == HEARTH_HANDLE_EMPTY)
        return HEARTH_OK;
    struct hearth_handle old = *handle;
    *handle = (struct hearth_handle)HEARTH_HANDLE_INIT;
    if (hearth__segment_of(old.buf) == NULL)
        return hearth__misuse(HEARTH_FOREIGN, "hearth_handle_reset", NULL, old.buf);
    /* While the generation is the handle's, the buffer is live, and so are its arena and whatever
     * wraps it. Of an allocator whose buffer is gone nothing may be read. */
    uint64_t word = hearth__load_acquire(&old.buf->state);
    bool lease = old.kind == HEARTH_HANDLE_LEASE;
    enum hearth__state state = lease ? HEARTH__LEASED : HEARTH__LIVE;
    if (hearth__word_generation(word) != old.generation || hearth__word_state(word) != state)
        return hearth__misuse(HEARTH_STALE, "hearth_handle_reset", NULL, old.buf);
    if (lease)
        return old.allocator->ops->release(old.allocator, old.buf, old.generation);
    return old.allocator->ops->free_exact(old.allocator, old.buf, old.generation);
}

enum hearth_status hearth_handle_move(struct hearth_handle *to, struct hearth_handle *from)
{
    if (to == NULL || from == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_handle_move", NULL, NULL);
    if (to == from)
        return HEARTH_OK;
    enum hearth_status status = hearth_handle_reset(to);
    *to = *from;
    *from = (struct hearth_handle)HEARTH_HANDLE_INIT;
    return status;
}

enum hearth_status hearth_handle_release(struct hearth_handle *handle, struct hearth_buf **buf)
{
    if (handle == NULL || buf == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_handle_release", NULL, NULL);
    if (handle->kind == HEARTH_HANDLE_LEASE)
        return hearth__misuse(HEARTH_LEASED, "hearth_handle_release", NULL, handle->buf);
    *buf = handle->buf;
    *handle = (struct hearth_handle)HEARTH_HANDLE_INIT;
    return HEARTH_OK;
}

bool hearth_handle_holds_lease(const struct hearth_handle *handle)
{
    return handle != NULL && handle->kind == HEARTH_HANDLE_LEASE;
}

struct hearth_buf *hearth_handle_buf(const struct hearth_handle *handle)
{
    return handle == NULL ? NULL : handle->buf;
}

struct hearth_allocator *hearth_handle_owner(const struct hearth_handle *handle)
{
    return handle == NULL ? NULL : handle->allocator;
}

size_t hearth_handle_capacity(const struct hearth_handle *handle)
{
    return handle == NULL ? 0 : hearth_buf_capacity(handle->buf);
}

size_t hearth_handle_logical_size(const struct hearth_handle *handle)
{
    return handle == NULL ? 0 : handle->size;
}

void hearth_handle_cleanup(struct hearth_handle *handle)
{
    (void)hearth_handle_reset(handle);
}
