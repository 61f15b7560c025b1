/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns, acquisition sites, shadow, and that debugging arenas never go by their plain paths. Quarantine and
 * guard pages have files of their own. */
#include "core/debug.h"

#include "concurrent/exec.h"
#include "concurrent/io.h"
#include "core/clock.h"
#include "core/misuse.h"
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads what must not be read, so not through the shadow. */
__attribute__((no_sanitize("address"))) static size_t count_of(const void *data, size_t bytes,
                                                               unsigned char value)
{
    const volatile unsigned char *at = data;
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += at[i] == value;
    return count;
}

static struct hearth_exec *exec_debugging(const char *conf)
{
    cr_assert_eq(setenv("HEARTH_CONF", conf, 1), 0);
    return exec_open(mmap_open(), 0, 0);
}

static struct hearth_io *io_debugging(const char *conf)
{
    struct hearth_io *io = NULL;
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    options.backing = mmap_open();
    cr_assert_eq(setenv("HEARTH_CONF", conf, 1), 0);
    assert_ok(hearth_io_create(&options, &io));
    return io;
}

static void die_by(int signal_number, void (*fn)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)signal(signal_number, SIG_DFL);
        fn();
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status), "it exited with %d", WEXITSTATUS(status));
    cr_assert_eq(WTERMSIG(status), signal_number);
}

Test(debug, execution_patterns)
{
    struct hearth_exec *arena = exec_debugging("debug:poison");
    struct hearth_buf *buf = exec_take(arena, 4096);
    unsigned char *data = hearth_buf_data(buf);
    assert_size(count_of(data, 4096, HEARTH__POISON_FRESH), 4096);
    memset(data, 1, 4096);
    assert_ok(hearth_exec_free(arena, buf));
    assert_size(count_of(data, 4096, HEARTH__POISON_RETURNED), 4096);
    const struct hearth_request zeroed = {.size = 4000, .zero = true};
    assert_ok(hearth_exec_alloc_ex(arena, &zeroed, &buf));
    cr_assert_eq(hearth_buf_data(buf), data);
    assert_size(count_of(data, 4000, 0), 4000);
    memset(data, 2, 4000);
    assert_ok(hearth_buf_resize_keep(buf, 10000));
    assert_size(count_of(hearth_buf_data(buf), 4000, 2), 4000);
    assert_size(count_of((char *)hearth_buf_data(buf) + 4000, 6000, HEARTH__POISON_FRESH), 6000);
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_destroy(arena));
}

Test(debug, io_patterns)
{
    struct hearth_io *io = io_debugging("debug:poison");
    for (size_t size = 4096; size <= MIB; size *= 16) {
        struct hearth_lease lease;
        assert_ok(hearth_io_lease(io, size, &lease));
        unsigned char *data = hearth_lease_data(lease);
        assert_size(count_of(data, size, HEARTH__POISON_FRESH), size);
        assert_ok(hearth_lease_release(lease));
        assert_size(count_of(data, size, HEARTH__POISON_RETURNED), size);
        struct hearth_buf *buf;
        assert_ok(hearth_io_alloc(io, size, &buf));
        assert_size(count_of(hearth_buf_data(buf), size, HEARTH__POISON_FRESH), size);
        assert_ok(hearth_io_free(io, buf));
    }
    assert_ok(hearth_io_destroy(io));
}

Test(debug, fresh_zeroes_are_known_and_not_overwritten)
{
    struct hearth_exec *arena = exec_debugging("debug:poison");
    const struct hearth_request zeroed = {.size = 9000, .zero = true};
    struct hearth_buf *buf;
    assert_ok(hearth_exec_alloc_ex(arena, &zeroed, &buf));
    assert_size(count_of(hearth_buf_data(buf), 9000, 0), 9000);
}

Test(debug, sites_are_those_of_a_generation)
{
    struct hearth_exec *arena = exec_debugging("debug:sites");
    struct hearth__site site;
    char text[1024];
    uint64_t serial = hearth__site_serial();
    uint64_t before = hearth__now_ns();
    struct hearth_buf *buf = exec_take(arena, 100);
    uint64_t generation = hearth_buf_generation(buf);
    cr_assert(hearth__site_find(buf->index, generation, &site));
    cr_assert_eq(site.serial, serial + 1);
    cr_assert(site.time_ns >= before && site.time_ns <= hearth__now_ns());
    hearth__site_text(&site, "\n", text, sizeof text);
    cr_assert_not_null(strchr(text, '('), "%s", text);
    cr_assert_not(hearth__site_find(buf->index, generation + 1, &site));
    cr_assert_not(hearth__site_find(buf->index, generation - 1, &site));
    assert_ok(hearth_exec_free(arena, buf));
    struct hearth_buf *again = exec_take(arena, 100);
    cr_assert_eq(again, buf);
    cr_assert(hearth__site_find(buf->index, generation + 1, &site));
    cr_assert_eq(site.serial, serial + 2);
    cr_assert_not(hearth__site_find(buf->index, generation, &site));
}

Test(debug, site_text_is_cut_and_terminated)
{
    struct hearth__site site = {.frames = {(void *)(uintptr_t)&count_of, (void *)8, NULL}};
    char text[1024];
    hearth__site_text(&site, " < ", text, sizeof text);
    cr_assert_not_null(strstr(text, " < 0x8"), "%s", text);
    char small[8] = "xxxxxxx";
    hearth__site_text(&site, " < ", small, sizeof small);
    cr_assert_eq(small[7], '\0');
    hearth__site_text(&site, " < ", small, 0);
    site.frames[0] = NULL;
    hearth__site_text(&site, " < ", text, sizeof text);
    cr_assert_str_eq(text, "");
}

Test(debug, what_came_by_other_ways_has_a_site_too)
{
    struct hearth_io *io = io_debugging("debug:sites");
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    struct hearth__site site;
    options.backing = io->backing;
    assert_ok(hearth_exec_create(&options, &arena));
    struct hearth_buf *taken = NULL;
    assert_ok(hearth_io_take(io, exec_take(arena, 1000), &taken));
    cr_assert(hearth__site_find(taken->index, hearth_buf_generation(taken), &site));
    struct hearth_lease lease;
    assert_ok(hearth_io_lease(io, 1000, &lease));
    cr_assert(hearth__site_find(lease.buf->index, lease.generation, &site));
}

static void free_one(void *argument)
{
    struct hearth_buf *buf = argument;
    assert_ok(hearth_free(hearth_buf_owner(buf), buf));
}

Test(debug, plain_paths_stay_closed)
{
    static const char *const confs[] = {"debug:poison", "debug:quarantine", "debug:sites"};
    for (size_t i = 0; i < COUNT_OF(confs); i++) {
        struct hearth_exec *arena = exec_debugging(confs[i]);
        for (size_t k = 0; k < 20; k++) {
            cr_assert_eq(arena->section.attention & HEARTH__ATTENTION_METERED,
                         HEARTH__ATTENTION_METERED);
            cr_assert_not(
                hearth__section_enter_plain(&arena->section, hearth__thread_token_peek()));
            struct hearth_buf *buf = exec_take(arena, 100);
            if (k % 2 == 0)
                on_thread(free_one, buf);
            else
                assert_ok(hearth_exec_free(arena, buf));
        }
        bool busy;
        (void)visit_all(arena, &busy);
        assert_ok(hearth_exec_trim(arena, NULL));
        assert_ok(hearth_exec_release_owner(arena));
        (void)exec_take(arena, 100);
        cr_assert_eq(arena->section.attention, HEARTH__ATTENTION_METERED);
    }
}

Test(debug, what_needs_no_closed_path_closes_none)
{
    struct hearth_exec *arena = exec_debugging("debug:guard+abort");
    cr_assert_eq(arena->debug, hearth__debug_ambient());
    cr_assert_eq(arena->section.attention != 0, hearth__debug_ambient() != 0);
}

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

Test(debug, address_sanitizer_sees_returned_storage)
{
    struct hearth_exec *arena = exec_debugging("");
    struct hearth_buf *buf = exec_take(arena, 1000);
    char *data = hearth_buf_data(buf);
    cr_assert_null(__asan_region_is_poisoned(data, hearth_buf_capacity(buf)));
    assert_ok(hearth_exec_free(arena, buf));
    cr_assert_eq(__asan_region_is_poisoned(data, 4096), data);
    cr_assert(__asan_address_is_poisoned(data + 4095));
    buf = exec_take(arena, 1000);
    cr_assert_eq(hearth_buf_data(buf), data);
    cr_assert_null(__asan_region_is_poisoned(data, 4096));
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_destroy(arena));

    struct hearth_io *io = io_debugging("");
    struct hearth_lease lease;
    assert_ok(hearth_io_lease(io, 1000, &lease));
    data = hearth_lease_data(lease);
    cr_assert_not(__asan_address_is_poisoned(data));
    assert_ok(hearth_lease_release(lease));
    cr_assert(__asan_address_is_poisoned(data));
    assert_ok(hearth_io_destroy(io));
}
#else
Test(debug, nothing_is_ambient_without_a_tool)
{
    assert_size(hearth__debug_ambient(), 0);
}
#endif

static void misuse_once(void)
{
    struct hearth_exec *arena = exec_debugging("debug:abort");
    struct hearth_buf *buf = exec_take(arena, 100);
    if (hearth_exec_free(arena, buf) == HEARTH_OK)
        (void)hearth_exec_free(arena, buf);
}

static void misuse_untold(void)
{
    hearth__misuse_set_abort();
    (void)hearth__misuse_untold(HEARTH_BUSY);
}

static void misuse_recorded(void)
{
    misuse_record();
    misuse_once();
}

Test(debug, abort_aborts)
{
    die_by(SIGABRT, misuse_once);
    die_by(SIGABRT, misuse_untold);
    die_by(SIGABRT, misuse_recorded);
}
