/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct misuse_record misuse;

static enum hearth_status memory_acquire(void *context, size_t bytes, size_t alignment,
                                         struct hearth_segment *segment)
{
    struct memory *memory = context;
    enum hearth_status status = HEARTH_NO_MEMORY;
    pthread_mutex_lock(&memory->lock);
    memory->acquires++;
    if (bytes <= (memory->limit ? memory->limit : 1024 * MIB)) {
        void *base = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
        if (base) {
            memset(base, memory->zeroed ? 0 : 0xA5, bytes);
            *segment = (struct hearth_segment){
                .base = base, .length = bytes, .flags = memory->zeroed ? HEARTH_SEGMENT_ZERO : 0};
            memory->bytes += bytes;
            status = HEARTH_OK;
        }
    }
    pthread_mutex_unlock(&memory->lock);
    return status;
}

static void memory_release(void *context, const struct hearth_segment *segment)
{
    struct memory *memory = context;
    pthread_mutex_lock(&memory->lock);
    memory->released[memory->releases++ % MEMORY_LOG] = segment->length;
    memory->bytes -= segment->length;
    free(segment->base);
    pthread_mutex_unlock(&memory->lock);
}

static void memory_destroy(void *context)
{
    ((struct memory *)context)->destroyed = true;
}

static const struct hearth_backing_ops memory_ops = {
    .size = sizeof(struct hearth_backing_ops),
    .name = "test",
    .granule = 64,
    .acquire = memory_acquire,
    .release = memory_release,
    .destroy = memory_destroy,
};

void memory_init(struct memory *memory)
{
    *memory = (struct memory){.lock = PTHREAD_MUTEX_INITIALIZER};
    EXPECT(HEARTH_OK, hearth_backing_create(&memory_ops, memory, &memory->backing));
}

void memory_clear_log(struct memory *memory)
{
    memory->releases = 0;
    memory->acquires = 0;
    memset(memory->released, 0, sizeof memory->released);
}

void memory_fini(struct memory *memory)
{
    EXPECT_SIZE(0, memory->bytes);
    EXPECT_SIZE(0, hearth_backing_footprint(memory->backing));
    hearth_backing_unref(memory->backing);
    cr_assert(memory->destroyed, "an arena kept a reference to its backing");
    pthread_mutex_destroy(&memory->lock);
}

struct hearth_exec *arena_create(struct memory *memory, size_t slots, size_t cap, uint32_t ratio)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.slots = slots;
    options.retention_cap = cap;
    options.reuse_ratio = ratio;
    options.backing = memory ? memory->backing : NULL;
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    cr_assert_not_null(arena);
    return arena;
}

struct hearth_buf *take(struct hearth_exec *arena, size_t size)
{
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_exec_alloc(arena, size, &buf));
    cr_assert_not_null(buf);
    EXPECT_SIZE(size, hearth_buf_size(buf));
    cr_assert_geq(hearth_buf_capacity(buf), size);
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % HEARTH_ALIGNMENT, 0u);
    return buf;
}

struct hearth_buf *take_aligned(struct hearth_exec *arena, size_t size, size_t alignment)
{
    struct hearth_request request = {.size = size, .alignment = alignment};
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_exec_alloc_ex(arena, &request, &buf));
    cr_assert_not_null(buf);
    EXPECT_SIZE(size, hearth_buf_size(buf));
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % (alignment ? alignment : 1), 0u);
    return buf;
}

void give(struct hearth_exec *arena, struct hearth_buf *buf)
{
    EXPECT(HEARTH_OK, hearth_exec_free(arena, buf));
}

size_t class_of(size_t size)
{
    size_t step = 64, limit = 256;
    while (size > limit) {
        step = limit / 4;
        limit *= 2;
    }
    size_t rounded = (size + step - 1) / step * step;
    return rounded ? rounded : 64;
}

void check_identity(const struct hearth_exec *arena, const struct memory *memory)
{
    size_t held = hearth_exec_live_capacity(arena) + hearth_exec_retained_bytes(arena) +
                  hearth_exec_pending_bytes(arena);
    EXPECT_SIZE(held, hearth_exec_footprint(arena));
    cr_assert_leq(hearth_exec_live_bytes(arena), hearth_exec_live_capacity(arena));
    cr_assert_geq(hearth_exec_peak_bytes(arena), hearth_exec_live_bytes(arena));
    if (memory)
        EXPECT_SIZE(memory->bytes, hearth_exec_footprint(arena));
}

struct hearth_exec_stats stats_of(const struct hearth_exec *arena)
{
    struct hearth_exec_stats stats = {.size = sizeof stats};
    EXPECT(HEARTH_OK, hearth_exec_stats(arena, &stats));
    return stats;
}

void check_unchanged(const struct hearth_exec_stats *before, const struct hearth_exec *arena)
{
    struct hearth_exec_stats after = stats_of(arena);
    after.misuses = before->misuses;
#define SAME(name, unit, text)                                                                     \
    cr_assert_eq(before->name, after.name, #name " changed from %llu to %llu",                     \
                 (unsigned long long)before->name, (unsigned long long)after.name);
    HEARTH_EXEC_STATS_MAP(SAME)
#undef SAME
}

static void record(void *context, const struct hearth_misuse *told)
{
    struct misuse_record *to = context;
    to->count++;
    to->status = told->status;
    to->arena = told->arena;
    to->slot = told->slot;
    snprintf(to->call, sizeof to->call, "%s", told->call ? told->call : "");
    snprintf(to->detail, sizeof to->detail, "%s", told->detail ? told->detail : "");
}

void misuse_record(void)
{
    static const struct hearth_misuse_handler handler = {record, &misuse};
    misuse = (struct misuse_record){0};
    (void)hearth_misuse_set_handler(&handler);
}

struct thread_job {
    void (*fn)(void *);
    void *argument;
};

static void *run_job(void *job)
{
    const struct thread_job *it = job;
    it->fn(it->argument);
    return NULL;
}

void on_thread(void (*fn)(void *), void *argument)
{
    struct thread_job job = {fn, argument};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, run_job, &job), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

void fill(struct hearth_buf *buf, unsigned char value)
{
    memset(hearth_buf_data(buf), value, hearth_buf_size(buf));
}

bool filled(const struct hearth_buf *buf, size_t bytes, unsigned char value)
{
    const unsigned char *data = hearth_buf_data(buf);
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != value)
            return false;
    }
    return true;
}
