/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a consumer in native code does to leases: deletes DLPack tensors on threads that Python does not know, with the
 * GIL held or not, and after the interpreter is gone. And an observer that outlives the interpreter: at exit it prints
 * one line with what became of the buffers it was told to watch.
 *
 * Only three calls of the library are used, so they are declared here: the tests also run against installed packages.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hearth_buf;
enum hearth_status { HEARTH_OK };
enum hearth_status hearth_buf_of(const void *data, struct hearth_buf **buf);
uint64_t hearth_buf_generation(const struct hearth_buf *buf);
uint64_t hearth_misuse_count(void);

struct dl_tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct managed *);
};

struct managed_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct managed_versioned *);
    uint64_t flags;
    struct dl_tensor tensor;
};

#define WATCHED_MAX 256
#define HELD_MAX 64

static struct {
    struct hearth_buf *buf;
    uint64_t generation;
} watched[WATCHED_MAX];
static struct {
    void *tensor;
    int versioned, byte;
} held[HELD_MAX];
static int watched_count, held_count, spoilt, quiet;
static _Atomic int deletions, tensors;

static void delete_tensor(void *tensor, int versioned)
{
    if (versioned) {
        struct managed_versioned *managed = tensor;
        if (managed->deleter != NULL)
            managed->deleter(managed);
    } else {
        struct managed *managed = tensor;
        if (managed->deleter != NULL)
            managed->deleter(managed);
    }
}

/* Every byte still has the value it had when the tensor was put here. */
static int intact(void *tensor, int versioned, int byte)
{
    struct dl_tensor *view = versioned ? &((struct managed_versioned *)tensor)->tensor
                                       : &((struct managed *)tensor)->tensor;
    size_t bytes = view->bits / 8U;
    for (int i = 0; i < view->ndim; i++)
        bytes *= (size_t)view->shape[i];
    for (size_t i = 0; i < bytes; i++)
        if (((unsigned char *)view->data)[view->byte_offset + i] != byte)
            return 0;
    return 1;
}

/* At exit */

static void *delete_held(void *unused)
{
    (void)unused;
    for (int i = 0; i < held_count; i++) {
        spoilt += !intact(held[i].tensor, held[i].versioned, held[i].byte);
        delete_tensor(held[i].tensor, held[i].versioned);
    }
    return NULL;
}

static void report(void)
{
    pthread_t thread;
    int out = 0;
    if (quiet)
        return;
    if (pthread_create(&thread, NULL, delete_held, NULL) == 0)
        (void)pthread_join(thread, NULL);
    for (int i = 0; i < watched_count; i++)
        out += hearth_buf_generation(watched[i].buf) == watched[i].generation;
    fflush(stdout);
    dprintf(STDOUT_FILENO,
            "observed: watched=%d out=%d misuses=%d tensors=%d deletions=%d late=%d spoilt=%d\n",
            watched_count, out, (int)hearth_misuse_count(), tensors, deletions, held_count, spoilt);
}

__attribute__((constructor)) static void begin(void)
{
    (void)atexit(report);
}

/* In a forked child: say nothing at its exit. */
void native_quiet(void)
{
    quiet = 1;
}

/* Say at exit whether the buffer that starts here was returned. */
int native_watch(void *data)
{
    struct hearth_buf *buf = NULL;
    if (watched_count == WATCHED_MAX || hearth_buf_of(data, &buf) != HEARTH_OK)
        return -1;
    watched[watched_count].buf = buf;
    watched[watched_count++].generation = hearth_buf_generation(buf);
    return 0;
}

/* Keep a consumed tensor, all bytes of which have this value, until after the interpreter's end. */
int native_hold(void *tensor, int versioned, int byte)
{
    if (held_count == HELD_MAX)
        return -1;
    held[held_count].tensor = tensor;
    held[held_count].byte = byte;
    held[held_count++].versioned = versioned;
    return 0;
}

/* Deletions on threads of our own */

struct batch {
    void **tensors;
    size_t count;
    int versioned;
};

static void *delete_batch(void *argument)
{
    struct batch *batch = argument;
    for (size_t i = 0; i < batch->count; i++)
        delete_tensor(batch->tensors[i], batch->versioned);
    return NULL;
}

/* Delete on so many threads at the same time; waits for them. */
int native_delete_many(void **array, size_t count, int versioned, int threads)
{
    pthread_t ids[16];
    struct batch batches[16];
    int started = 0;
    if (threads < 1 || threads > 16)
        return -1;
    for (int i = 0; i < threads; i++) {
        size_t from = count * (size_t)i / (size_t)threads;
        size_t to = count * (size_t)(i + 1) / (size_t)threads;
        batches[i] = (struct batch){array + from, to - from, versioned};
        if (pthread_create(&ids[i], NULL, delete_batch, &batches[i]) != 0)
            break;
        started++;
    }
    for (int i = 0; i < started; i++)
        (void)pthread_join(ids[i], NULL);
    return started == threads ? 0 : -1;
}

int native_delete_on_thread(void *tensor, int versioned)
{
    return native_delete_many(&tensor, 1, versioned, 1);
}

/* A producer of tensors whose deletions are counted */

struct product {
    union {
        struct managed plain;
        struct managed_versioned versioned;
    } u;
    int64_t shape[2], strides[2];
    _Alignas(64) unsigned char bytes[];
};

static void delete_product(void *product)
{
    memset(((struct product *)product)->bytes, 0xdd, 1);
    deletions++;
    free(product);
}

static void delete_plain(struct managed *managed)
{
    delete_product(managed->context);
}

static void delete_versioned(struct managed_versioned *managed)
{
    delete_product(managed->context);
}

/*
 * A tensor of `count` bytes with the values 0, 1, 2..., of one dimension. `kind`: bit 0 versioned, bit 1 without a
 * deleter (it leaks), bit 2 of strange type (4 lanes), bit 3 on another device, bit 4 without strides, bit 5 of a
 * future major version.
 */
void *native_tensor(int kind, uint64_t flags, int64_t count, uint64_t byte_offset)
{
    size_t bytes = (size_t)count + byte_offset;
    struct product *product = aligned_alloc(64, (sizeof *product + bytes + 63) & ~(size_t)63);
    struct dl_tensor *view;
    if (product == NULL)
        return NULL;
    memset(product, 0, sizeof *product);
    for (size_t i = 0; i < bytes; i++)
        product->bytes[i] = (unsigned char)(i - byte_offset);
    if (kind & 1) {
        product->u.versioned.major = kind & 32 ? 7 : 1;
        product->u.versioned.context = product;
        product->u.versioned.deleter = kind & 2 ? NULL : delete_versioned;
        product->u.versioned.flags = flags;
        view = &product->u.versioned.tensor;
    } else {
        product->u.plain.context = product;
        product->u.plain.deleter = kind & 2 ? NULL : delete_plain;
        view = &product->u.plain.tensor;
    }
    product->shape[0] = count;
    product->strides[0] = 1;
    *view = (struct dl_tensor){.data = product->bytes,
                               .device_type = kind & 8 ? 2 : 1,
                               .ndim = 1,
                               .code = 1,
                               .bits = 8,
                               .lanes = kind & 4 ? 4 : 1,
                               .shape = product->shape,
                               .strides = kind & 16 ? NULL : product->strides,
                               .byte_offset = byte_offset};
    tensors++;
    return product;
}

int native_deletions(void)
{
    return deletions;
}
