/* SPDX-License-Identifier: Apache-2.0 */
/* Random sequences on an execution arena and on the model of its contract; every status, the storage of
 * every buffer and every figure must agree after each operation. HEARTH_TEST_SEED=n runs seed n alone;
 * a failure names the seed, the operation and its number. */
#include "model.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 24, OPERATIONS = 20000 };

struct run {
    struct hearth_exec *arena;
    struct memory memory;
    struct model model;
    uint64_t seed, random;
    size_t step, live_target;
    const char *what;
};

static uint64_t draw(struct run *run, uint64_t below)
{
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return (run->random * 0x2545F4914F6CDD1Du >> 32) % below;
}

#define AGREE(run, condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            char detail_[256];                                                                     \
            snprintf(detail_, sizeof detail_, __VA_ARGS__);                                        \
            cr_assert_fail("HEARTH_TEST_SEED=%llu, operation %zu (%s): %s",                        \
                           (unsigned long long)(run)->seed, (run)->step, (run)->what, detail_);    \
        }                                                                                          \
    } while (0)

#define AGREE_SIZE(run, modelled, real)                                                            \
    do {                                                                                           \
        size_t model_ = (modelled), real_ = (real);                                                \
        AGREE(run, model_ == real_, "%s is %zu instead of %zu", #real, real_, model_);             \
    } while (0)

#define AGREE_STATUS(run, modelled, real)                                                          \
    do {                                                                                           \
        enum hearth_status model_ = (modelled), real_ = (real);                                    \
        AGREE(run, model_ == real_, "%s answers %s instead of %s", #real,                          \
              hearth_status_name(real_), hearth_status_name(model_));                              \
    } while (0)

static void compare(struct run *run)
{
    const struct model *model = &run->model;
    const struct hearth_exec *arena = run->arena;
    AGREE_SIZE(run, model_count(model, MODEL_LIVE), hearth_exec_live_count(arena));
    AGREE_SIZE(run, model_live_bytes(model), hearth_exec_live_bytes(arena));
    AGREE_SIZE(run, model_capacity(model, MODEL_LIVE), hearth_exec_live_capacity(arena));
    AGREE_SIZE(run, model->peak, hearth_exec_peak_bytes(arena));
    AGREE_SIZE(run, model_count(model, MODEL_RETAINED), hearth_exec_retained_count(arena));
    AGREE_SIZE(run, model_capacity(model, MODEL_RETAINED), hearth_exec_retained_bytes(arena));
    AGREE_SIZE(run, model_count(model, MODEL_PENDING), hearth_exec_pending_count(arena));
    AGREE_SIZE(run, model_capacity(model, MODEL_PENDING), hearth_exec_pending_bytes(arena));
    AGREE_SIZE(run, run->memory.bytes, hearth_exec_footprint(arena));
    AGREE_SIZE(run, model->cap, hearth_exec_retention_cap(arena));
    AGREE_SIZE(run, model->slots, hearth_exec_slots(arena));
    struct hearth_exec_stats stats = stats_of(arena);
    AGREE(run, stats.consistent, "a quiescent snapshot is not consistent");
    AGREE_SIZE(run, model->evictions, stats.evictions);
    AGREE_SIZE(run, model->bypasses, stats.bypasses);
    AGREE_SIZE(run, stats.live_count, stats.allocs - stats.frees);
}

/* A word at both ends of a live buffer that names the buffer. */
static void sign(const struct model_piece *piece)
{
    unsigned char *data = hearth_buf_data(piece->buf);
    uint64_t word = (uint64_t)(uintptr_t)piece->buf * 0x9E3779B97F4A7C15u;
    if (piece->size >= 2 * sizeof word) {
        memcpy(data, &word, sizeof word);
        memcpy(data + piece->size - sizeof word, &word, sizeof word);
    }
}

static void check_sign(struct run *run, const struct model_piece *piece, bool both)
{
    const unsigned char *data = hearth_buf_data(piece->buf);
    uint64_t word = (uint64_t)(uintptr_t)piece->buf * 0x9E3779B97F4A7C15u;
    if (piece->size < 2 * sizeof word)
        return;
    AGREE(run, !memcmp(data, &word, sizeof word), "the content was overwritten");
    AGREE(run, !both || !memcmp(data + piece->size - sizeof word, &word, sizeof word),
          "the end of the content was overwritten");
}

/* A random piece in one state; NULL if there is none. */
static struct model_piece *any(struct run *run, int state)
{
    size_t count = model_count(&run->model, state);
    if (!count)
        return NULL;
    size_t skip = draw(run, count);
    for (size_t i = 0;; i++) {
        if ((int)run->model.piece[i].state == state && !skip--)
            return &run->model.piece[i];
    }
}

static size_t random_size(struct run *run)
{
    if (draw(run, 400) == 0)
        return SIZE_MAX - draw(run, 64);
    return draw(run, (uint64_t)2 << draw(run, 16));
}

static void do_alloc(struct run *run)
{
    run->what = "alloc";
    struct hearth_request request = {.size = random_size(run)};
    if (draw(run, 4) == 0)
        request.alignment = (size_t)1 << draw(run, 15);
    model_drain(&run->model);
    struct hearth_buf *buf = NULL;
    enum hearth_status expected = model_alloc_status(&run->model, request.size);
    AGREE_STATUS(run, expected, hearth_exec_alloc_ex(run->arena, &request, &buf));
    if (expected != HEARTH_OK)
        return;
    struct model_piece *piece =
        model_alloc(&run->model, request.size, request.alignment, buf, hearth_buf_data(buf));
    AGREE(run, piece, "%zu bytes aligned to %zu were served by the wrong storage of %zu bytes",
          request.size, request.alignment, hearth_buf_capacity(buf));
    AGREE(run, piece->capacity == hearth_buf_capacity(buf),
          "%zu bytes aligned to %zu have a capacity of %zu instead of %zu", request.size,
          request.alignment, hearth_buf_capacity(buf), piece->capacity);
    AGREE_SIZE(run, request.size, hearth_buf_size(buf));
    sign(piece);
}

static void do_free(struct run *run)
{
    run->what = "free";
    struct model_piece *piece = any(run, MODEL_LIVE);
    if (!piece)
        return;
    check_sign(run, piece, true);
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_free(run->arena, piece->buf));
    model_free(&run->model, piece);
    model_drain(&run->model); /* the owner's returns take in others', after their own */
}

static void do_misuse(struct run *run)
{
    run->what = "misuse";
    struct model_piece *piece = any(run, MODEL_RETAINED);
    if (piece && piece->buf) {
        AGREE_STATUS(run, HEARTH_STALE, hearth_exec_free(run->arena, piece->buf));
        AGREE_STATUS(run, HEARTH_STALE, hearth_buf_resize(piece->buf, 10));
    }
    if ((piece = any(run, MODEL_LIVE))) {
        struct hearth_buf *inside =
            (struct hearth_buf *)(uintptr_t)((char *)piece->buf + 1 + draw(run, 63));
        AGREE_STATUS(run, HEARTH_FOREIGN, hearth_exec_free(run->arena, inside));
    }
    AGREE_STATUS(run, HEARTH_FOREIGN, hearth_exec_free(run->arena, NULL));
}

static void do_resize(struct run *run)
{
    run->what = "resize";
    struct model_piece *piece = any(run, MODEL_LIVE);
    if (!piece)
        return;
    size_t size = random_size(run), before = piece->size;
    bool keep = draw(run, 2);
    struct hearth_buf *buf = piece->buf;
    enum hearth_status status =
        keep ? hearth_buf_resize_keep(buf, size) : hearth_buf_resize(buf, size);
    AGREE_STATUS(run, size > SIZE_MAX - 64 ? HEARTH_OVERFLOW : HEARTH_OK, status);
    if (status != HEARTH_OK)
        return;
    if (keep && size >= before)
        check_sign(run, piece, false);
    AGREE(run, model_resize(&run->model, piece, size, hearth_buf_data(buf)),
          "%zu bytes moved to the wrong storage of %zu bytes", size, hearth_buf_capacity(buf));
    AGREE_SIZE(run, size, hearth_buf_size(buf));
    for (size_t i = 0; i < run->model.pieces; i++) {
        if (run->model.piece[i].buf == buf && run->model.piece[i].state == MODEL_LIVE) {
            AGREE_SIZE(run, run->model.piece[i].capacity, hearth_buf_capacity(buf));
            sign(&run->model.piece[i]);
        }
    }
}

static void do_trim(struct run *run)
{
    run->what = "trim";
    size_t released = 0;
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_trim(run->arena, &released));
    AGREE_SIZE(run, model_trim(&run->model), released);
}

static void do_cap(struct run *run)
{
    run->what = "set_retention_cap";
    size_t cap = draw(run, 3)   ? draw(run, 4 * MIB)
                 : draw(run, 2) ? HEARTH_UNBOUNDED
                                : draw(run, 2000);
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_set_retention_cap(run->arena, cap));
    model_set_cap(&run->model, cap);
}

static void do_reset_peak(struct run *run)
{
    run->what = "reset_peak";
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_reset_peak(run->arena));
    run->model.peak = model_live_bytes(&run->model);
}

/* Nobody owns the arena for a moment; a return is queued and the next operation claims. */
static void do_release(struct run *run)
{
    run->what = "release_owner";
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_release_owner(run->arena));
    struct model_piece *piece = draw(run, 2) ? any(run, MODEL_LIVE) : NULL;
    if (piece) {
        AGREE_STATUS(run, HEARTH_OK, hearth_exec_free(run->arena, piece->buf));
        model_free_remote(&run->model, piece);
        AGREE_SIZE(run, 1, hearth_exec_pending_count(run->arena));
        AGREE_SIZE(run, piece->capacity, hearth_exec_pending_bytes(run->arena));
        AGREE_SIZE(run, model_live_bytes(&run->model), hearth_exec_live_bytes(run->arena));
    }
    if (!piece && draw(run, 2))
        do_alloc(run); /* claims nothing when it fails */
    if (piece || draw(run, 2))
        do_trim(run);
    else
        do_cap(run);
}

static void operate(struct run *run)
{
    size_t live = model_count(&run->model, MODEL_LIVE);
    uint64_t dice = draw(run, 1000);
    if (dice < 3)
        do_trim(run);
    else if (dice < 8)
        do_cap(run);
    else if (dice < 15)
        do_reset_peak(run);
    else if (dice < 20)
        do_release(run);
    else if (dice < 50)
        do_misuse(run);
    else if (dice < 200)
        do_resize(run);
    else if (dice < (live < run->live_target ? 700u : 500u))
        do_alloc(run);
    else
        do_free(run);
    if (draw(run, 500) == 0)
        run->live_target = draw(run, 60);
}

static void run_seed(uint64_t seed)
{
    static const size_t slots[] = {0, 8, 40, 1, 100};
    static const size_t caps[] = {0, 100000, 0, 1000000};
    static const uint32_t ratios[] = {0, 1, 2, 16, 1024, 3};
    static struct run run;
    memset(&run, 0, sizeof run);
    run.seed = seed;
    run.random = seed * 0x9E3779B97F4A7C15u + 1;
    run.live_target = 20;
    size_t s = slots[seed % 5], cap = caps[seed % 4];
    uint32_t ratio = ratios[seed % 6];
    memory_init(&run.memory);
    run.arena = arena_create(&run.memory, s, cap, ratio);
    model_init(&run.model, s, cap, ratio);
    for (run.step = 0; run.step < OPERATIONS; run.step++) {
        operate(&run);
        compare(&run);
    }
    for (struct model_piece *piece; (piece = any(&run, MODEL_LIVE));)
        do_free(&run);
    compare(&run);
    EXPECT(HEARTH_OK, hearth_exec_destroy(run.arena));
    memory_fini(&run.memory);
}

Test(model, random_sequences_agree, .timeout = 280)
{
    const char *chosen = getenv("HEARTH_TEST_SEED");
    misuse_record();
    if (chosen) {
        run_seed(strtoull(chosen, NULL, 0));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed);
}
