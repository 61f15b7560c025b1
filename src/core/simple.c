/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simple allocator: a fixed number of reusable slots and no retained storage. The reference's
 * baseline, and the smallest example of what an allocator has to do.
 *
 * One thread at a time; nothing is atomic but what the address tables read.
 */
#include "core/atomic.h"
#include "core/backing.h"
#include "core/meta.h"
#include "core/misuse.h"
#include "core/request.h"
#include "core/size_class.h"
#include "core/slots.h"
#include "core/zero.h"

#include <hearth/allocator.h>

#include <string.h>

struct hearth_simple {
    struct hearth_allocator allocator; /* first: a simple allocator is an allocator */
    struct hearth_backing *backing;
    struct hearth__slots slots;
    size_t live_count;
    size_t live_bytes;
    size_t peak_bytes;
};

static_assert(sizeof(struct hearth_simple) <= HEARTH__CORE_BYTES - HEARTH__CORE_OFFSET,
              "a core fits the start of its segment");

static struct hearth_simple *simple_of(struct hearth_allocator *allocator)
{
    return (struct hearth_simple *)(void *)allocator;
}

static enum hearth_status take_slot(struct hearth_simple *simple, struct hearth_buf **slot)
{
    bool grow;
    while ((*slot = hearth__slots_take(&simple->slots, &grow)) == NULL) {
        if (!grow)
            return HEARTH_NO_SLOT;
        struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SLOTS);
        if (segment == NULL)
            return HEARTH_NO_MEMORY;
        hearth__slots_add(&simple->slots, segment, &simple->allocator);
    }
    return HEARTH_OK;
}

/* Storage of at least `bytes` into a slot (or a stand-in for one) that has none. */
static enum hearth_status fill(struct hearth_simple *simple, struct hearth_buf *slot, size_t bytes,
                               unsigned alignment_log)
{
    struct hearth_segment segment;
    enum hearth_status status =
        hearth__backing_acquire(simple->backing, bytes, (size_t)1 << alignment_log, &segment);
    if (status != HEARTH_OK)
        return status;
    status = hearth__buf_attach(slot, &segment, alignment_log);
    if (status != HEARTH_OK)
        hearth__backing_release(simple->backing, &segment);
    return status;
}

static void empty(struct hearth_simple *simple, struct hearth_buf *slot)
{
    struct hearth_segment segment;
    hearth__buf_detach(slot, &segment);
    hearth__backing_release(simple->backing, &segment);
}

static void count_size(struct hearth_simple *simple, struct hearth_buf *buf, size_t size)
{
    simple->live_bytes += size - hearth__load_relaxed(&buf->size);
    hearth__store_relaxed(&buf->size, size);
    if (simple->live_bytes > simple->peak_bytes)
        simple->peak_bytes = simple->live_bytes;
}

static enum hearth_status simple_alloc(struct hearth_allocator *self,
                                       const struct hearth_request *request,
                                       struct hearth_buf **buf)
{
    struct hearth_simple *simple = simple_of(self);
    unsigned alignment_log;
    if (!hearth__request_alignment(request, &alignment_log))
        return hearth__misuse(HEARTH_INVALID, "hearth_alloc", self, NULL);
    if (request->size > HEARTH__CLASS_SIZE_MAX)
        return HEARTH_OVERFLOW;
    struct hearth_buf *slot;
    enum hearth_status status = take_slot(simple, &slot);
    if (status != HEARTH_OK)
        return status;
    status = fill(simple, slot, request->size == 0 ? 1 : request->size, alignment_log);
    if (status != HEARTH_OK) {
        hearth__slots_put(&simple->slots, slot);
        return status;
    }
    hearth__zero(simple->backing, hearth__load_relaxed(&slot->data), request->size, request->zero,
                 (slot->flags & HEARTH__BUF_ZERO) != 0);
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&slot->state));
    hearth__store_relaxed(&slot->state, hearth__word(generation, HEARTH__LIVE));
    simple->live_count++;
    count_size(simple, slot, request->size);
    *buf = slot;
    return HEARTH_OK;
}

static enum hearth_status check_live(struct hearth_allocator *self, struct hearth_buf *buf,
                                     uint64_t generation, const char *call)
{
    if (!hearth__slot_in(buf, self))
        return hearth__misuse(HEARTH_FOREIGN, call, self, buf);
    uint64_t word = hearth__load_relaxed(&buf->state);
    if (hearth__word_state(word) != HEARTH__LIVE ||
        (generation != 0 && hearth__word_generation(word) != generation))
        return hearth__misuse(HEARTH_STALE, call, self, buf);
    return HEARTH_OK;
}

static enum hearth_status free_checked(struct hearth_allocator *self, struct hearth_buf *buf,
                                       uint64_t generation, const char *call)
{
    struct hearth_simple *simple = simple_of(self);
    enum hearth_status status = check_live(self, buf, generation, call);
    if (status != HEARTH_OK)
        return status;
    simple->live_count--;
    simple->live_bytes -= hearth__load_relaxed(&buf->size);
    empty(simple, buf);
    uint64_t present = hearth__word_generation(hearth__load_relaxed(&buf->state));
    if (present != HEARTH__GENERATION_MAX)
        hearth__store_relaxed(&buf->state, hearth__word(present + 1, HEARTH__UNUSED));
    hearth__slots_put(&simple->slots, buf);
    return HEARTH_OK;
}

static enum hearth_status simple_free(struct hearth_allocator *self, struct hearth_buf *buf)
{
    return free_checked(self, buf, 0, "hearth_free");
}

static enum hearth_status simple_free_exact(struct hearth_allocator *self, struct hearth_buf *buf,
                                            uint64_t generation)
{
    return free_checked(self, buf, generation, "hearth_handle_reset");
}

static enum hearth_status simple_resize(struct hearth_allocator *self, struct hearth_buf *buf,
                                        size_t size, bool keep)
{
    struct hearth_simple *simple = simple_of(self);
    enum hearth_status status = check_live(self, buf, 0, "hearth_buf_resize");
    if (status != HEARTH_OK)
        return status;
    if (size > HEARTH__CLASS_SIZE_MAX)
        return HEARTH_OVERFLOW;
    if (size > hearth__buf_capacity(buf)) {
        struct hearth_buf stand_in = {.index = buf->index};
        status = fill(simple, &stand_in, size, buf->alignment_log);
        if (status != HEARTH_OK)
            return status;
        if (keep)
            memcpy(hearth__load_relaxed(&stand_in.data), hearth__load_relaxed(&buf->data),
                   hearth__load_relaxed(&buf->size));
        hearth__buf_swap_storage(buf, &stand_in);
        empty(simple, &stand_in);
    }
    count_size(simple, buf, size);
    return HEARTH_OK;
}

static size_t simple_live_bytes(const struct hearth_allocator *self)
{
    return ((const struct hearth_simple *)(const void *)self)->live_bytes;
}

static size_t simple_peak_bytes(const struct hearth_allocator *self)
{
    return ((const struct hearth_simple *)(const void *)self)->peak_bytes;
}

static enum hearth_status simple_reset_peak(struct hearth_allocator *self)
{
    simple_of(self)->peak_bytes = simple_of(self)->live_bytes;
    return HEARTH_OK;
}

static const struct hearth_allocator_ops simple_ops = {
    .size = sizeof simple_ops,
    .kind = "simple",
    .alloc = simple_alloc,
    .free = simple_free,
    .free_exact = simple_free_exact,
    .resize = simple_resize,
    .live_bytes = simple_live_bytes,
    .peak_bytes = simple_peak_bytes,
    .reset_peak = simple_reset_peak,
};

enum hearth_status hearth_simple_create_on(struct hearth_backing *backing, size_t slots,
                                           struct hearth_simple **simple)
{
    if (backing == NULL || slots == 0 || simple == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_simple_create", NULL, NULL);
    if (slots > HEARTH__SLOTS_MAX)
        return HEARTH_OVERFLOW;
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SIMPLE);
    if (segment == NULL)
        return HEARTH_NO_MEMORY;
    struct hearth_simple *made = hearth__segment_core(segment);
    *made = (struct hearth_simple){.allocator.ops = &simple_ops, .backing = backing};
    hearth__slots_init(&made->slots, segment, slots);
    hearth_backing_ref(backing);
    hearth__store_release(&segment->arena, &made->allocator);
    *simple = made;
    return HEARTH_OK;
}

enum hearth_status hearth_simple_create(size_t slots, struct hearth_simple **simple)
{
    struct hearth_backing *backing;
    enum hearth_status status = hearth_backing_default(&backing);
    return status == HEARTH_OK ? hearth_simple_create_on(backing, slots, simple) : status;
}

enum hearth_status hearth_simple_destroy(struct hearth_simple *simple)
{
    if (simple == NULL)
        return HEARTH_OK;
    if (simple->live_count != 0)
        return HEARTH_BUSY;
    hearth_backing_unref(simple->backing);
    hearth__slots_release(&simple->slots);
    return HEARTH_OK;
}

struct hearth_allocator *hearth_simple_allocator(struct hearth_simple *simple)
{
    return simple == NULL ? NULL : &simple->allocator;
}

size_t hearth_simple_slots(const struct hearth_simple *simple)
{
    return simple == NULL ? 0 : simple->slots.limit;
}

size_t hearth_simple_live_count(const struct hearth_simple *simple)
{
    return simple == NULL ? 0 : simple->live_count;
}
