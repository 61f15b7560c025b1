/* SPDX-License-Identifier: Apache-2.0 */
/* HEARTH_CONF and hearth_conf_check(). Every test runs in a process of its own, so each may set the
 * variable once before its first arena. Not covered: what poison writes. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static struct hearth_exec *create_with(const char *conf, const struct hearth_exec_options *options)
{
    struct hearth_exec *arena = NULL;
    cr_assert_eq(setenv("HEARTH_CONF", conf, 1), 0);
    EXPECT(HEARTH_OK, hearth_exec_create(options, &arena));
    return arena;
}

static void refuse(const char *conf, const char *names)
{
    char message[512] = "";
    EXPECT(HEARTH_INVALID, hearth_conf_check(conf, message, sizeof message));
    cr_assert_not_null(strstr(message, names), "\"%s\" does not name \"%s\" of \"%s\"", message,
                       names, conf);
    cr_assert_null(strchr(message, '\n'), "more than one line: %s", message);
    EXPECT(HEARTH_INVALID, hearth_conf_check(conf, NULL, 0));
}

static void accept(const char *conf)
{
    char message[512] = "x";
    enum hearth_status status = hearth_conf_check(conf, message, sizeof message);
    cr_assert_eq(status, HEARTH_OK, "\"%s\": %s", conf, message);
    cr_assert_str_empty(message);
    EXPECT(HEARTH_OK, hearth_conf_check(conf, NULL, 0));
}

Test(conf_api, good_strings)
{
    accept(NULL);
    accept("");
    accept("exec_cap:1G");
    accept("exec_cap:1G,io_cap:512M,reuse_ratio:4,debug:poison");
    accept("exec_cap:0");
    accept("exec_cap:17");
    accept("exec_cap:3K,io_cap:2T");
    accept("exec_cap:unbounded,io_cap:unbounded");
    accept("reuse_ratio:1");
    accept("reuse_ratio:1024");
    accept("slots:1");
    accept("backing:mmap");
    accept("huge_pages:default");
    accept("huge_pages:on");
    accept("huge_pages:off");
}

Test(conf_api, bad_strings_name_what_is_wrong)
{
    refuse("exec_kap:1G", "exec_kap");
    refuse("EXEC_CAP:1G", "EXEC_CAP");
    refuse("exec_cap:1G,nonsense:4", "nonsense");
    refuse("exec_cap:", "exec_cap");
    refuse("exec_cap", "exec_cap");
    refuse("exec_cap:1X", "exec_cap");
    refuse("exec_cap:1GG", "exec_cap");
    refuse("exec_cap:-1", "exec_cap");
    refuse("exec_cap:1.5G", "exec_cap");
    refuse("exec_cap: 1G", "exec_cap");
    refuse("exec_cap:99999999999999999999", "exec_cap");
    refuse("exec_cap:99999999999T", "exec_cap");
    refuse("io_cap:G", "io_cap");
    refuse("reuse_ratio:0", "reuse_ratio");
    refuse("reuse_ratio:1025", "reuse_ratio");
    refuse("reuse_ratio:four", "reuse_ratio");
    refuse("slots:0", "slots");
    refuse("slots:many", "slots");
    refuse("backing:floppy", "floppy");
    refuse("huge_pages:maybe", "maybe");
    refuse("debug:poisen", "poisen");
    refuse("debug:poison+nothing", "nothing");
    EXPECT(HEARTH_INVALID, hearth_conf_check(",", NULL, 0));
    EXPECT(HEARTH_INVALID, hearth_conf_check("exec_cap:1G,", NULL, 0));
    EXPECT(HEARTH_INVALID, hearth_conf_check(",exec_cap:1G", NULL, 0));
    EXPECT(HEARTH_INVALID, hearth_conf_check(":", NULL, 0));
    EXPECT(HEARTH_INVALID, hearth_conf_check(":1", NULL, 0));
    EXPECT(HEARTH_INVALID, hearth_conf_check("exec_cap:1G;io_cap:1G", NULL, 0));
}

Test(conf_api, message_is_cut_to_its_room)
{
    char message[16];
    for (size_t bytes = 0; bytes <= 8; bytes++) {
        memset(message, 0x55, sizeof message);
        EXPECT(HEARTH_INVALID, hearth_conf_check("nonsense:1", message, bytes));
        for (size_t i = bytes; i < sizeof message; i++)
            cr_assert_eq(message[i], 0x55);
        if (bytes)
            cr_assert_lt(strnlen(message, bytes), bytes, "not terminated");
    }
}

Test(conf_api, check_applies_nothing)
{
    accept("exec_cap:12345");
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_exec_create(NULL, &arena));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_exec_retention_cap(arena));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(conf_api, overrides_cap_and_slots)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.retention_cap = 777;
    options.slots = 9;
    struct hearth_exec *arena = create_with("exec_cap:2M,slots:3,io_cap:1G", &options);
    EXPECT_SIZE(2 * MIB, hearth_exec_retention_cap(arena));
    EXPECT_SIZE(3, hearth_exec_slots(arena));
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 5));
    EXPECT_SIZE(5, hearth_exec_retention_cap(arena));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(conf_api, overrides_with_unbounded)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.retention_cap = 777;
    struct hearth_exec *arena = create_with("exec_cap:unbounded", &options);
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_exec_retention_cap(arena));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

/* A size of 0 in the string is the bound itself, not "the default". */
Test(conf_api, a_cap_of_zero_retains_nothing)
{
    struct hearth_exec *arena = create_with("exec_cap:0", NULL);
    give(arena, take(arena, 1000));
    EXPECT_SIZE(0, hearth_exec_retained_bytes(arena));
    cr_assert_leq(hearth_exec_retention_cap(arena), 1u); /* 1 retains nothing either */
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(conf_api, options_hold_where_the_variable_is_silent)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.retention_cap = 777;
    options.slots = 9;
    struct hearth_exec *arena = create_with("slots:3", &options);
    EXPECT_SIZE(777, hearth_exec_retention_cap(arena));
    EXPECT_SIZE(3, hearth_exec_slots(arena));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(conf_api, overrides_the_reuse_ratio)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.reuse_ratio = 1;
    struct hearth_exec *arena = create_with("reuse_ratio:64", &options);
    struct hearth_buf *buf = take(arena, 64 * KIB);
    void *data = hearth_buf_data(buf);
    give(arena, buf);
    buf = take(arena, KIB);
    cr_assert_eq(hearth_buf_data(buf), data);
    give(arena, buf);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(conf_api, chooses_the_default_backing)
{
    struct hearth_exec *arena = create_with("backing:mmap", NULL);
    struct hearth_backing *backing = NULL;
    EXPECT(HEARTH_OK, hearth_backing_default(&backing));
    cr_assert_str_eq(hearth_backing_name(backing), "mmap");
    struct hearth_buf *buf = take(arena, 1);
    EXPECT_SIZE(4096, hearth_buf_capacity(buf));
    EXPECT_SIZE(4096, hearth_backing_footprint(backing));
    give(arena, buf);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(conf_api, a_bad_key_refuses_creation_and_is_told)
{
    struct hearth_exec *arena = NULL;
    misuse_record();
    cr_assert_eq(setenv("HEARTH_CONF", "exec_cap:1G,exec_kap:2G", 1), 0);
    EXPECT(HEARTH_INVALID, hearth_exec_create(NULL, &arena));
    cr_assert_null(arena);
    cr_assert_eq(misuse.count, 1u);
    cr_assert_eq(misuse.status, HEARTH_INVALID);
    cr_assert_str_eq(misuse.call, "hearth_exec_create");
    cr_assert_not_null(strstr(misuse.detail, "exec_kap"), "%s", misuse.detail);
    EXPECT(HEARTH_INVALID, hearth_exec_create(NULL, &arena));
}

Test(conf_api, a_bad_value_refuses_creation_and_is_told)
{
    struct hearth_exec *arena = NULL;
    misuse_record();
    cr_assert_eq(setenv("HEARTH_CONF", "reuse_ratio:0", 1), 0);
    EXPECT(HEARTH_INVALID, hearth_exec_create(NULL, &arena));
    cr_assert_not_null(strstr(misuse.detail, "reuse_ratio"), "%s", misuse.detail);
}

Test(conf_api, poison_keeps_contents_of_live_buffers_and_zero_requests)
{
    struct hearth_exec *arena = create_with("debug:poison", NULL);
    struct hearth_request zero = {.size = 5000, .zero = true};
    struct hearth_buf *live = take(arena, 5000), *buf = NULL;
    fill(live, 0x11);
    for (size_t i = 0; i < 4; i++) {
        EXPECT(HEARTH_OK, hearth_exec_alloc_ex(arena, &zero, &buf));
        cr_assert(filled(buf, 5000, 0));
        fill(buf, 0x22);
        EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, 50000));
        cr_assert(filled(buf, 5000, 0x22));
        fill(buf, 0x33);
        give(arena, buf);
    }
    cr_assert(filled(live, 5000, 0x11));
    give(arena, live);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}
