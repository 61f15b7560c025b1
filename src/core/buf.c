/* SPDX-License-Identifier: Apache-2.0 */
#include "core/buf.h"

#include "core/meta.h"
#include "core/size_class.h"

#include <string.h>

enum hearth_status hearth__buf_attach(struct hearth_buf *buf, const struct hearth_segment *segment,
                                      unsigned alignment_log)
{
    enum hearth_status status = hearth__payload_set(segment->base, buf->index);
    if (status != HEARTH_OK)
        return status;
    buf->storage = (struct hearth__storage){segment->base, segment->length, segment->cookie};
    buf->offset = 0;
    hearth__store_relaxed(&buf->weight, hearth__weight_of(1, segment->length));
    buf->size_class = (uint16_t)hearth__class_floor(segment->length);
    buf->alignment_log = (uint8_t)alignment_log;
    buf->flags = segment->flags & HEARTH_SEGMENT_ZERO ? HEARTH__BUF_ZERO : 0;
    hearth__store_relaxed(&buf->data, segment->base);
    return HEARTH_OK;
}

void hearth__buf_detach(struct hearth_buf *buf, struct hearth_segment *segment)
{
    hearth__payload_clear(hearth__load_relaxed(&buf->data));
    *segment = (struct hearth_segment){
        .base = buf->storage.base,
        .length = buf->storage.length,
        .cookie = buf->storage.cookie,
    };
    hearth__store_relaxed(&buf->data, NULL);
    buf->storage = (struct hearth__storage){0};
    hearth__store_relaxed(&buf->weight, 0);
    hearth__store_relaxed(&buf->size, 0);
    buf->flags = 0;
}

/* What changes hands when two slots exchange their storage. */
struct attachment {
    void *data;
    hearth__weight weight;
    struct hearth__storage storage;
    uint32_t offset;
    uint16_t size_class;
    uint8_t alignment_log;
    uint8_t flags;
};

static struct attachment attachment_of(const struct hearth_buf *buf)
{
    return (struct attachment){
        .data = hearth__load_relaxed(&buf->data),
        .weight = hearth__load_relaxed(&buf->weight),
        .storage = buf->storage,
        .offset = buf->offset,
        .size_class = buf->size_class,
        .alignment_log = buf->alignment_log,
        .flags = buf->flags,
    };
}

static void attachment_set(struct hearth_buf *buf, const struct attachment *from)
{
    hearth__store_relaxed(&buf->data, from->data);
    hearth__store_relaxed(&buf->weight, from->weight);
    buf->storage = from->storage;
    buf->offset = from->offset;
    buf->size_class = from->size_class;
    buf->alignment_log = from->alignment_log;
    buf->flags = from->flags;
    /* The word exists since the storage was attached, so this cannot fail. */
    (void)hearth__payload_set(from->data, buf->index);
}

void hearth__buf_swap_storage(struct hearth_buf *a, struct hearth_buf *b)
{
    struct attachment of_a = attachment_of(a);
    struct attachment of_b = attachment_of(b);
    attachment_set(a, &of_b);
    attachment_set(b, &of_a);
}

void hearth__buf_move_storage(struct hearth_buf *from, struct hearth_buf *to)
{
    struct attachment of_from = attachment_of(from);
    attachment_set(to, &of_from);
    hearth__store_relaxed(&from->data, NULL);
    from->storage = (struct hearth__storage){0};
    hearth__store_relaxed(&from->weight, 0);
    hearth__store_relaxed(&from->size, 0);
    from->flags = 0;
}

enum hearth_status hearth__buf_not_live(uint64_t word)
{
    return hearth__word_state(word) == HEARTH__LEASED ? HEARTH_LEASED : HEARTH_STALE;
}

/* The three below are read on every hand-out and so do not look their argument up. */

HEARTH__HOT void *hearth_buf_data(const struct hearth_buf *buf)
{
    return buf == NULL ? NULL : hearth__load_relaxed(&buf->data);
}

size_t hearth_buf_size(const struct hearth_buf *buf)
{
    return buf == NULL ? 0 : hearth__load_relaxed(&buf->size);
}

size_t hearth_buf_capacity(const struct hearth_buf *buf)
{
    return buf == NULL ? 0 : hearth__buf_capacity(buf);
}

struct hearth_allocator *hearth_buf_owner(const struct hearth_buf *buf)
{
    struct hearth__segment *segment = hearth__segment_of(buf);
    return segment == NULL ? NULL : hearth__load_relaxed(&segment->arena);
}

uint64_t hearth_buf_generation(const struct hearth_buf *buf)
{
    return hearth__segment_of(buf) == NULL
               ? 0
               : hearth__word_generation(hearth__load_relaxed(&buf->state));
}

enum hearth_status hearth_buf_of(const void *data, struct hearth_buf **buf)
{
    if (buf == NULL)
        return HEARTH_INVALID;
    struct hearth_buf *found = hearth__payload_find(data);
    if (found == NULL)
        return HEARTH_FOREIGN;
    enum hearth__state state = hearth__word_state(hearth__load_acquire(&found->state));
    if (state != HEARTH__LIVE && state != HEARTH__LEASED)
        return HEARTH_STALE;
    *buf = found;
    return HEARTH_OK;
}
