/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

#include "service.h"

#include <hearth/handle.h>

#include <inttypes.h>
#include <stdlib.h>

#define UNIT ((size_t)64)
#define BOXES 24
#define SOME 16u /* one step in so many is changed */

static _Atomic(struct stress_block *) boxes[BOXES];

/* A step is left out where there is nothing to return, or something in the place. */
static void append(struct stress_script *script, bool *live, unsigned place, size_t size)
{
    if (place >= STRESS_PLACES || script->count == 2 * STRESS_PLACES || live[place] == (size != 0))
        return;
    live[place] = size != 0;
    script->steps[script->count++] = (struct stress_step){place, (uint32_t)size};
    script->takes += size != 0;
    if (place >= script->places)
        script->places = place + 1;
}

static void return_all(struct stress_script *script, bool *live)
{
    unsigned places = script->places;
    for (unsigned place = 0; place < places; place++)
        append(script, live, place, 0);
}

static size_t some_size(uint64_t *random, size_t most)
{
    size_t size = UNIT;
    unsigned steps = 1;
    for (size_t bound = UNIT; bound < most; bound *= 2)
        steps++;
    size <<= stress_next(random) % steps;
    return size - (size / 2 - UNIT / 2) * (stress_next(random) % 256) / 256;
}

void stress_script_make(struct stress_script *script, uint64_t *random, unsigned takes,
                        size_t size_most, size_t peak)
{
    bool live[STRESS_PLACES] = {false};
    unsigned held[STRESS_PLACES];
    size_t sizes[STRESS_PLACES];
    size_t bytes = 0;
    unsigned count = 0;
    *script = (struct stress_script){0};
    while (script->takes < takes) {
        size_t size = some_size(random, size_most);
        /* Never without any, which would be the end of a run. */
        if (count > 1 && (bytes + size > peak || stress_next(random) % 5 < 2)) {
            unsigned last = count < 8 || stress_next(random) % 8 == 0 ? count : 8;
            unsigned i = count - 1 - (unsigned)(stress_next(random) % last);
            append(script, live, held[i], 0);
            bytes -= sizes[held[i]];
            held[i] = held[--count];
        } else {
            unsigned place = script->takes;
            sizes[place] = size;
            bytes += size;
            held[count++] = place;
            append(script, live, place, size);
        }
    }
    return_all(script, live);
}

void stress_scripts_make(struct stress_script *scripts, uint64_t seed)
{
    static const unsigned takes[STRESS_SCRIPTS] = {20, STRESS_TAKES_MOST, 60, 150, 30, 250};
    static const size_t sizes[STRESS_SCRIPTS] = {65536, 16384, STRESS_SIZE_MOST,
                                                 65536, 4096,  262144};
    for (unsigned i = 0; i < STRESS_SCRIPTS; i++)
        stress_script_make(&scripts[i], &seed, takes[i], sizes[i], STRESS_PEAK_MOST);
}

enum change { CUT, JOIN, INSERT, LEAVE_OUT, SIZES, EXCHANGE, CHANGES };

static size_t changed_size(size_t size, uint64_t draw)
{
    static const unsigned numerators[] = {64, 65, 63, 128, 32, 256, 16, 72};
    size_t changed = size * numerators[draw % 8] / 64 + (draw >> 8) % 3;
    if (changed < UNIT)
        return UNIT;
    return changed > STRESS_SIZE_MOST ? STRESS_SIZE_MOST : changed;
}

static void exchange(struct stress_script *script, uint64_t *random)
{
    for (unsigned i = 1; i < script->count; i++) {
        struct stress_step step = script->steps[i];
        if (step.place == script->steps[i - 1].place || stress_next(random) % SOME != 0)
            continue;
        script->steps[i] = script->steps[i - 1];
        script->steps[i - 1] = step;
    }
}

void stress_script_vary(struct stress_script *copy, const struct stress_script *of,
                        const struct stress_script *other, uint64_t *random)
{
    bool live[STRESS_PLACES] = {false};
    bool left_out[STRESS_PLACES] = {false};
    enum change change = (enum change)(stress_next(random) % CHANGES);
    unsigned until = of->count;
    *copy = (struct stress_script){0};
    if (change == CUT || change == JOIN)
        until = (unsigned)(stress_next(random) % of->count);
    for (unsigned i = 0; i < until; i++) {
        struct stress_step step = of->steps[i];
        bool now = stress_next(random) % SOME == 0;
        if (change == LEAVE_OUT && step.size != 0)
            left_out[step.place] = now;
        if (change == SIZES && step.size != 0 && now)
            step.size = (uint32_t)changed_size(step.size, stress_next(random));
        if (change == INSERT && now)
            append(copy, live, of->places + i % 64, some_size(random, 65536));
        if (change == INSERT && stress_next(random) % SOME == 0)
            append(copy, live, of->places + (unsigned)(stress_next(random) % 64), 0);
        if (!left_out[step.place])
            append(copy, live, step.place, step.size);
    }
    if (change == JOIN) /* what the one held goes while the other goes on */
        for (unsigned i = (unsigned)(stress_next(random) % other->count); i < other->count; i++) {
            append(copy, live, of->places + other->steps[i].place, other->steps[i].size);
            append(copy, live, (unsigned)(stress_next(random) % of->places), 0);
        }
    return_all(copy, live);
    if (change == EXCHANGE)
        exchange(copy, random);
}

/* One word for each unit, and the last one. */
static void stamp(void *data, size_t size, uint64_t owner)
{
    uint64_t *words = data;
    size_t count = size / sizeof *words;
    for (size_t i = 0; i < count; i += UNIT / sizeof *words)
        words[i] = owner;
    if (count != 0)
        words[count - 1] = owner;
}

static bool stamped(const void *data, size_t size, uint64_t owner, size_t *where)
{
    const uint64_t *words = data;
    size_t count = size / sizeof *words;
    for (*where = 0; *where < count; *where += UNIT / sizeof *words)
        if (words[*where] != owner)
            return false;
    *where = count - 1;
    return count == 0 || words[count - 1] == owner;
}

static void check_found(const struct stress_block *block)
{
    struct hearth_buf *found = NULL;
    enum hearth_status status = hearth_buf_of(block->data, &found);
    if (status != HEARTH_OK || found != block->buf)
        stress_violation("a live buffer's data leads to %s and %s buffer",
                         hearth_status_name(status), found == NULL ? "no" : "another");
    if (hearth_buf_data(block->buf) != block->data || hearth_buf_size(block->buf) != block->size ||
        hearth_buf_capacity(block->buf) < block->size)
        stress_violation(
            "a live buffer of %zu bytes has other data, %zu bytes or a capacity of %zu",
            block->size, hearth_buf_size(block->buf), hearth_buf_capacity(block->buf));
}

static void check_stamp(const struct stress_block *block, size_t size)
{
    size_t where;
    if (!stamped(block->data, size, block->owner, &where))
        stress_violation("block %" PRIx64 " of %zu bytes is %" PRIx64 "'s at byte %zu",
                         block->owner, block->size, ((const uint64_t *)block->data)[where],
                         where * sizeof(uint64_t));
}

void stress_block_check(const struct stress_block *block)
{
    if (block->buf == NULL)
        return;
    check_found(block);
    check_stamp(block, block->size);
}

void stress_block_begin(struct hearth_exec *exec, struct hearth_buf *buf, size_t size,
                        uint64_t owner, struct stress_block *block)
{
    *block = (struct stress_block){
        .buf = buf, .exec = exec, .data = hearth_buf_data(buf), .size = size, .owner = owner};
    check_found(block);
    stamp(block->data, size, owner);
}

bool stress_block_take(struct hearth_exec *exec, const struct hearth_request *request,
                       uint64_t owner, struct stress_block *block)
{
    struct hearth_buf *buf = NULL;
    size_t alignment = request->alignment < UNIT ? UNIT : request->alignment;
    size_t where;
    enum hearth_status status = request->alignment == 0 && request->zero == 0
                                    ? hearth_exec_alloc(exec, request->size, &buf)
                                    : hearth_exec_alloc_ex(exec, request, &buf);
    *block = (struct stress_block){.buf = NULL};
    stress_expect(status, "a request");
    if (status != HEARTH_OK)
        return false;
    const void *data = hearth_buf_data(buf);
    if ((uintptr_t)data % alignment != 0)
        stress_violation("%p is not aligned to %zu", data, alignment);
    if (request->zero != 0 && !stamped(data, request->size, 0, &where))
        stress_violation("a block of %zu bytes that was asked to be zero is not at byte %zu",
                         request->size, where * sizeof(uint64_t));
    stress_block_begin(exec, buf, request->size, owner, block);
    return true;
}

static void expect_refused(enum hearth_status status, const char *what)
{
    if (status != HEARTH_STALE && status != HEARTH_FOREIGN)
        stress_violation("%s was answered %s", what, hearth_status_name(status));
}

void stress_block_return(struct stress_block *block, bool own, uint64_t draw)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = block->buf;
    if (buf == NULL)
        return;
    stress_block_check(block);
    stamp(block->data, block->size < UNIT ? block->size : UNIT, ~block->owner);
    block->buf = NULL;
    if (block->exec == NULL) {
        stress_expect(hearth_io_free(block->io, buf), "an I/O return");
        return;
    }
    if (draw % 64 == 0)
        stress_expect(hearth_handle_from_buf(buf, &handle), "a handle");
    if ((draw >> 8) % 4 == 0)
        stress_expect(hearth_free(hearth_buf_owner(buf), buf), "a return by owner");
    else
        stress_expect(hearth_exec_free(block->exec, buf), "a return");
    if (own && (draw >> 16) % 32 == 0)
        expect_refused(hearth_exec_free(block->exec, buf), "a second return");
    if (draw % 64 == 0)
        expect_refused(hearth_handle_reset(&handle), "a return by a stale handle");
}

void stress_block_resize(struct stress_block *block, size_t size, bool keep)
{
    size_t before = block->size;
    stress_block_check(block);
    enum hearth_status status =
        keep ? hearth_buf_resize_keep(block->buf, size) : hearth_buf_resize(block->buf, size);
    stress_expect(status, "a resize");
    if (status != HEARTH_OK)
        return;
    block->size = size;
    block->data = hearth_buf_data(block->buf);
    check_found(block);
    if (keep) /* the first word of each whole unit */
        check_stamp(block, ((before < size ? before : size) / UNIT - 1) * UNIT + sizeof(uint64_t));
    stamp(block->data, size, block->owner);
}

void stress_block_move(struct stress_block *block, struct hearth_io *io)
{
    struct hearth_buf *moved = NULL;
    if (!hearth_io_can_take(io, block->exec))
        return;
    enum hearth_status status = hearth_io_take(io, block->buf, &moved);
    stress_expect(status, "a take");
    if (status != HEARTH_OK)
        return;
    block->buf = moved;
    block->exec = NULL;
    block->io = io;
    block->data = hearth_buf_data(moved);
    stress_block_check(block);
}

void stress_block_post(struct stress_block *block, uint64_t draw)
{
    struct stress_block *copy = NULL;
    if (block->buf != NULL) {
        copy = malloc(sizeof *copy);
        if (copy == NULL)
            abort();
        *copy = *block;
    }
    copy = atomic_exchange_explicit(&boxes[draw % BOXES], copy, memory_order_acq_rel);
    *block = (struct stress_block){.buf = NULL};
    if (copy != NULL)
        *block = *copy;
    free(copy);
}

size_t stress_blocks_posted(void)
{
    size_t capacity = 0;
    for (unsigned i = 0; i < BOXES; i++) {
        const struct stress_block *block = atomic_load_explicit(&boxes[i], memory_order_acquire);
        if (block != NULL)
            capacity += hearth_buf_capacity(block->buf);
    }
    return capacity;
}

void stress_blocks_clear(void)
{
    for (unsigned i = 0; i < BOXES; i++) {
        struct stress_block block = {.buf = NULL};
        stress_block_post(&block, i);
        stress_block_return(&block, false, i);
    }
}
