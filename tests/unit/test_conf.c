/* SPDX-License-Identifier: Apache-2.0 */
/* HEARTH_CONF: every key, every kind of mistake, and what the environment does to arenas. */
#include "core/conf.h"
#include "support.h"

#include <hearth/service.h>
#include <hearth/stats.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hearth__conf conf;
static char message[512];

static void parse(const char *text)
{
    memset(&conf, 0x55, sizeof conf);
    memset(message, 'x', sizeof message);
    cr_assert_eq(hearth__conf_parse(text, &conf, message, sizeof message), HEARTH_OK, "%s: %s",
                 text, message);
    cr_assert_str_eq(message, "");
}

static const char *const valid_keys[] = {
    "exec_cap:1G",         "io_cap:1",
    "reuse_ratio:4",       "slots:1",
    "backing:mmap",        "huge_pages:on",
    "debug:poison",        "exec_cap:unbounded",
    "ceiling:1G",          "ceiling:0",
    "ceiling:unbounded",   "ceiling_percent:1",
    "ceiling_percent:100", "grant:1M",
    "exec_floor:0",        "io_floor:64M",
    "live_limit:1",        "live_limit:unbounded",
    "exhaustion:grow",     "age_ms:0",
    "age_ms:never",        "age_runs:256",
    "age_runs:never",      "maintenance:on",
    "debug:guard",
};

Test(conf, each_key_alone_is_valid)
{
    for (size_t i = 0; i < COUNT_OF(valid_keys); i++) {
        parse(valid_keys[i]);
        assert_ok(hearth_conf_check(valid_keys[i], message, sizeof message));
    }
}

Test(conf, nothing_is_set_by_nothing)
{
    static const char *const empty[] = {NULL, ""};
    for (size_t i = 0; i < COUNT_OF(empty); i++) {
        parse(empty[i]);
        cr_assert_not(conf.has_exec_cap || conf.has_io_cap || conf.has_reuse_ratio ||
                      conf.has_slots || conf.has_huge_pages);
        cr_assert_not(conf.has_ceiling || conf.has_live_limit || conf.has_grant ||
                      conf.has_exec_floor || conf.has_io_floor || conf.has_age_ms ||
                      conf.has_age_runs || conf.has_maintenance || conf.has_exhaustion ||
                      conf.has_ceiling_percent);
        cr_assert_eq(conf.backing, HEARTH__CONF_BACKING_UNSET);
        cr_assert_eq(conf.debug, 0);
    }
}

Test(conf, all_keys_together)
{
    parse("exec_cap:1G,io_cap:512M,reuse_ratio:7,slots:12K,backing:jemalloc,huge_pages:off,"
          "debug:poison");
    cr_assert(conf.has_exec_cap && conf.has_io_cap && conf.has_reuse_ratio && conf.has_slots &&
              conf.has_huge_pages);
    assert_size(conf.exec_cap, (size_t)1 << 30);
    assert_size(conf.io_cap, 512 * MIB);
    cr_assert_eq(conf.reuse_ratio, 7);
    assert_size(conf.slots, 12 * KIB);
    cr_assert_eq(conf.backing, HEARTH__CONF_BACKING_JEMALLOC);
    cr_assert_eq(conf.huge_pages, HEARTH_HUGE_PAGES_OFF);
    cr_assert_eq(conf.debug, HEARTH__DEBUG_POISON);
}

Test(conf, keys_of_the_service)
{
    parse("ceiling:2G,ceiling_percent:75,grant:256K,exec_floor:3M,io_floor:4M,live_limit:5G,"
          "exhaustion:wait,age_ms:1500,age_runs:12,maintenance:off");
    cr_assert(conf.has_ceiling && conf.has_ceiling_percent && conf.has_grant &&
              conf.has_exec_floor && conf.has_io_floor && conf.has_live_limit &&
              conf.has_exhaustion && conf.has_age_ms && conf.has_age_runs && conf.has_maintenance);
    cr_assert_not(conf.has_exec_cap || conf.has_io_cap);
    assert_size(conf.ceiling, (size_t)2 << 30);
    assert_size(conf.ceiling_percent, 75);
    assert_size(conf.grant, 256 * KIB);
    assert_size(conf.exec_floor, 3 * MIB);
    assert_size(conf.io_floor, 4 * MIB);
    assert_size(conf.live_limit, (size_t)5 << 30);
    cr_assert_eq(conf.exhaustion, HEARTH_EXHAUSTION_WAIT);
    cr_assert_eq(conf.age_ms, 1500);
    cr_assert_eq(conf.age_runs, 12);
    cr_assert_not(conf.maintenance);
    parse("exhaustion:fail,age_ms:never,age_runs:4294967294,maintenance:on,ceiling:unbounded");
    cr_assert_eq(conf.exhaustion, HEARTH_EXHAUSTION_FAIL);
    cr_assert_eq(conf.age_ms, HEARTH_AGE_NEVER);
    cr_assert_eq(conf.age_runs, UINT32_MAX - 1);
    cr_assert(conf.maintenance);
    assert_size(conf.ceiling, HEARTH_UNBOUNDED);
    parse("exhaustion:grow");
    cr_assert(conf.has_exhaustion);
    cr_assert_eq(conf.exhaustion, HEARTH_EXHAUSTION_GROW);
}

Test(conf, debug_flags)
{
    static const char *const names[] = {"poison", "quarantine", "guard", "sites", "abort"};
    char text[64];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(text, sizeof text, "debug:%s", names[i]);
        parse(text);
        cr_assert_eq(conf.debug, 1u << i, "%s", text);
    }
    parse("debug:poison+quarantine+guard+sites+abort");
    cr_assert_eq(conf.debug, HEARTH__DEBUG_POISON | HEARTH__DEBUG_QUARANTINE | HEARTH__DEBUG_GUARD |
                                 HEARTH__DEBUG_SITES | HEARTH__DEBUG_ABORT);
}

Test(conf, sizes)
{
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {
        {"exec_cap:0", 0},
        {"exec_cap:1", 1},
        {"exec_cap:007", 7},
        {"exec_cap:3K", 3 * KIB},
        {"exec_cap:5M", 5 * MIB},
        {"exec_cap:2G", (size_t)2 << 30},
        {"exec_cap:1T", (size_t)1 << 40},
        {"exec_cap:16777215T", (size_t)16777215 << 40},
        {"exec_cap:18446744073709551615", SIZE_MAX},
        {"exec_cap:unbounded", HEARTH_UNBOUNDED},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        parse(cases[i].text);
        assert_size(conf.exec_cap, cases[i].bytes);
    }
    parse("io_cap:18014398509481983K");
    assert_size(conf.io_cap, SIZE_MAX - 1023);
}

Test(conf, words)
{
    parse("backing:mmap,huge_pages:on");
    cr_assert_eq(conf.backing, HEARTH__CONF_BACKING_MMAP);
    cr_assert_eq(conf.huge_pages, HEARTH_HUGE_PAGES_ON);
    parse("huge_pages:default,reuse_ratio:1024");
    cr_assert(conf.has_huge_pages);
    cr_assert_eq(conf.huge_pages, HEARTH_HUGE_PAGES_DEFAULT);
    cr_assert_eq(conf.reuse_ratio, 1024);
    parse("debug:poison+poison");
    cr_assert_eq(conf.debug, HEARTH__DEBUG_POISON);
}

static const struct mistake {
    const char *text;
    const char *named; /* in the message */
} mistakes[] = {
    {"exec_cap", "exec_cap"},
    {"exec_cap:", "exec_cap"},
    {"exec_cap:x", "exec_cap:x"},
    {"exec_cap:-1", "exec_cap:-1"},
    {"exec_cap:+1", "exec_cap:+1"},
    {"exec_cap: 1", "exec_cap: 1"},
    {"exec_cap:1 ", "exec_cap:1 "},
    {"exec_cap:1k", "exec_cap:1k"},
    {"exec_cap:1KB", "exec_cap:1KB"},
    {"exec_cap:K", "exec_cap:K"},
    {"exec_cap:1.5G", "exec_cap:1.5G"},
    {"exec_cap:0x10", "exec_cap:0x10"},
    {"exec_cap:1:2", "exec_cap:1:2"},
    {"exec_cap:UNBOUNDED", "exec_cap:UNBOUNDED"},
    {"exec_cap:18446744073709551616", "exec_cap:18446744073709551616"},
    {"exec_cap:16777216T", "exec_cap:16777216T"},
    {"io_cap:18014398509481984K", "io_cap:18014398509481984K"},
    {"io_cap:", "io_cap"},
    {"reuse_ratio:0", "reuse_ratio:0"},
    {"reuse_ratio:1025", "reuse_ratio:1025"},
    {"reuse_ratio:4K", "reuse_ratio:4K"},
    {"reuse_ratio:4294967297", "reuse_ratio:4294967297"},
    {"slots:0", "slots:0"},
    {"slots:many", "slots:many"},
    {"backing:malloc", "backing:malloc"},
    {"backing:jemalloc2", "backing:jemalloc2"},
    {"backing:", "backing"},
    {"huge_pages:yes", "huge_pages:yes"},
    {"debug:", "debug"},
    {"debug:poison+", "debug:poison+"},
    {"debug:poison+guards", "debug:poison+guards"},
    {"debug:poison+guard+", "debug:poison+guard+"},
    {"debug:+abort", "debug:+abort"},
    {"debug:never", "debug:never"},
    {"ceiling:", "ceiling"},
    {"ceiling:lots", "ceiling:lots"},
    {"ceiling_percent:0", "ceiling_percent:0"},
    {"ceiling_percent:101", "ceiling_percent:101"},
    {"ceiling_percent:50%", "ceiling_percent:50%"},
    {"grant:0", "grant:0"},
    {"grant:unbounded", "grant:unbounded"},
    {"exec_floor:unbounded", "exec_floor:unbounded"},
    {"io_floor:-1", "io_floor:-1"},
    {"live_limit:0", "live_limit:0"},
    {"exhaustion:block", "exhaustion:block"},
    {"exhaustion:", "exhaustion"},
    {"age_ms:4294967295", "age_ms:4294967295"},
    {"age_ms:10s", "age_ms:10s"},
    {"age_runs:always", "age_runs:always"},
    {"age_runs:", "age_runs"},
    {"maintenance:yes", "maintenance:yes"},
    {"maintenance:", "maintenance"},
    {"ceiling:1,ceiling:1", "ceiling:1"},
    {"exec_Cap:1", "exec_Cap:1"},
    {"exec_capx:1", "exec_capx:1"},
    {"exec_ca:1", "exec_ca:1"},
    {" exec_cap:1", " exec_cap:1"},
    {"colour:red", "colour:red"},
    {":1", ":1"},
    {"exec_cap:1,,io_cap:1", "unknown key"},
    {"exec_cap:1,", "unknown key"},
    {",exec_cap:1", "unknown key"},
    {",", "unknown key"},
    {"exec_cap:1;io_cap:1", "exec_cap:1;io_cap:1"},
    {"exec_cap:1,exec_cap:1", "exec_cap:1"},
    {"slots:1,reuse_ratio:2,slots:3", "slots:3"},
    {"io_cap:1,reuse_ratio:9999,exec_cap:1", "reuse_ratio:9999"},
    {"debug:poison,debug:poison", "debug:poison"},
};

/* By number: Criterion runs each in a process of its own, in which pointers are other ones. */
ParameterizedTestParameters(conf, every_mistake_is_named)
{
    static unsigned numbers[COUNT_OF(mistakes)];
    for (unsigned i = 0; i < COUNT_OF(mistakes); i++)
        numbers[i] = i;
    return cr_make_param_array(unsigned, numbers, COUNT_OF(mistakes));
}

ParameterizedTest(unsigned *number, conf, every_mistake_is_named)
{
    const struct mistake *mistake = &mistakes[*number];
    memset(&conf, 0x55, sizeof conf);
    struct hearth__conf before;
    memcpy(&before, &conf, sizeof conf);
    assert_status(hearth__conf_parse(mistake->text, &conf, message, sizeof message),
                  HEARTH_INVALID);
    cr_assert_not_null(strstr(message, "HEARTH_CONF"), "%s", message);
    cr_assert_not_null(strstr(message, mistake->named), "\"%s\" is not named by: %s",
                       mistake->named, message);
    cr_assert_null(strchr(message, '\n'), "one line");
    cr_assert_eq(memcmp(&before, &conf, sizeof conf), 0, "nothing is set by a bad text");
    assert_status(hearth_conf_check(mistake->text, NULL, 0), HEARTH_INVALID);
}

Test(conf, messages_say_what_would_be_right)
{
    static const char *const cases[][2] = {
        {"exec_cap:x", "512M"},
        {"io_cap:x", "unbounded"},
        {"reuse_ratio:0", "1 to 1024"},
        {"slots:0", "at least 1"},
        {"backing:x", "jemalloc or mmap"},
        {"huge_pages:x", "on or off"},
        {"debug:x", "quarantine"},
        {"ceiling:x", "unbounded"},
        {"ceiling_percent:x", "1 to 100"},
        {"grant:0", "at least 1"},
        {"live_limit:0", "at least 1"},
        {"exec_floor:x", "64M"},
        {"exhaustion:x", "grow, fail or wait"},
        {"age_ms:x", "never"},
        {"age_runs:x", "never"},
        {"maintenance:x", "on or off"},
        {"slots:1,slots:1", "twice"},
        {"x:1", "reuse_ratio"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_status(hearth_conf_check(cases[i][0], message, sizeof message), HEARTH_INVALID);
        cr_assert_not_null(strstr(message, cases[i][1]), "%s: %s", cases[i][0], message);
    }
}

Test(conf, a_small_message_is_cut_and_terminated)
{
    char small[12];
    memset(small, 'x', sizeof small);
    assert_status(hearth_conf_check("colour:red", small, sizeof small), HEARTH_INVALID);
    cr_assert_eq(small[11], '\0');
    cr_assert_eq(strncmp(small, "HEARTH_CONF", 11), 0);
    small[0] = 'x';
    assert_status(hearth_conf_check("colour:red", small, 0), HEARTH_INVALID);
    cr_assert_eq(small[0], 'x', "no byte is written into none");
    assert_ok(hearth_conf_check(NULL, NULL, 0));
}

Test(conf, environment_overrides_the_program)
{
    cr_assert_eq(setenv("HEARTH_CONF", "exec_cap:8K,reuse_ratio:1,slots:3,backing:mmap", 1), 0);
    struct lender lender;
    struct hearth_backing *backing = lender_open(&lender);
    struct hearth_backing *standard = NULL;
    struct hearth_exec *arena = exec_open(backing, 100, 1 * MIB);
    assert_size(hearth_exec_slots(arena), 3);
    assert_size(hearth_exec_retention_cap(arena), 8 * KIB);
    assert_ok(hearth_backing_default(&standard));
    cr_assert_str_eq(hearth_backing_name(standard), "mmap");
    struct hearth_buf *buf = exec_take(arena, 4096);
    assert_size(lender.acquires, 0);
    assert_size(hearth_backing_footprint(standard), 4096);
    assert_ok(hearth_exec_free(arena, buf));
    cr_assert_neq(exec_take(arena, 2048), NULL);
    assert_size(hearth_exec_footprint(arena), 4096);
}

Test(conf, environment_reuse_ratio)
{
    cr_assert_eq(setenv("HEARTH_CONF", "reuse_ratio:1", 1), 0);
    struct lender lender;
    struct hearth_backing *backing = lender_open(&lender);
    struct hearth_exec *arena = exec_open(backing, 0, 0);
    assert_ok(hearth_exec_free(arena, exec_take(arena, 320)));
    struct hearth_buf *smaller = exec_take(arena, 256);
    assert_size(hearth_buf_capacity(smaller), 256);
    struct hearth_buf *same = exec_take(arena, 257);
    assert_size(hearth_buf_capacity(same), 320);
    assert_size(lender.acquires, 2);
}

Test(conf, environment_caps_to_nothing)
{
    cr_assert_eq(setenv("HEARTH_CONF", "exec_cap:0", 1), 0);
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 0, 0);
    assert_ok(hearth_exec_free(arena, exec_take(arena, 100)));
    assert_size(hearth_exec_retained_bytes(arena), 0);
    assert_size(lender.lent, 0);
}

Test(conf, environment_lifts_the_cap)
{
    cr_assert_eq(setenv("HEARTH_CONF", "exec_cap:unbounded", 1), 0);
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 0, 64);
    assert_size(hearth_exec_retention_cap(arena), HEARTH_UNBOUNDED);
    assert_ok(hearth_exec_free(arena, exec_take(arena, 1000)));
    assert_size(hearth_exec_retained_bytes(arena), 1024);
}

/* Past AddressSanitizer, which knows that nobody may read there. */
__attribute__((no_sanitize("address"))) static size_t count_poison(const unsigned char *data,
                                                                   size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((const volatile unsigned char *)data)[i] == 0xdb;
    return count;
}

Test(conf, environment_poisons)
{
    cr_assert_eq(setenv("HEARTH_CONF", "debug:poison", 1), 0);
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 0, 0);
    struct hearth_buf *buf = exec_take(arena, 1000);
    const unsigned char *data = hearth_buf_data(buf);
    memset(hearth_buf_data(buf), 0x11, 1000);
    assert_ok(hearth_exec_free(arena, buf));
    assert_size(count_poison(data, 1024), 1024);
    const struct hearth_request zeroed = {.size = 1000, .zero = true};
    assert_ok(hearth_exec_alloc_ex(arena, &zeroed, &buf));
    for (size_t i = 0; i < 1000; i++)
        cr_assert_eq(data[i], 0, "byte %zu", i);
    assert_size(lender.acquires, 1);
}

Test(conf, a_bad_environment_is_an_error_that_names_the_key)
{
    cr_assert_eq(setenv("HEARTH_CONF", "exec_cap:1G,reuse:4", 1), 0);
    struct hearth_exec *arena = NULL;
    struct hearth_backing *backing = NULL;
    misuse_record();
    assert_status(hearth_exec_create(NULL, &arena), HEARTH_INVALID);
    cr_assert_null(arena);
    assert_size(misuse_seen.count, 1);
    cr_assert_str_eq(misuse_seen.call, "hearth_exec_create");
    cr_assert_not_null(strstr(misuse_seen.detail, "reuse:4"), "%s", misuse_seen.detail);
    assert_status(hearth_backing_default(&backing), HEARTH_INVALID);
    assert_size(misuse_seen.count, 2);
    cr_assert_str_eq(misuse_seen.call, "hearth_backing_default");
    cr_assert_null(backing);
}
