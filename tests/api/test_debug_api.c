/* SPDX-License-Identifier: Apache-2.0 */
/* HEARTH_CONF=debug:... by the public calls alone: every combination of flags serves every kind of request, with
 * exact figures; misuse is told, and aborts where that was asked for. What is written into storage, and
 * quarantine from inside, are unit tests. */
#include "io_support.h"

#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const flags[] = {"poison", "quarantine", "guard", "sites"};

enum { COMBINATIONS = 1 << COUNT_OF(flags) };

static void set_flags(unsigned combination)
{
    char conf[128] = "debug:";
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        if ((combination >> i & 1) == 0)
            continue;
        strcat(conf, conf[strlen(conf) - 1] == ':' ? "" : "+");
        strcat(conf, flags[i]);
    }
    cr_assert_eq(setenv("HEARTH_CONF", combination == 0 ? "" : conf, 1), 0);
}

/* Every test of Criterion has a process of its own, so each combination has its default backing. */
ParameterizedTestParameters(debug_api, every_combination)
{
    static unsigned numbers[COMBINATIONS];
    for (unsigned i = 0; i < COMBINATIONS; i++)
        numbers[i] = i;
    return cr_make_param_array(unsigned, numbers, COMBINATIONS);
}

static void exec_round(struct hearth_exec *arena, size_t size, size_t alignment)
{
    const struct hearth_request request = {.size = size, .alignment = alignment, .zero = true};
    struct hearth_buf *zeroed = NULL;
    struct hearth_buf *buf = take_aligned(arena, size, alignment);
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % alignment, 0);
    memset(hearth_buf_data(buf), 0x5a, hearth_buf_capacity(buf));
    EXPECT(HEARTH_OK, hearth_exec_alloc_ex(arena, &request, &zeroed));
    cr_assert(filled(zeroed, size, 0));
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, 3 * size));
    cr_assert(filled(buf, size, 0x5a));
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % alignment, 0);
    give(arena, buf);
    give(arena, zeroed);
}

static void io_round(struct hearth_io *io, size_t size)
{
    struct hearth_lease lease = io_lease(io, size);
    struct hearth_buf *buf = io_take(io, size);
    memset(hearth_lease_data(lease), 0x5a, size);
    memset(hearth_buf_data(buf), 0xa5, hearth_buf_capacity(buf));
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, 3 * size));
    cr_assert(filled(buf, size, 0xa5));
    struct hearth_lease other = io_export(io, buf);
    io_drop(lease);
    cr_assert_not(hearth_lease_valid(lease));
    io_drop(other);
}

ParameterizedTest(unsigned *combination, debug_api, every_combination)
{
    set_flags(*combination);
    struct hearth_exec *arena = NULL;
    struct hearth_io *io = NULL;
    misuse_record();
    EXPECT(HEARTH_OK, hearth_exec_create(NULL, &arena));
    EXPECT(HEARTH_OK, hearth_io_create(NULL, &io));
    for (size_t round = 0; round < 20; round++) {
        for (size_t size = 1; size < 200 * KIB; size = size * 7 + 1) {
            exec_round(arena, size, 64);
            exec_round(arena, size, 4096);
            io_round(io, size);
        }
    }
    check_identity(arena, NULL);
    io_identity(io, NULL);
    struct hearth_buf *taken = NULL;
    EXPECT(HEARTH_OK, hearth_io_take(io, take(arena, 5000), &taken));
    io_give(io, taken);
    EXPECT(HEARTH_OK, hearth_exec_trim(arena, NULL));
    EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
    EXPECT_SIZE(0, hearth_exec_footprint(arena));
    EXPECT_SIZE(0, hearth_io_footprint(io));
    EXPECT_SIZE(0, misuse.count);
    struct hearth_buf *buf = take(arena, 100);
    give(arena, buf);
    EXPECT(HEARTH_STALE, hearth_exec_free(arena, buf));
    EXPECT_SIZE(1, misuse.count);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    EXPECT(HEARTH_OK, hearth_io_destroy(io));
}

static void free_elsewhere(void *argument)
{
    struct hearth_buf *buf = argument;
    EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(buf), buf));
}

Test(debug_api, returns_from_other_threads)
{
    set_flags(COMBINATIONS - 1);
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_exec_create(NULL, &arena));
    for (size_t i = 0; i < 100; i++) {
        on_thread(free_elsewhere, take(arena, 1000));
        check_identity(arena, NULL);
    }
    size_t outstanding = 1;
    struct hearth_buf *last = take(arena, 1000);
    EXPECT(HEARTH_OK, hearth_exec_detach(arena, &outstanding));
    EXPECT_SIZE(1, outstanding);
    on_thread(free_elsewhere, last);
}

/* In a child: return one buffer twice. Answers its wait status. */
static int twice(const char *conf, char *output, size_t bytes)
{
    int status = 0;
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct hearth_exec *arena = NULL;
        struct hearth_buf *buf = NULL;
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)setenv("HEARTH_CONF", conf, 1);
        if (hearth_exec_create(NULL, &arena) == HEARTH_OK &&
            hearth_exec_alloc(arena, 100, &buf) == HEARTH_OK &&
            hearth_exec_free(arena, buf) == HEARTH_OK)
            (void)hearth_exec_free(arena, buf);
        _exit(3);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], output, bytes - 1);
    output[length < 0 ? 0 : length] = '\0';
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

Test(debug_api, abort_on_misuse)
{
    char output[1024];
    int status = twice("debug:abort", output, sizeof output);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    cr_assert_not_null(strstr(output, "hearth_exec_free"), "%s", output);
    cr_assert_not_null(strstr(output, "STALE"), "%s", output);
    status = twice("debug:poison", output, sizeof output);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}
