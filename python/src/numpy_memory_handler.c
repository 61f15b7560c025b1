/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's data allocator on a service's I/O arena.
 *
 * Whose block is it? Blocks below a threshold, and what the service cannot serve once it is closed,
 * come from NumPy's own functions. A block that comes back is told apart by its address alone: NumPy
 * tells sizes that are wrong (an array of shape (0, 8) was asked for as 8 bytes and is freed as 1).
 *
 * Lifetime. NumPy keeps the capsule of an array's handler until the array's block is freed. C code
 * that keeps the bare table would not, so each live block holds the handler as well. The capsule
 * counts for 2^62 blocks: a block that is wrongly freed through another handler of the same service
 * moves that one's count by one, and can at worst keep a handler for ever, never end it too early.
 * The handler references the service, so a block can be given back when the service was closed and
 * when its Python object is gone.
 *
 * Zeros. A warm block that shall read as zero is written to, which for large ones that nobody touches
 * afterwards is a waste: lazy zeros get storage whose pages were given back to the kernel. They ask for
 * an alignment of their own, which keeps them in free lists of their own: taking a block that
 * np.empty() would find warm would throw its pages away.
 */
#include "numpy_memory.h"

#include <hearth/allocator.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

/* Keeps lazy zeros in lists of their own. */
#define ZERO_LAZY_ALIGNMENT ((size_t)4096)

#define CAPSULE ((int64_t)1 << 62)

/* In place a block may become this much smaller than its storage; below that it moves. */
#define SHRINK_RATIO 4u

struct hearthpy_numpy_handler {
    PyDataMem_Handler table;  /* first: its address is the handler's */
    PyDataMemAllocator plain; /* NumPy's own functions */
    struct hearth_service *service;
    struct hearth_io *io;
    struct hearth_allocator *allocator; /* the I/O arena's */
    struct hearthpy_numpy_policy policy;
    size_t machine_bytes; /* memory and swap of the machine */
    /* The capsule and the live blocks. Frees the handler at 0 or below, once the capsule is gone. */
    _Alignas(64) atomic_int_least64_t holders;
    /* Statistics only: relaxed. */
    atomic_uint_least64_t stats[HEARTHPY_NUMPY_STATS];
};

#define COUNT(self, name, by)                                                                      \
    ((void)atomic_fetch_add_explicit(&(self)->stats[HEARTHPY_NUMPY_##name], (uint64_t)(by),        \
                                     memory_order_relaxed))

static void end(struct hearthpy_numpy_handler *self)
{
    hearth_service_unref(self->service);
    free(self);
}

static void hold(struct hearthpy_numpy_handler *self)
{
    (void)atomic_fetch_add_explicit(&self->holders, 1, memory_order_relaxed);
}

static void let_go(struct hearthpy_numpy_handler *self, int64_t by)
{
    /* EDGE numpy.holders, publish: this thread's use of the handler. */
    /* EDGE numpy.holders, observe: everybody else's, before it ends. */
    int64_t left = atomic_fetch_sub_explicit(&self->holders, by, memory_order_acq_rel) - by;
    /* Below 0: blocks of other handlers were freed through this one. Only the capsule's end may end it. */
    if (left == 0 || (left < 0 && by == CAPSULE))
        end(self);
}

/* Whether the kernel would give so much. The service gives back what it retains before it refuses a request, which
 * is not worth it for one that no memory can satisfy, such as that of a shape gone wrong. */
static bool is_possible(struct hearthpy_numpy_handler *self, size_t size)
{
    if (size <= self->machine_bytes)
        return true;
    void *probe = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED)
        return false;
    (void)munmap(probe, size);
    return true;
}

/* Blocks of the service */

static enum hearth_status take(struct hearthpy_numpy_handler *self, size_t size, uint32_t zero,
                               struct hearth_buf **buf)
{
    struct hearth_request request = HEARTH_REQUEST_INIT;
    request.size = size;
    request.zero = zero;
    request.alignment = zero == HEARTH_ZERO_LAZY ? ZERO_LAZY_ALIGNMENT : 0;
    if (!is_possible(self, size))
        return HEARTH_NO_MEMORY;
    enum hearth_status status = hearth_io_alloc_ex(self->io, &request, buf);
    if (status != HEARTH_OK)
        return status;
    hold(self);
    COUNT(self, allocations, 1);
    COUNT(self, live_bytes, size);
    if (zero != 0)
        COUNT(self, zeroed, zero != HEARTH_ZERO_LAZY);
    if (zero == HEARTH_ZERO_LAZY)
        COUNT(self, zeroed_lazily, 1);
    return HEARTH_OK;
}

static void give_back(struct hearthpy_numpy_handler *self, struct hearth_buf *buf)
{
    struct hearth_allocator *owner = hearth_buf_owner(buf);
    size_t bytes = hearth_buf_size(buf);
    if (hearth_free(owner, buf) != HEARTH_OK) {
        COUNT(self, refused, 1);
    } else if (owner != self->allocator) {
        COUNT(self, foreign, 1);
    } else {
        COUNT(self, frees, 1);
        COUNT(self, live_bytes, 0 - (uint64_t)bytes);
        let_go(self, 1);
    }
}

/* Whether NumPy's own functions serve what the service answered so. What a limit of the service refuses, or the
 * kernel, is refused: the limit would mean nothing otherwise. */
static bool is_plain_matter(enum hearth_status status)
{
    return status != HEARTH_NO_MEMORY && status != HEARTH_OVERFLOW && status != HEARTH_TIMEOUT;
}

/* The block of the service that starts at `ptr`; NULL for NumPy's own, and with *returned for what was the
 * service's and is not live any more. */
static struct hearth_buf *find(const void *ptr, bool *returned)
{
    struct hearth_buf *buf = NULL;
    *returned = false;
    /* The C heap's blocks rarely are aligned like ours. */
    if ((uintptr_t)ptr % HEARTH_ALIGNMENT != 0)
        return NULL;
    enum hearth_status status = hearth_buf_of(ptr, &buf);
    *returned = status == HEARTH_STALE;
    return status == HEARTH_OK ? buf : NULL;
}

/* The table */

static void *handler_malloc(void *context, size_t size)
{
    struct hearthpy_numpy_handler *self = context;
    if (size < self->policy.threshold)
        return self->plain.malloc(self->plain.ctx, size);
    struct hearth_buf *buf = NULL;
    enum hearth_status status = take(self, size, 0, &buf);
    if (status == HEARTH_OK)
        return hearth_buf_data(buf);
    if (is_plain_matter(status)) {
        COUNT(self, fallbacks, 1);
        return self->plain.malloc(self->plain.ctx, size);
    }
    COUNT(self, failures, 1);
    return NULL;
}

static void *handler_calloc(void *context, size_t count, size_t each)
{
    struct hearthpy_numpy_handler *self = context;
    size_t size;
    if (__builtin_mul_overflow(count, each, &size)) {
        COUNT(self, failures, 1);
        return NULL;
    }
    if (size < self->policy.threshold)
        return self->plain.calloc(self->plain.ctx, count, each);
    struct hearth_buf *buf = NULL;
    enum hearth_status status =
        take(self, size, size >= self->policy.lazy_threshold ? HEARTH_ZERO_LAZY : HEARTH_ZERO_WRITE,
             &buf);
    if (status == HEARTH_OK)
        return hearth_buf_data(buf);
    if (is_plain_matter(status)) {
        COUNT(self, fallbacks, 1);
        return self->plain.calloc(self->plain.ctx, count, each);
    }
    COUNT(self, failures, 1);
    return NULL;
}

static void handler_free(void *context, void *ptr, size_t size)
{
    struct hearthpy_numpy_handler *self = context;
    bool returned;
    if (ptr == NULL)
        return;
    struct hearth_buf *buf = find(ptr, &returned);
    if (buf != NULL) {
        if (hearth_buf_size(buf) != size)
            COUNT(self, wrong_sizes, 1);
        give_back(self, buf);
    } else if (returned) {
        COUNT(self, refused, 1);
    } else {
        self->plain.free(self->plain.ctx, ptr, size);
    }
}

/* One of the service's blocks to one of NumPy's own, of which the first `keep` bytes stay. */
static void *move_to_plain(struct hearthpy_numpy_handler *self, struct hearth_buf *buf, size_t size,
                           size_t keep)
{
    void *to = self->plain.malloc(self->plain.ctx, size);
    if (to == NULL) {
        COUNT(self, failures, 1);
        return NULL;
    }
    memcpy(to, hearth_buf_data(buf), keep);
    give_back(self, buf);
    COUNT(self, moved, 1);
    return to;
}

/* One of NumPy's own blocks to one of the service. Its size is not told, but it is below the threshold, or it
 * would have been one of the service; so as many bytes as that are copied, of which it is made to have enough. Blocks
 * that the service should have served and did not may be larger: then all stay where they are. */
static void *move_from_plain(struct hearthpy_numpy_handler *self, void *ptr, size_t size)
{
    size_t keep = self->policy.threshold;
    struct hearth_buf *buf = NULL;
    if (atomic_load_explicit(&self->stats[HEARTHPY_NUMPY_fallbacks], memory_order_relaxed) != 0)
        return self->plain.realloc(self->plain.ctx, ptr, size);
    enum hearth_status status = take(self, size, 0, &buf);
    if (status != HEARTH_OK && is_plain_matter(status)) {
        COUNT(self, fallbacks, 1);
        return self->plain.realloc(self->plain.ctx, ptr, size);
    }
    void *from = status != HEARTH_OK ? NULL : self->plain.realloc(self->plain.ctx, ptr, keep);
    if (from == NULL) {
        if (status == HEARTH_OK)
            give_back(self, buf);
        COUNT(self, failures, 1);
        return NULL;
    }
    memcpy(hearth_buf_data(buf), from, keep);
    self->plain.free(self->plain.ctx, from, keep);
    COUNT(self, moved, 1);
    return hearth_buf_data(buf);
}

/* A much smaller block of the service, so that the storage of the large one serves others. false: it stays. */
static bool shrink(struct hearthpy_numpy_handler *self, struct hearth_buf *buf, size_t size,
                   void **at)
{
    struct hearth_buf *to = NULL;
    if (take(self, size, 0, &to) != HEARTH_OK)
        return false;
    *at = hearth_buf_data(to);
    /* It may be larger than the content: what is large is the storage. */
    size_t old = hearth_buf_size(buf);
    memcpy(*at, hearth_buf_data(buf), old < size ? old : size);
    COUNT(self, moved, 1);
    give_back(self, buf);
    return true;
}

static void *resize(struct hearthpy_numpy_handler *self, struct hearth_buf *buf, size_t size)
{
    size_t old = hearth_buf_size(buf);
    void *before = hearth_buf_data(buf);
    bool ours = hearth_buf_owner(buf) == self->allocator;
    void *at = NULL;
    if (ours && size < hearth_buf_capacity(buf) / SHRINK_RATIO && shrink(self, buf, size, &at))
        return at;
    enum hearth_status status = hearth_buf_resize_keep(buf, size);
    if (status == HEARTH_CLOSED || status == HEARTH_NO_SLOT) {
        COUNT(self, fallbacks, 1);
        return move_to_plain(self, buf, size, old < size ? old : size);
    }
    if (status != HEARTH_OK) {
        COUNT(self, failures, 1);
        return NULL;
    }
    if (!ours)
        COUNT(self, foreign, 1);
    else
        COUNT(self, live_bytes, (uint64_t)size - old);
    void *after = hearth_buf_data(buf);
    COUNT(self, resized, after == before);
    COUNT(self, moved, after != before);
    return after;
}

static void *handler_realloc(void *context, void *ptr, size_t size)
{
    struct hearthpy_numpy_handler *self = context;
    bool returned;
    if (ptr == NULL)
        return handler_malloc(context, size);
    struct hearth_buf *buf = find(ptr, &returned);
    if (returned) {
        COUNT(self, refused, 1);
        return NULL;
    }
    if (buf == NULL)
        return size < self->policy.threshold ? self->plain.realloc(self->plain.ctx, ptr, size)
                                             : move_from_plain(self, ptr, size);
    if (size >= self->policy.threshold)
        return resize(self, buf, size);
    size_t old = hearth_buf_size(buf);
    return move_to_plain(self, buf, size, old < size ? old : size);
}

/* Handlers */

static size_t machine_bytes(void)
{
    struct sysinfo info;
    if (sysinfo(&info) != 0)
        return SIZE_MAX;
    return (info.totalram + info.totalswap) * info.mem_unit;
}

struct hearthpy_numpy_handler *
hearthpy_numpy_handler_new(struct hearth_service *service, const PyDataMem_Handler *plain,
                           const struct hearthpy_numpy_policy *policy)
{
    struct hearthpy_numpy_handler *self = aligned_alloc(64, sizeof *self);
    if (self == NULL)
        return NULL;
    memset(self, 0, sizeof *self);
    static const char name[] = "hearth";
    memcpy(self->table.name, name, sizeof name);
    self->table.version = 1;
    self->table.allocator = (PyDataMemAllocator){
        .ctx = self,
        .malloc = handler_malloc,
        .calloc = handler_calloc,
        .realloc = handler_realloc,
        .free = handler_free,
    };
    self->plain = plain->allocator;
    hearth_service_ref(service);
    self->service = service;
    self->io = hearth_service_io(service);
    self->allocator = hearth_io_allocator(self->io);
    self->policy = *policy;
    self->machine_bytes = machine_bytes();
    atomic_init(&self->holders, CAPSULE);
    return self;
}

void hearthpy_numpy_handler_drop(struct hearthpy_numpy_handler *handler)
{
    let_go(handler, CAPSULE);
}

PyDataMem_Handler *hearthpy_numpy_handler_table(struct hearthpy_numpy_handler *handler)
{
    return &handler->table;
}

struct hearthpy_numpy_handler *hearthpy_numpy_handler_of(PyDataMem_Handler *table)
{
    return table->allocator.ctx;
}

void hearthpy_numpy_handler_stats(struct hearthpy_numpy_handler *handler,
                                  uint64_t stats[HEARTHPY_NUMPY_STATS])
{
    /* Frees first: what they freed is then among the allocations, and the difference never negative. */
    uint64_t freed =
        atomic_load_explicit(&handler->stats[HEARTHPY_NUMPY_frees], memory_order_acquire);
    for (size_t i = 0; i < HEARTHPY_NUMPY_STATS; i++)
        stats[i] = atomic_load_explicit(&handler->stats[i], memory_order_relaxed);
    stats[HEARTHPY_NUMPY_frees] = freed;
    stats[HEARTHPY_NUMPY_live_count] = stats[HEARTHPY_NUMPY_allocations] - freed;
}
