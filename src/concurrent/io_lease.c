/* SPDX-License-Identifier: Apache-2.0 */
/* I/O arena: export, and what can be asked of a lease and done with it. */
#include "concurrent/io.h"

#include "core/misuse.h"
#include "core/perturb.h"

static enum hearth_status stale(const char *call, const struct hearth_buf *buf)
{
    return hearth__misuse(HEARTH_STALE, call, NULL, buf);
}

/* Inside: a live buffer's counts go over to its lease. The lease is counted before the bare buffer is
 * counted in, so that a reader misses neither. */
static void count_export(struct hearth_io *arena, const struct hearth_buf *buf)
{
    struct hearth__io_access access;
    hearth__weight weight = hearth__load_relaxed(&buf->weight);
    size_t size = hearth__load_relaxed(&buf->size);
    hearth__io_enter(arena, &access);
    HEARTH__IO_COUNT(&access, lease_out_weight, weight);
    HEARTH__IO_COUNT(&access, lease_out_size, size);
    HEARTH__IO_COUNT(&access, bare_in_size, size);
    HEARTH__IO_COUNT(&access, bare_in_weight, weight);
    HEARTH__IO_COUNT(&access, exports, 1);
    hearth__io_leave(&access);
}

static bool count_export_plain(struct hearth_io *arena, const struct hearth_buf *buf)
{
    struct hearth__io_cache *cache = hearth__io_thread.current;
    uint64_t token = hearth__thread_token_peek();
    if (hearth__unlikely(cache == NULL || !hearth__section_enter_plain(&cache->section, token)))
        return false;
    if (hearth__unlikely(cache->arena != arena)) {
        hearth__section_leave(&cache->section, token);
        return false;
    }
    hearth__weight weight = hearth__load_relaxed(&buf->weight);
    size_t size = hearth__load_relaxed(&buf->size);
    hearth__cell_add(&cache->cells.lease_out_weight, weight);
    hearth__cell_add(&cache->cells.lease_out_size, size);
    hearth__cell_add(&cache->cells.bare_in_size, size);
    hearth__cell_add(&cache->cells.bare_in_weight, weight);
    hearth__cell_add(&cache->cells.exports, 1);
    hearth__section_leave(&cache->section, token);
    return true;
}

/* `generation` 0: whatever it is now. */
static enum hearth_status export_buf(struct hearth_io *arena, struct hearth_buf *buf,
                                     uint64_t generation, const char *call,
                                     struct hearth_lease *lease)
{
    if (hearth__unlikely(!hearth__slot_in(buf, &arena->allocator)))
        return hearth__io_misuse(arena, HEARTH_FOREIGN, call, buf);
    uint64_t word = hearth__load_relaxed(&buf->state);
    do {
        uint64_t present = hearth__word_generation(word);
        if (hearth__word_state(word) != HEARTH__LIVE ||
            (generation != 0 && generation != present)) {
            bool live = hearth__word_state(word) == HEARTH__LIVE;
            return hearth__io_misuse(arena, live ? HEARTH_STALE : hearth__buf_not_live(word), call,
                                     buf);
        }
        HEARTH__PERTURB("word.export");
        /* Relaxed: the payload goes to others with the lease, by the caller's own synchronization. */
    } while (!hearth__cas_weak_relaxed(&buf->state, &word,
                                       hearth__word_leased(hearth__word_generation(word))));
    *lease = (struct hearth_lease){buf, hearth__word_generation(word)};
    if (!count_export_plain(arena, buf))
        count_export(arena, buf);
    return HEARTH_OK;
}

HEARTH__HOT enum hearth_status hearth_io_export(struct hearth_io *arena, struct hearth_buf *buf,
                                                struct hearth_lease *lease)
{
    static const char call[] = "hearth_io_export";
    if (hearth__unlikely(arena == NULL || lease == NULL))
        return hearth__io_misuse(arena, HEARTH_INVALID, call, buf);
    return export_buf(arena, buf, 0, call, lease);
}

/* A handle around a reference that the caller has. */
static struct hearth_handle handle_of(struct hearth_io *arena, struct hearth_lease lease)
{
    return (struct hearth_handle){
        .allocator = &arena->allocator,
        .buf = lease.buf,
        .generation = lease.generation,
        .size = hearth__load_relaxed(&lease.buf->size),
        .kind = HEARTH_HANDLE_LEASE,
    };
}

enum hearth_status hearth_io_export_handle(struct hearth_io *arena, struct hearth_buf *buf,
                                           struct hearth_handle *handle)
{
    static const char call[] = "hearth_io_export_handle";
    struct hearth_lease lease;
    if (arena == NULL || handle == NULL)
        return hearth__io_misuse(arena, HEARTH_INVALID, call, buf);
    if (handle->kind != HEARTH_HANDLE_EMPTY)
        return hearth__io_misuse(arena, HEARTH_BUSY, call, buf);
    enum hearth_status status = export_buf(arena, buf, 0, call, &lease);
    if (status == HEARTH_OK)
        *handle = handle_of(arena, lease);
    return status;
}

enum hearth_status hearth_io_export_held(struct hearth_io *arena, struct hearth_handle *handle)
{
    static const char call[] = "hearth_io_export_held";
    struct hearth_lease lease;
    if (arena == NULL || handle == NULL || handle->kind != HEARTH_HANDLE_BUF)
        return hearth__io_misuse(arena, HEARTH_INVALID, call, NULL);
    enum hearth_status status = export_buf(arena, handle->buf, handle->generation, call, &lease);
    if (status == HEARTH_OK)
        *handle = handle_of(arena, lease);
    return status;
}

/* Whether this is a slot of an I/O arena; a slot of the one that the thread uses needs no table. */
static inline bool is_slot(const struct hearth_buf *buf)
{
    const struct hearth__io_cache *cache = hearth__io_thread.current;
    return hearth__likely(cache != NULL && hearth__slot_in(buf, &cache->arena->allocator)) ||
           hearth__io_segment_of(buf) != NULL;
}

/* Take references. Of a valid lease only: the caller's own reference keeps it so. */
HEARTH__HOT static enum hearth_status retain(struct hearth_lease lease, const char *call)
{
    if (hearth__unlikely(!is_slot(lease.buf)))
        return hearth__misuse(HEARTH_FOREIGN, call, NULL, lease.buf);
    uint64_t word = hearth__load_relaxed(&lease.buf->state);
    do {
        if (hearth__unlikely(hearth__word_generation(word) != lease.generation ||
                             hearth__word_state(word) != HEARTH__LEASED))
            return stale(call, lease.buf);
        if (hearth__unlikely(hearth__word_count(word) == HEARTH__COUNT_MAX))
            return HEARTH_OVERFLOW;
        HEARTH__PERTURB("word.retain");
        /* Relaxed: the new reference is made from one that the caller has. */
    } while (!hearth__cas_weak_relaxed(&lease.buf->state, &word, word + 1));
    return HEARTH_OK;
}

HEARTH__HOT enum hearth_status hearth_lease_retain(struct hearth_lease lease)
{
    return retain(lease, "hearth_lease_retain");
}

enum hearth_status hearth_lease_view(struct hearth_lease lease, size_t offset, size_t size,
                                     struct hearth_view *view)
{
    static const char call[] = "hearth_lease_view";
    if (view == NULL)
        return hearth__misuse(HEARTH_INVALID, call, NULL, lease.buf);
    enum hearth_status status = retain(lease, call);
    if (status != HEARTH_OK)
        return status;
    /* The reference is held: what is read now belongs to the lease. */
    size_t whole = hearth__load_relaxed(&lease.buf->size);
    if (offset > whole || size > whole - offset) {
        (void)hearth__io_release(lease, call);
        return hearth__misuse_detail(HEARTH_INVALID, call, NULL, lease.buf,
                                     "the range is not inside of the lease's size");
    }
    *view = (struct hearth_view){
        .lease = lease,
        .data = (char *)hearth__load_relaxed(&lease.buf->data) + offset,
        .size = size,
    };
    return HEARTH_OK;
}

void hearth_lease_deleter(void *data)
{
    static const char call[] = "hearth_lease_deleter";
    if (data == NULL)
        return;
    struct hearth_buf *buf = hearth__payload_find(data);
    if (buf == NULL || hearth__io_segment_of(buf) == NULL) {
        (void)hearth__misuse(HEARTH_FOREIGN, call, NULL, data);
        return;
    }
    uint64_t word = hearth__load_acquire(&buf->state);
    if (hearth__word_state(word) != HEARTH__LEASED) {
        (void)stale(call, buf);
        return;
    }
    (void)hearth__io_release((struct hearth_lease){buf, hearth__word_generation(word)}, call);
}

static bool held(struct hearth_lease lease)
{
    if (hearth__io_segment_of(lease.buf) == NULL)
        return false;
    uint64_t word = hearth__load_acquire(&lease.buf->state);
    return hearth__word_generation(word) == lease.generation &&
           hearth__word_state(word) == HEARTH__LEASED;
}

bool hearth_lease_valid(struct hearth_lease lease)
{
    return held(lease);
}

struct hearth_buf *hearth_lease_buf(struct hearth_lease lease)
{
    return held(lease) ? lease.buf : NULL;
}

void *hearth_lease_data(struct hearth_lease lease)
{
    return held(lease) ? hearth__load_relaxed(&lease.buf->data) : NULL;
}

size_t hearth_lease_size(struct hearth_lease lease)
{
    return held(lease) ? hearth__load_relaxed(&lease.buf->size) : 0;
}

enum hearth_status hearth_handle_from_lease(struct hearth_lease lease, struct hearth_handle *handle)
{
    static const char call[] = "hearth_handle_from_lease";
    if (handle == NULL)
        return hearth__misuse(HEARTH_INVALID, call, NULL, lease.buf);
    if (handle->kind != HEARTH_HANDLE_EMPTY)
        return hearth__misuse(HEARTH_BUSY, call, NULL, lease.buf);
    struct hearth__segment *segment = hearth__io_segment_of(lease.buf);
    if (segment == NULL)
        return hearth__misuse(HEARTH_FOREIGN, call, NULL, lease.buf);
    if (!held(lease))
        return stale(call, lease.buf);
    *handle = handle_of(hearth__io_of(hearth__load_relaxed(&segment->arena)), lease);
    return HEARTH_OK;
}

enum hearth_status hearth_handle_release_lease(struct hearth_handle *handle,
                                               struct hearth_lease *lease)
{
    if (handle == NULL || lease == NULL || handle->kind != HEARTH_HANDLE_LEASE)
        return hearth__misuse(HEARTH_INVALID, "hearth_handle_release_lease", NULL, NULL);
    *lease = (struct hearth_lease){handle->buf, handle->generation};
    *handle = (struct hearth_handle)HEARTH_HANDLE_INIT;
    return HEARTH_OK;
}
