/* SPDX-License-Identifier: Apache-2.0 */
#include "twins.h"

#include <string.h>

uint64_t twins_draw(struct twins *self, uint64_t below)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return (self->random * 0x2545F4914F6CDD1Du >> 32) % below;
}

/* What both answered, which is the same. */
static enum hearth_status both(struct twins *self, const enum hearth_status status[ARENAS])
{
    AGREE(self, status[0] == status[1], "lists answer %s, plans %s", hearth_status_name(status[0]),
          hearth_status_name(status[1]));
    return status[0];
}

#define BOTH(self, i, call)                                                                        \
    ((self)->answers[0] = ((i) = 0, (call)), (self)->answers[1] = ((i) = 1, (call)),               \
     both((self), (self)->answers))

#define BOTH_OK(self, i, call)                                                                     \
    do {                                                                                           \
        enum hearth_status answer_ = BOTH(self, i, call);                                          \
        AGREE(self, answer_ == HEARTH_OK, "%s answers %s", #call, hearth_status_name(answer_));    \
    } while (0)

static void check_storage(struct twins *self, unsigned i)
{
    struct hearth_exec_stats now = stats_of(self->arena[i]);
    AGREE(self, now.consistent, "a quiescent snapshot is not consistent");
    AGREE(self, now.live_capacity + now.retained_bytes + now.pending_bytes == now.footprint,
          "arena %u: %zu live, %zu retained, %zu pending, but %zu in all", i,
          (size_t)now.live_capacity, (size_t)now.retained_bytes, (size_t)now.pending_bytes,
          (size_t)now.footprint);
    AGREE(self, now.footprint + hearth_io_footprint(self->io[i]) == self->memory[i].bytes,
          "arena %u: %zu bytes and the I/O arena's %zu are not the %zu lent", i,
          (size_t)now.footprint, hearth_io_footprint(self->io[i]), self->memory[i].bytes);
    AGREE(self, now.live_bytes <= now.live_capacity, "arena %u: more bytes than capacity", i);
    AGREE(self, now.live_count == now.allocs - now.frees, "arena %u: counts do not add up", i);
    if (now.live_count == 0 && !self->begun && now.pending_count == 0)
        AGREE(self, now.retained_bytes <= now.retention_cap,
              "arena %u: %zu bytes are retained above the cap of %zu", i,
              (size_t)now.retained_bytes, (size_t)now.retention_cap);
}

#define SAME(self, a, b, name)                                                                     \
    AGREE(self, (a).name == (b).name, #name " is %zu with lists, %zu with plans",                  \
          (size_t)(a).name, (size_t)(b).name)

static void compare(struct twins *self)
{
    check_storage(self, 0);
    check_storage(self, 1);
    struct hearth_exec_stats a = stats_of(self->arena[0]), b = stats_of(self->arena[1]);
    SAME(self, a, b, live_count);
    SAME(self, a, b, live_bytes);
    SAME(self, a, b, peak_bytes);
    SAME(self, a, b, pending_count);
    SAME(self, a, b, retention_cap);
    SAME(self, a, b, slots);
    SAME(self, a, b, allocs);
    SAME(self, a, b, frees);
    SAME(self, a, b, remote_frees);
    SAME(self, a, b, trims);
    SAME(self, a, b, misuses);
    AGREE(self, b.plan_hits + b.plan_misses <= b.allocs, "more hits and misses than requests");
}

/* A word in each unit of 64 bytes. */
static void sign(struct twins *self, struct twin *twin)
{
    twin->owner = ++self->serial;
    for (unsigned i = 0; i < ARENAS; i++) {
        char *data = hearth_buf_data(twin->buf[i]);
        for (size_t k = 0; k + sizeof twin->owner <= twin->size; k += 64)
            memcpy(data + k, &twin->owner, sizeof twin->owner);
    }
}

static void check_sign(struct twins *self, const struct twin *twin, size_t size)
{
    for (unsigned i = 0; i < ARENAS; i++) {
        const char *data = hearth_buf_data(twin->buf[i]);
        struct hearth_buf *found = NULL;
        AGREE(self, hearth_buf_of(data, &found) == HEARTH_OK && found == twin->buf[i],
              "arena %u: the data does not lead to its buffer", i);
        AGREE(self, hearth_buf_size(twin->buf[i]) == twin->size, "arena %u: another size", i);
        AGREE(self, hearth_buf_capacity(twin->buf[i]) >= twin->size, "arena %u: too small", i);
        for (size_t k = 0; k + sizeof twin->owner <= size; k += 64)
            AGREE(self, !memcmp(data + k, &twin->owner, sizeof twin->owner),
                  "arena %u: byte %zu of %zu was overwritten", i, k, twin->size);
    }
}

void twins_alloc(struct twins *self, struct twin *twin, const struct hearth_request *request)
{
    unsigned i;
    self->what = "alloc";
    if (twin->owner)
        return;
    struct twin fresh = {.size = request->size};
    if (BOTH(self, i, hearth_exec_alloc_ex(self->arena[i], request, &fresh.buf[i])) != HEARTH_OK)
        return;
    size_t alignment = request->alignment < 64 ? 64 : request->alignment;
    for (i = 0; i < ARENAS; i++) {
        const char *data = hearth_buf_data(fresh.buf[i]);
        AGREE(self, (uintptr_t)data % alignment == 0, "arena %u: not aligned to %zu", i, alignment);
        for (size_t k = 0; request->zero && k < request->size; k++)
            AGREE(self, data[k] == 0, "arena %u: byte %zu is not zero", i, k);
    }
    *twin = fresh;
    sign(self, twin);
}

/* Nobody owns the arenas for a moment, so that the return is queued. */
static void release_owner(struct twins *self)
{
    unsigned i;
    self->what = "release_owner";
    if (self->unowned)
        return;
    BOTH_OK(self, i, hearth_exec_release_owner(self->arena[i]));
    self->unowned = true;
}

void twins_free(struct twins *self, struct twin *twin)
{
    unsigned i;
    if (!twin->owner)
        return;
    check_sign(self, twin, twin->size);
    bool remote = !twin->taken && self->noise && twins_draw(self, 24) == 0;
    if (remote)
        release_owner(self);
    self->what = remote ? "remote free" : "free";
    if (twin->taken)
        BOTH_OK(self, i, hearth_io_free(self->io[i], twin->buf[i]));
    else
        BOTH_OK(self, i, hearth_exec_free(self->arena[i], twin->buf[i]));
    if (!twin->taken && !remote && self->noise && twins_draw(self, 8) == 0) {
        self->what = "second free";
        enum hearth_status status = BOTH(self, i, hearth_exec_free(self->arena[i], twin->buf[i]));
        AGREE(self, status == HEARTH_STALE, "a second free answers %s", hearth_status_name(status));
        AGREE(self, BOTH(self, i, hearth_buf_resize(twin->buf[i], 10)) == HEARTH_STALE,
              "a resize after the return is not refused");
    }
    twin->owner = 0;
}

void twins_resize(struct twins *self, struct twin *twin, size_t size, bool keep)
{
    unsigned i;
    size_t before = twin->size;
    if (!twin->owner || twin->taken)
        return;
    check_sign(self, twin, before);
    self->what = keep ? "resize_keep" : "resize";
    enum hearth_status status = BOTH(self, i,
                                     keep ? hearth_buf_resize_keep(twin->buf[i], size)
                                          : hearth_buf_resize(twin->buf[i], size));
    if (status != HEARTH_OK)
        return;
    twin->size = size;
    if (keep)
        check_sign(self, twin, before < size ? before : size);
    sign(self, twin);
}

static void do_take(struct twins *self, struct twin *twin)
{
    unsigned i;
    struct hearth_buf *moved[ARENAS] = {NULL, NULL};
    if (!twin->owner || twin->taken)
        return;
    self->what = "take";
    BOTH_OK(self, i, hearth_io_take(self->io[i], twin->buf[i], &moved[i]));
    AGREE(self, BOTH(self, i, hearth_exec_free(self->arena[i], twin->buf[i])) == HEARTH_STALE,
          "the old buffer is not stale");
    memcpy(twin->buf, moved, sizeof moved);
    twin->taken = true;
    check_sign(self, twin, twin->size);
}

size_t twins_size(struct twins *self)
{
    if (self->noise && twins_draw(self, 400) == 0)
        return SIZE_MAX - twins_draw(self, 64);
    return 1 + twins_draw(self, (uint64_t)2 << twins_draw(self, self->size_most));
}

static void do_misuse(struct twins *self)
{
    struct twin *twin = &self->places[twins_draw(self, TWINS)];
    unsigned i;
    self->what = "misuse";
    if (twin->owner && !twin->taken) {
        uint64_t offset = 1 + twins_draw(self, 63);
        AGREE(self,
              BOTH(self, i,
                   hearth_exec_free(self->arena[i], (void *)((char *)twin->buf[i] + offset))) ==
                  HEARTH_FOREIGN,
              "the inside of a descriptor is a buffer");
    }
    AGREE(self, BOTH(self, i, hearth_exec_free(self->arena[i], NULL)) == HEARTH_FOREIGN,
          "NULL is a buffer");
}

static void do_cap(struct twins *self)
{
    unsigned i;
    size_t cap = twins_draw(self, 2)   ? HEARTH_UNBOUNDED
                 : twins_draw(self, 3) ? twins_draw(self, 4 * MIB)
                                       : twins_draw(self, 2000);
    self->what = "set_retention_cap";
    BOTH_OK(self, i, hearth_exec_set_retention_cap(self->arena[i], cap));
}

void twins_something(struct twins *self)
{
    unsigned i;
    struct twin *twin = &self->places[twins_draw(self, TWINS)];
    uint64_t key = twins_draw(self, 3);
    switch (twins_draw(self, 16)) {
    case 0:
        self->what = "trim";
        BOTH_OK(self, i, hearth_exec_trim(self->arena[i], NULL));
        return;
    case 1:
        do_cap(self);
        return;
    case 2:
        self->what = "reset_peak";
        BOTH_OK(self, i, hearth_exec_reset_peak(self->arena[i]));
        return;
    case 3:
        twins_run(self, true, key);
        return;
    case 4:
        twins_run(self, false, 0);
        return;
    case 5:
    case 6:
        do_take(self, twin);
        return;
    case 7:
    case 8:
        do_misuse(self);
        return;
    case 9:
        twins_free(self, &self->kept[twins_draw(self, TWINS_KEPT)]);
        return;
    default:
        twins_resize(self, twin, twins_size(self), twins_draw(self, 2));
    }
}

void twins_run(struct twins *self, bool begin, uint64_t key)
{
    unsigned i;
    self->what = begin ? "run_begin" : "run_end";
    if (begin)
        BOTH_OK(self, i, hearth_exec_run_begin(self->arena[i], key));
    else
        BOTH_OK(self, i, hearth_exec_run_end(self->arena[i]));
    self->begun = begin;
}

void twins_compare(struct twins *self)
{
    unsigned i;
    compare(self);
    if (self->unowned) {
        self->what = "claim";
        BOTH_OK(self, i, hearth_exec_reset_peak(self->arena[i]));
    }
    self->unowned = false;
}

void twins_open(struct twins *self, uint64_t seed, size_t slots, size_t cap, size_t limit)
{
    memset(self, 0, sizeof *self);
    self->seed = seed;
    self->random = seed * 0x9E3779B97F4A7C15u + 1;
    self->what = "open";
    for (unsigned i = 0; i < ARENAS; i++) {
        memory_init(&self->memory[i]);
        self->memory[i].limit = limit;
        struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
        options.slots = slots;
        options.retention_cap = cap;
        options.store = i == 0 ? HEARTH_EXEC_STORE_LISTS : HEARTH_EXEC_STORE_PLANS;
        options.backing = self->memory[i].backing;
        EXPECT(HEARTH_OK, hearth_exec_create(&options, &self->arena[i]));
        struct hearth_io_options io = HEARTH_IO_OPTIONS_INIT;
        io.backing = self->memory[i].backing;
        EXPECT(HEARTH_OK, hearth_io_create(&io, &self->io[i]));
    }
}

void twins_close(struct twins *self)
{
    unsigned i;
    self->noise = 0;
    for (unsigned k = 0; k < TWINS + TWINS_KEPT; k++)
        twins_free(self, k < TWINS ? &self->places[k] : &self->kept[k - TWINS]);
    twins_compare(self);
    self->what = "destroy";
    BOTH_OK(self, i, hearth_exec_destroy(self->arena[i]));
    for (i = 0; i < ARENAS; i++) {
        EXPECT(HEARTH_OK, hearth_io_destroy(self->io[i]));
        memory_fini(&self->memory[i]);
    }
}
