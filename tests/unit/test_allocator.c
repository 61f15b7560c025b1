/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator interface: every call reaches its own entry of the table with its own arguments, what a
 * missing allocator gives, and where a resize goes when the buffer names its owner. */
#include "core/buf.h"
#include "support.h"

/* A wrapper that notes the last call and answers what it is told. */
static struct {
    struct hearth_allocator allocator;
    enum hearth_status answer;
    const char *called;
    const struct hearth_allocator *self;
    struct hearth_request request;
    struct hearth_buf *buf;
    size_t size;
    bool keep;
} noted;

static void note(const char *called, const struct hearth_allocator *self)
{
    noted.called = called;
    noted.self = self;
}

static enum hearth_status note_alloc(struct hearth_allocator *self,
                                     const struct hearth_request *request, struct hearth_buf **buf)
{
    note("alloc", self);
    noted.request = *request;
    *buf = noted.buf;
    return noted.answer;
}

static enum hearth_status note_free(struct hearth_allocator *self, struct hearth_buf *buf)
{
    note("free", self);
    noted.buf = buf;
    return noted.answer;
}

static enum hearth_status note_resize(struct hearth_allocator *self, struct hearth_buf *buf,
                                      size_t size, bool keep)
{
    note("resize", self);
    noted.buf = buf;
    noted.size = size;
    noted.keep = keep;
    return noted.answer;
}

static size_t note_live_bytes(const struct hearth_allocator *self)
{
    note("live_bytes", self);
    return 111;
}

static size_t note_peak_bytes(const struct hearth_allocator *self)
{
    note("peak_bytes", self);
    return 222;
}

static enum hearth_status note_reset_peak(struct hearth_allocator *self)
{
    note("reset_peak", self);
    return noted.answer;
}

static const struct hearth_allocator_ops note_ops = {
    .size = sizeof note_ops,
    .kind = "noting",
    .alloc = note_alloc,
    .free = note_free,
    .resize = note_resize,
    .live_bytes = note_live_bytes,
    .peak_bytes = note_peak_bytes,
    .reset_peak = note_reset_peak,
};

static struct hearth_allocator *const noting = &noted.allocator;
static struct hearth_buf some;

static void start(void)
{
    noted.allocator.ops = &note_ops;
    noted.answer = HEARTH_CLOSED; /* as good as any other */
    noted.buf = &some;
    misuse_record();
}

static void assert_called(const char *called)
{
    cr_assert_str_eq(noted.called, called);
    cr_assert_eq(noted.self, noting);
    noted.called = "none";
    assert_size(misuse_seen.count, 0);
}

Test(allocator, calls_go_through_the_table, .init = start)
{
    struct hearth_buf *buf = NULL;
    const struct hearth_request request = {.size = 7, .alignment = 128, .priority = 1, .zero = 1};
    assert_status(hearth_alloc(noting, 1234, &buf), HEARTH_CLOSED);
    assert_called("alloc");
    cr_assert_eq(buf, &some);
    assert_size(noted.request.size, 1234);
    assert_size(noted.request.alignment, 0);
    cr_assert_eq(noted.request.deadline_ns, HEARTH_NO_WAIT);
    assert_status(hearth_alloc_ex(noting, &request, &buf), HEARTH_CLOSED);
    assert_called("alloc");
    assert_size(noted.request.size, 7);
    assert_size(noted.request.alignment, 128);
    cr_assert_eq(noted.request.priority, 1);
    cr_assert_eq(noted.request.zero, 1);
    /* Whether it is a buffer at all is for the allocator to say. */
    assert_status(hearth_free(noting, NULL), HEARTH_CLOSED);
    assert_called("free");
    cr_assert_null(noted.buf);
    assert_status(hearth_resize(noting, &some, 99, true), HEARTH_CLOSED);
    assert_called("resize");
    cr_assert_eq(noted.buf, &some);
    assert_size(noted.size, 99);
    cr_assert(noted.keep);
    assert_status(hearth_resize(noting, &some, 98, false), HEARTH_CLOSED);
    cr_assert_not(noted.keep);
    assert_size(hearth_live_bytes(noting), 111);
    assert_called("live_bytes");
    assert_size(hearth_peak_bytes(noting), 222);
    assert_called("peak_bytes");
    assert_status(hearth_reset_peak(noting), HEARTH_CLOSED);
    assert_called("reset_peak");
}

Test(allocator, a_missing_argument_is_misuse, .init = start)
{
    struct hearth_buf *buf = NULL;
    const struct hearth_request request = HEARTH_REQUEST_INIT;
    noted.called = "none";
    assert_status(hearth_alloc(NULL, 1, &buf), HEARTH_INVALID);
    assert_status(hearth_alloc(noting, 1, NULL), HEARTH_INVALID);
    assert_status(hearth_alloc_ex(NULL, &request, &buf), HEARTH_INVALID);
    assert_status(hearth_alloc_ex(noting, NULL, &buf), HEARTH_INVALID);
    assert_status(hearth_alloc_ex(noting, &request, NULL), HEARTH_INVALID);
    assert_status(hearth_free(NULL, &some), HEARTH_INVALID);
    assert_status(hearth_resize(NULL, &some, 1, true), HEARTH_INVALID);
    assert_status(hearth_reset_peak(NULL), HEARTH_INVALID);
    assert_size(misuse_seen.count, 8);
    assert_size(hearth_live_bytes(NULL), 0);
    assert_size(hearth_peak_bytes(NULL), 0);
    assert_size(misuse_seen.count, 8);
    cr_assert_str_eq(noted.called, "none");
    cr_assert_null(buf);
}

/* A buffer's own resize goes to the arena that made it, whoever wraps that. */
Test(allocator, a_buffer_knows_whom_to_ask, .init = start)
{
    struct lender lender;
    struct hearth_simple *simple = NULL;
    struct hearth_buf *buf = NULL;
    struct hearth_backing *backing = lender_open(&lender);
    assert_ok(hearth_simple_create_on(backing, 2, &simple));
    assert_ok(hearth_alloc(hearth_simple_allocator(simple), 100, &buf));
    noted.called = "none";
    pattern_write(hearth_buf_data(buf), 100, 1);
    assert_ok(hearth_buf_resize_keep(buf, 100000));
    cr_assert(pattern_holds(hearth_buf_data(buf), 100, 1));
    assert_size(hearth_buf_size(buf), 100000);
    assert_ok(hearth_buf_resize(buf, 10));
    assert_size(hearth_buf_size(buf), 10);
    cr_assert_str_eq(noted.called, "none");
    assert_status(hearth_resize(noting, buf, 20, false), HEARTH_CLOSED);
    assert_size(hearth_buf_size(buf), 10);
    assert_ok(hearth_free(hearth_simple_allocator(simple), buf));
    assert_ok(hearth_simple_destroy(simple));
    assert_size(misuse_seen.count, 0);
    assert_status(hearth_buf_resize(buf, 20), HEARTH_STALE);
    assert_size(misuse_seen.count, 1);
    hearth_backing_unref(backing);
}

Test(allocator, what_is_no_buffer_is_foreign, .init = start)
{
    int local = 0;
    assert_status(hearth_buf_resize(NULL, 20), HEARTH_FOREIGN);
    assert_status(hearth_buf_resize_keep(&some, 20), HEARTH_FOREIGN);
    assert_status(hearth_buf_resize((struct hearth_buf *)(void *)&local, 20), HEARTH_FOREIGN);
    assert_size(misuse_seen.count, 3);
}
