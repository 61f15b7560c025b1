/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "concurrent/exec.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct misuse_record misuse_seen;

/* Most tests end with their arena open, as each has a process of its own; that storage comes back is
 * asserted by name where it is the subject. Leak reports would drown what AddressSanitizer has to say. */
int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return 1;
}

static void record(void *context, const struct hearth_misuse *misuse)
{
    struct misuse_record *seen = context;
    seen->count++;
    seen->status = misuse->status;
    seen->call = misuse->call;
    seen->arena = misuse->arena;
    seen->slot = misuse->slot;
    (void)snprintf(seen->detail, sizeof seen->detail, "%s", misuse->detail);
}

void misuse_record(void)
{
    static const struct hearth_misuse_handler handler = {record, &misuse_seen};
    misuse_seen = (struct misuse_record){0};
    (void)hearth_misuse_set_handler(&handler);
}

/* Storage lies behind a header of its own, so that it can be misplaced on purpose. */
struct lent {
    void *block;
    size_t length;
    uint64_t cookie;
};

static enum hearth_status lender_acquire(void *context, size_t bytes, size_t alignment,
                                         struct hearth_segment *segment)
{
    struct lender *self = context;
    self->acquires++;
    self->last_bytes = bytes;
    self->last_alignment = alignment;
    if (self->lend_null)
        return HEARTH_OK;
    if (alignment < self->align_to)
        alignment = self->align_to;
    size_t length = bytes - self->shorten + self->lengthen;
    if (length > self->budget || self->lent > self->budget - length)
        return HEARTH_NO_MEMORY;
    char *block =
        aligned_alloc(alignment, (2 * alignment + length + alignment - 1) / alignment * alignment);
    if (block == NULL)
        return HEARTH_NO_MEMORY;
    if ((self->flags & HEARTH_SEGMENT_ZERO) != 0)
        memset(block + alignment, 0, alignment + length);
    else
        memset(block + alignment, 0xa5, alignment + length);
    segment->base = block + alignment + self->misplace;
    segment->length = length;
    segment->cookie = self->cookie++;
    segment->flags = self->flags;
    struct lent note = {block, length, segment->cookie};
    memcpy(block, &note, sizeof note);
    self->lent += length;
    /* The way back from the base is kept apart: the alignment is not known at release. */
    segment->cookie = segment->cookie << 32 | (uint64_t)((char *)segment->base - block);
    return HEARTH_OK;
}

static void lender_release(void *context, const struct hearth_segment *segment)
{
    struct lender *self = context;
    char *block = (char *)segment->base - (segment->cookie & UINT32_MAX);
    struct lent note;
    memcpy(&note, block, sizeof note);
    if (note.block != block || note.length != segment->length ||
        note.cookie != segment->cookie >> 32)
        self->wrong_cookies++;
    self->releases++;
    self->lent -= note.length;
    free(note.block);
}

static size_t lender_purge(void *context)
{
    struct lender *self = context;
    self->purges++;
    return 4096;
}

static size_t lender_discard(void *context, void *base, size_t length)
{
    struct lender *self = context;
    memset(base, 0xdd, length);
    self->discards++;
    self->discarded += length;
    return length;
}

static void lender_stats(void *context, struct hearth_backing_stats *stats)
{
    const struct lender *self = context;
    stats->page_events = self->acquires + self->releases;
    stats->mapped_bytes = self->lent;
}

static void lender_destroy(void *context)
{
    struct lender *self = context;
    self->destroys++;
}

struct hearth_backing *lender_open(struct lender *lender)
{
    struct hearth_backing *backing = NULL;
    *lender = (struct lender){
        .ops =
            {
                .size = sizeof lender->ops,
                .name = "lender",
                .acquire = lender_acquire,
                .release = lender_release,
                .purge = lender_purge,
                .discard = lender_discard,
                .stats = lender_stats,
                .destroy = lender_destroy,
            },
        .budget = SIZE_MAX,
        .cookie = 1000,
    };
    assert_ok(hearth_backing_create(&lender->ops, lender, &backing));
    return backing;
}

struct hearth_backing *mmap_open(void)
{
    struct hearth_backing *backing = NULL;
    assert_ok(hearth_backing_create_mmap(NULL, &backing));
    return backing;
}

struct hearth_exec *exec_open(struct hearth_backing *backing, size_t slots, size_t cap)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    options.backing = backing;
    options.slots = slots;
    options.retention_cap = cap;
    assert_ok(hearth_exec_create(&options, &arena));
    return arena;
}

struct hearth_buf *exec_take(struct hearth_exec *arena, size_t size)
{
    struct hearth_buf *buf = NULL;
    assert_ok(hearth_exec_alloc(arena, size, &buf));
    return buf;
}

struct hearth_buf *exec_take_aligned(struct hearth_exec *arena, size_t size, size_t alignment)
{
    const struct hearth_request request = {.size = size, .alignment = alignment};
    struct hearth_buf *buf = NULL;
    assert_ok(hearth_exec_alloc_ex(arena, &request, &buf));
    return buf;
}

struct job {
    void (*fn)(void *);
    void *argument;
};

static void *run_job(void *argument)
{
    const struct job *job = argument;
    job->fn(job->argument);
    return NULL;
}

void on_thread(void (*fn)(void *), void *argument)
{
    pthread_t thread;
    struct job job = {fn, argument};
    cr_assert_eq(pthread_create(&thread, NULL, run_job, &job), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

struct returns {
    struct hearth_exec *arena;
    struct hearth_buf **bufs;
    size_t count;
    size_t accepted;
};

static void return_all(void *argument)
{
    struct returns *returns = argument;
    for (size_t i = 0; i < returns->count; i++)
        returns->accepted += hearth_exec_free(returns->arena, returns->bufs[i]) == HEARTH_OK;
}

void free_elsewhere(struct hearth_exec *arena, struct hearth_buf **bufs, size_t count)
{
    struct returns returns = {arena, bufs, count, 0};
    on_thread(return_all, &returns);
    assert_size(returns.accepted, count);
}

void assert_sound(const struct hearth_exec *arena)
{
    const char *violated = hearth__exec_check(arena);
    cr_assert_null(violated, "%s", violated);
}

/* The word at this place of a pattern: no two places of a buffer have the same. */
static uint64_t pattern_word(size_t at, unsigned seed)
{
    return ((uint64_t)seed << 40) + at * 0x9e3779b97f4a7c15 + 1;
}

size_t visit_all(struct hearth_exec *arena, bool *busy)
{
    struct hearth__releases releases;
    struct hearth__visit made;
    size_t released = 0;
    hearth__releases_init(&releases);
    do {
        made = (struct hearth__visit){
            .before = UINT64_MAX,
            .goal = SIZE_MAX,
            .releases = &releases,
        };
        released += hearth__exec_visit(arena, &made);
        (void)hearth__releases_run(&releases, 0);
    } while (made.more);
    *busy = made.busy;
    return released;
}

void pattern_write(void *data, size_t bytes, unsigned seed)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = pattern_word(at, seed);
        memcpy((char *)data + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word);
    }
}

bool pattern_holds(const void *data, size_t bytes, unsigned seed)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = pattern_word(at, seed);
        if (memcmp((const char *)data + at, &word,
                   bytes - at < sizeof word ? bytes - at : sizeof word) != 0)
            return false;
    }
    return true;
}

uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t statm(unsigned field)
{
    char text[256];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    cr_assert_geq(file, 0);
    ssize_t length = read(file, text, sizeof text - 1);
    (void)close(file);
    cr_assert_gt(length, 0);
    text[length] = '\0';
    char *at = text;
    size_t value = strtoull(at, &at, 10);
    while (field-- > 0)
        value = strtoull(at, &at, 10);
    return value * (size_t)sysconf(_SC_PAGESIZE);
}

size_t mapped_now(void)
{
    return statm(0);
}

size_t resident_now(void)
{
    return statm(1);
}
