/* SPDX-License-Identifier: Apache-2.0 */
/* The misuse hook: what it is told, the default, setting and restoring, calling hearth from inside. */
#include "core/misuse.h"
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void ignore(void *context, const struct hearth_misuse *misuse)
{
    (void)context, (void)misuse;
}

static const struct hearth_misuse_handler ignoring = {ignore, NULL};
static const struct hearth_misuse_handler ignoring_too = {ignore, NULL};
static const struct hearth_misuse_handler without_function = {NULL, NULL};

Test(misuse, set_answers_what_was_set)
{
    cr_assert_null(hearth_misuse_set_handler(&ignoring), "the default is no handler of a user's");
    cr_assert_eq(hearth_misuse_set_handler(&ignoring_too), &ignoring);
    cr_assert_eq(hearth_misuse_set_handler(NULL), &ignoring_too);
    cr_assert_null(hearth_misuse_set_handler(&without_function));
    cr_assert_null(hearth_misuse_set_handler(&ignoring),
                   "a handler without function is the default");
}

Test(misuse, the_handler_is_told_everything)
{
    struct hearth_allocator arena = {NULL};
    int slot = 0;
    misuse_record();
    uint64_t before = hearth_misuse_count();
    assert_status(hearth__misuse(HEARTH_LEASED, "hearth_test", &arena, &slot), HEARTH_LEASED);
    assert_size(misuse_seen.count, 1);
    cr_assert_eq(misuse_seen.status, HEARTH_LEASED);
    cr_assert_str_eq(misuse_seen.call, "hearth_test");
    cr_assert_eq(misuse_seen.arena, &arena);
    cr_assert_eq(misuse_seen.slot, &slot);
    cr_assert_not_null(strstr(misuse_seen.detail, "release its leases"));
    assert_status(hearth__misuse_detail(HEARTH_BUSY, "hearth_other", NULL, NULL, "a reason"),
                  HEARTH_BUSY);
    cr_assert_str_eq(misuse_seen.detail, "a reason");
    cr_assert_eq(hearth_misuse_count(), before + 2);
}

TheoryDataPoints(misuse, every_status_has_a_remedy) = {
    DataPoints(int, HEARTH_FOREIGN, HEARTH_STALE, HEARTH_LEASED, HEARTH_BUSY, HEARTH_NOT_OWNER,
               HEARTH_CLOSED, HEARTH_INVALID),
};

Theory((int status), misuse, every_status_has_a_remedy)
{
    misuse_record();
    (void)hearth__misuse((enum hearth_status)status, "hearth_test", NULL, NULL);
    cr_assert_eq((int)misuse_seen.status, status);
    cr_assert_gt(strlen(misuse_seen.detail), 10);
}

/* What is written to standard error while `fn` runs. */
static void capture(void (*fn)(void), char *text, size_t bytes)
{
    FILE *file = tmpfile();
    cr_assert_not_null(file);
    int saved = dup(STDERR_FILENO);
    cr_assert_neq(dup2(fileno(file), STDERR_FILENO), -1);
    fn();
    (void)fflush(stderr);
    cr_assert_neq(dup2(saved, STDERR_FILENO), -1);
    (void)close(saved);
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    (void)fclose(file);
}

static void one_misuse(void)
{
    (void)hearth__misuse(HEARTH_STALE, "hearth_exec_free", NULL, NULL);
}

static void many_misuses(void)
{
    for (unsigned i = 0; i < 100; i++)
        one_misuse();
}

static size_t lines_in(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        count++;
    return count;
}

Test(misuse, the_default_prints_one_line)
{
    char text[4096];
    capture(one_misuse, text, sizeof text);
    assert_size(lines_in(text), 1);
    cr_assert_not_null(strstr(text, "hearth_exec_free"), "%s", text);
    cr_assert_not_null(strstr(text, "STALE"), "%s", text);
    cr_assert_eq(hearth_misuse_count(), 1);
}

Test(misuse, the_default_falls_silent_and_goes_on_counting)
{
    char text[16384];
    capture(many_misuses, text, sizeof text);
    assert_size(lines_in(text), 17);
    cr_assert_not_null(strstr(text, "hearth_misuse_set_handler"), "the last line says so");
    cr_assert_eq(hearth_misuse_count(), 100);
    capture(one_misuse, text, sizeof text);
    cr_assert_str_eq(text, "");
    cr_assert_eq(hearth_misuse_count(), 101);
}

Test(misuse, a_handler_replaces_the_line_and_null_brings_it_back)
{
    char text[4096];
    (void)hearth_misuse_set_handler(&ignoring);
    capture(one_misuse, text, sizeof text);
    cr_assert_str_eq(text, "");
    (void)hearth_misuse_set_handler(NULL);
    capture(one_misuse, text, sizeof text);
    assert_size(lines_in(text), 1);
}

struct inside {
    struct hearth_exec *arena;
    size_t calls;
    enum hearth_status alloc;
    enum hearth_status free;
    size_t live;
};

/* Uses the arena whose misuse it hears about: the section must have been left. */
static void use_the_arena(void *context, const struct hearth_misuse *misuse)
{
    struct inside *inside = context;
    struct hearth_buf *buf = NULL;
    (void)misuse;
    if (inside->calls++ > 0)
        return;
    inside->alloc = hearth_exec_alloc(inside->arena, 500, &buf);
    inside->live = hearth_exec_live_count(inside->arena);
    inside->free = hearth_exec_free(inside->arena, buf);
}

Test(misuse, the_callback_may_call_hearth)
{
    static struct inside inside;
    static const struct hearth_misuse_handler handler = {use_the_arena, &inside};
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 0, 0);
    struct hearth_buf *buf = exec_take(arena, 100);
    struct hearth_buf *none = NULL;
    const struct hearth_request odd = {.size = 1, .alignment = 3};
    assert_ok(hearth_exec_free(arena, buf));
    (void)hearth_misuse_set_handler(&handler);

    for (unsigned i = 0; i < 4; i++) {
        inside = (struct inside){.arena = arena, .alloc = HEARTH_BUSY, .free = HEARTH_BUSY};
        switch (i) {
        case 0:
            assert_status(hearth_exec_free(arena, buf), HEARTH_STALE);
            break;
        case 1:
            assert_status(hearth_exec_free(arena, NULL), HEARTH_FOREIGN);
            break;
        case 2:
            assert_status(hearth_exec_alloc_ex(arena, &odd, &none), HEARTH_INVALID);
            break;
        default:
            assert_status(hearth_buf_resize(buf, 10), HEARTH_STALE);
            break;
        }
        assert_size(inside.calls, 1);
        assert_ok(inside.alloc);
        assert_ok(inside.free);
        assert_size(inside.live, 1);
    }
    assert_size(hearth_exec_live_count(arena), 0);
    (void)hearth_misuse_set_handler(NULL);
    assert_ok(hearth_exec_destroy(arena));
}
