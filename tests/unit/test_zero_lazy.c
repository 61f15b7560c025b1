/* SPDX-License-Identifier: Apache-2.0 */
/* Storage that reads as zero: by writing, or by giving pages back, each on every backing and in every allocator. */
#include "core/zero.h"
#include "support.h"

#include <hearth/exec.h>
#include <hearth/io.h>
#include <hearth/stats.h>

#include <string.h>

#define SIZE ((size_t)256 << 10)
#define PAGE ((size_t)4096)

static struct hearth_backing *pages;

static void start(void)
{
    cr_assert_eq(hearth_backing_create_mmap(NULL, &pages), HEARTH_OK);
    misuse_record();
}

static uint64_t purged(void)
{
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    assert_status(hearth_backing_stats(pages, &stats), HEARTH_OK);
    return stats.purged_bytes;
}

static bool all(const char *data, size_t size, char value)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != value)
            return false;
    return true;
}

struct range {
    size_t from, size;
    uint64_t given_back; /* with HEARTH_ZERO_LAZY */
};

ParameterizedTestParameters(zero_lazy, ranges)
{
    static struct range ranges[] = {
        {0, SIZE, SIZE},
        {64, SIZE, SIZE - PAGE},
        {PAGE - 1, SIZE + 2, SIZE},
        {0, SIZE - 1, SIZE - PAGE},
        {0, HEARTH__ZERO_LAZY_LEAST_BYTES, HEARTH__ZERO_LAZY_LEAST_BYTES},
        {0, HEARTH__ZERO_LAZY_LEAST_BYTES - 1, 0},
        {0, 0, 0},
    };
    return cr_make_param_array(struct range, ranges, sizeof ranges / sizeof *ranges);
}

/* Nothing around the range changes, whichever way. */
ParameterizedTest(struct range *range, zero_lazy, ranges, .init = start)
{
    struct hearth_segment segment;
    assert_status(hearth__backing_acquire(pages, 2 * SIZE, 64, &segment), HEARTH_OK);
    char *data = segment.base;
    for (uint32_t how = HEARTH_ZERO_NONE; how <= HEARTH_ZERO_LAZY; how++) {
        uint64_t before = purged();
        memset(data, 7, 2 * SIZE);
        hearth__zero(pages, data + range->from, range->size, how, false);
        cr_assert(all(data, range->from, 7));
        cr_assert(all(data + range->from, range->size, how == HEARTH_ZERO_NONE ? 7 : 0));
        cr_assert(all(data + range->from + range->size, 2 * SIZE - range->from - range->size, 7));
        assert_size(purged() - before, how == HEARTH_ZERO_LAZY ? range->given_back : 0);
    }
    memset(data, 7, 2 * SIZE);
    hearth__zero(pages, data, SIZE, HEARTH_ZERO_LAZY, true);
    cr_assert(all(data, SIZE, 7), "what is known to be zero is not touched");
    hearth__backing_release(pages, &segment);
}

static size_t discard_nothing(void *context, void *base, size_t length)
{
    (void)context, (void)base, (void)length;
    return 0;
}

static size_t discard_at_will(void *context, void *base, size_t length)
{
    (void)context;
    memset(base, 1, length); /* what it reads as is not known */
    return length;
}

/* A backing that cannot, or does not say what its pages read as, is written to. */
Test(zero_lazy, backings_without, .init = start)
{
    struct lender lender;
    hearth_backing_unref(lender_open(&lender));
    struct hearth_backing_ops ops = lender.ops;
    static char data[SIZE];
    for (unsigned i = 0; i < 3; i++) {
        struct hearth_backing *backing = NULL;
        ops.discard = i == 0 ? NULL : i == 1 ? discard_nothing : discard_at_will;
        ops.flags = i == 1 ? HEARTH_BACKING_DISCARD_ZEROES : 0;
        ops.destroy = NULL;
        assert_status(hearth_backing_create(&ops, &lender, &backing), HEARTH_OK);
        memset(data, 7, sizeof data);
        hearth__zero(backing, data, sizeof data, HEARTH_ZERO_LAZY, false);
        cr_assert(all(data, sizeof data, 0), "%u", i);
        hearth_backing_unref(backing);
    }
}

/* Of the arenas, with storage that was used before. */
Test(zero_lazy, of_arenas, .init = start)
{
    struct hearth_exec_options exec_options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_io_options io_options = HEARTH_IO_OPTIONS_INIT;
    struct hearth_request request = HEARTH_REQUEST_INIT;
    struct hearth_exec *exec = NULL;
    struct hearth_io *io = NULL;
    struct hearth_simple *simple = NULL;
    exec_options.backing = io_options.backing = pages;
    assert_status(hearth_exec_create(&exec_options, &exec), HEARTH_OK);
    assert_status(hearth_io_create(&io_options, &io), HEARTH_OK);
    assert_status(hearth_simple_create_on(pages, 1, &simple), HEARTH_OK);
    struct hearth_allocator *allocators[] = {hearth_exec_allocator(exec), hearth_io_allocator(io),
                                             hearth_simple_allocator(simple)};
    request.size = SIZE;
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned round = 0; round < 4; round++) {
            struct hearth_buf *buf = NULL;
            uint64_t before = purged();
            request.zero = round == 1 ? 77 : HEARTH_ZERO_LAZY; /* 77: as HEARTH_ZERO_WRITE */
            assert_status(hearth_alloc_ex(allocators[i], &request, &buf), HEARTH_OK);
            cr_assert(all(hearth_buf_data(buf), SIZE, 0));
            assert_size(purged() - before, i < 2 && round >= 2 ? SIZE : 0);
            memset(hearth_buf_data(buf), 9, SIZE);
            assert_status(hearth_free(allocators[i], buf), HEARTH_OK);
        }
    }
    assert_status(hearth_simple_destroy(simple), HEARTH_OK);
    assert_status(hearth_exec_destroy(exec), HEARTH_OK);
    hearth_io_unref(io);
    hearth_backing_unref(pages);
}
