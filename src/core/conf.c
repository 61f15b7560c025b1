/* SPDX-License-Identifier: Apache-2.0 */
#include "core/conf.h"

#include "core/misuse.h"

#include <hearth/allocator.h>
#include <hearth/backing.h>
#include <hearth/exec.h>
#include <hearth/service.h>
#include <hearth/stats.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REUSE_RATIO_MAX 1024u
#define MESSAGE_BYTES 512

/* A piece of the text: not terminated. */
struct span {
    const char *at;
    size_t length;
};

static bool span_is(struct span span, const char *text)
{
    return span.length == strlen(text) && memcmp(span.at, text, span.length) == 0;
}

/* Cut `text` at the first `separator`; the rest follows it, or is empty with a NULL start. */
static struct span span_cut(struct span *text, char separator)
{
    const char *end = text->length == 0 ? NULL : memchr(text->at, separator, text->length);
    struct span piece = *text;
    if (end == NULL) {
        *text = (struct span){NULL, 0};
        return piece;
    }
    piece.length = (size_t)(end - text->at);
    *text = (struct span){end + 1, text->length - piece.length - 1};
    return piece;
}

static bool parse_number(struct span text, uint64_t *value)
{
    uint64_t number = 0;
    if (text.length == 0)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || __builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text.at[i] - '0'), &number))
            return false;
    }
    *value = number;
    return true;
}

static bool parse_size(struct span text, size_t *bytes)
{
    if (span_is(text, "unbounded")) {
        *bytes = HEARTH_UNBOUNDED;
        return true;
    }
    unsigned shift = 0;
    if (text.length > 1) {
        const char *units = "KMGT";
        const char *unit = strchr(units, text.at[text.length - 1]);
        if (unit != NULL && *unit != '\0') {
            shift = 10 * (unsigned)(unit - units + 1);
            text.length--;
        }
    }
    uint64_t number = 0;
    if (!parse_number(text, &number) || number > SIZE_MAX >> shift)
        return false;
    *bytes = (size_t)number << shift;
    return true;
}

struct key {
    const char *name;
    bool (*set)(struct hearth__conf *conf, const struct key *key, struct span value);
    const char *expects;
    size_t member; /* offsets in struct hearth__conf */
    size_t has;
    uint32_t least; /* of a size or a number */
    uint32_t most;  /* of a number */
};

static void *member(struct hearth__conf *conf, size_t offset)
{
    return (char *)conf + offset;
}

/* A number of bytes, or HEARTH_UNBOUNDED. */
static bool set_bound(struct hearth__conf *conf, const struct key *key, struct span value)
{
    size_t bytes;
    if (!parse_size(value, &bytes) || bytes < key->least)
        return false;
    *(bool *)member(conf, key->has) = true;
    *(size_t *)member(conf, key->member) = bytes;
    return true;
}

static bool set_bytes(struct hearth__conf *conf, const struct key *key, struct span value)
{
    return !span_is(value, "unbounded") && set_bound(conf, key, value);
}

static bool set_number(struct hearth__conf *conf, const struct key *key, struct span value)
{
    uint64_t number = 0;
    if (!parse_number(value, &number) || number < key->least || number > key->most)
        return false;
    *(bool *)member(conf, key->has) = true;
    *(uint32_t *)member(conf, key->member) = (uint32_t)number;
    return true;
}

static bool set_age(struct hearth__conf *conf, const struct key *key, struct span value)
{
    if (!span_is(value, "never"))
        return set_number(conf, key, value);
    *(bool *)member(conf, key->has) = true;
    *(uint32_t *)member(conf, key->member) = HEARTH_AGE_NEVER;
    return true;
}

static bool set_backing(struct hearth__conf *conf, const struct key *key, struct span value)
{
    (void)key;
    if (span_is(value, "jemalloc"))
        conf->backing = HEARTH__CONF_BACKING_JEMALLOC;
    else if (span_is(value, "mmap"))
        conf->backing = HEARTH__CONF_BACKING_MMAP;
    else
        return false;
    return true;
}

static bool set_huge_pages(struct hearth__conf *conf, const struct key *key, struct span value)
{
    (void)key;
    conf->has_huge_pages = true;
    if (span_is(value, "default"))
        conf->huge_pages = HEARTH_HUGE_PAGES_DEFAULT;
    else if (span_is(value, "on"))
        conf->huge_pages = HEARTH_HUGE_PAGES_ON;
    else if (span_is(value, "off"))
        conf->huge_pages = HEARTH_HUGE_PAGES_OFF;
    else
        return false;
    return true;
}

static bool set_maintenance(struct hearth__conf *conf, const struct key *key, struct span value)
{
    (void)key;
    conf->has_maintenance = true;
    conf->maintenance = span_is(value, "on");
    return conf->maintenance || span_is(value, "off");
}

static bool set_exec_store(struct hearth__conf *conf, const struct key *key, struct span value)
{
    (void)key;
    if (span_is(value, "lists"))
        conf->exec_store = HEARTH_EXEC_STORE_LISTS;
    else if (span_is(value, "spans"))
        conf->exec_store = HEARTH_EXEC_STORE_SPANS;
    else if (span_is(value, "plans"))
        conf->exec_store = HEARTH_EXEC_STORE_PLANS;
    else
        return false;
    return true;
}

static bool set_exhaustion(struct hearth__conf *conf, const struct key *key, struct span value)
{
    (void)key;
    conf->has_exhaustion = true;
    if (span_is(value, "grow"))
        conf->exhaustion = HEARTH_EXHAUSTION_GROW;
    else if (span_is(value, "fail"))
        conf->exhaustion = HEARTH_EXHAUSTION_FAIL;
    else if (span_is(value, "wait"))
        conf->exhaustion = HEARTH_EXHAUSTION_WAIT;
    else
        return false;
    return true;
}

static bool set_debug(struct hearth__conf *conf, const struct key *key, struct span value)
{
    static const char *const flags[] = {"poison", "quarantine", "guard", "sites", "abort"};
    (void)key;
    while (value.at != NULL) {
        struct span flag = span_cut(&value, '+');
        size_t i = 0;
        while (i < sizeof flags / sizeof flags[0] && !span_is(flag, flags[i]))
            i++;
        if (i == sizeof flags / sizeof flags[0])
            return false;
        conf->debug |= HEARTH__DEBUG_POISON << i;
    }
    return true;
}

#define MEMBER(name) offsetof(struct hearth__conf, name), offsetof(struct hearth__conf, has_##name)
#define BOUND "bytes such as 512M, or unbounded"
#define AGE "a number below 4294967295, or never"

static const struct key keys[] = {
    {"exec_cap", set_bound, BOUND, MEMBER(exec_cap), 0, 0},
    {"io_cap", set_bound, BOUND, MEMBER(io_cap), 0, 0},
    {"ceiling", set_bound, BOUND, MEMBER(ceiling), 0, 0},
    {"ceiling_percent", set_number, "a number from 1 to 100", MEMBER(ceiling_percent), 1, 100},
    {"grant", set_bytes, "bytes such as 1M, at least 1", MEMBER(grant), 1, 0},
    {"exec_floor", set_bytes, "bytes such as 64M", MEMBER(exec_floor), 0, 0},
    {"io_floor", set_bytes, "bytes such as 64M", MEMBER(io_floor), 0, 0},
    {"live_limit", set_bound, BOUND ", at least 1", MEMBER(live_limit), 1, 0},
    {"exhaustion", set_exhaustion, "grow, fail or wait", 0, 0, 0, 0},
    {"age_ms", set_age, AGE, MEMBER(age_ms), 0, HEARTH_AGE_NEVER - 1},
    {"age_runs", set_age, AGE, MEMBER(age_runs), 0, HEARTH_AGE_NEVER - 1},
    {"maintenance", set_maintenance, "on or off", 0, 0, 0, 0},
    {"reuse_ratio", set_number, "a number from 1 to 1024", MEMBER(reuse_ratio), 1, REUSE_RATIO_MAX},
    {"slots", set_bound, "a number of at least 1", MEMBER(slots), 1, 0},
    {"backing", set_backing, "jemalloc or mmap", 0, 0, 0, 0},
    {"huge_pages", set_huge_pages, "default, on or off", 0, 0, 0, 0},
    {"exec_store", set_exec_store, "lists, spans or plans", 0, 0, 0, 0},
    {"debug", set_debug, "poison, quarantine, guard, sites and abort, joined by +", 0, 0, 0, 0},
};

#define KEY_COUNT (sizeof keys / sizeof keys[0])

static const struct key *find_key(struct span name)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (span_is(name, keys[i].name))
            return &keys[i];
    }
    return NULL;
}

enum hearth_status hearth__conf_parse(const char *text, struct hearth__conf *conf, char *message,
                                      size_t bytes)
{
    struct hearth__conf parsed = {0};
    uint32_t seen = 0;
    struct span rest = {text, text == NULL ? 0 : strlen(text)};
    if (bytes != 0)
        message[0] = '\0';
    if (rest.length == 0)
        rest.at = NULL;
    while (rest.at != NULL) {
        struct span pair = span_cut(&rest, ',');
        struct span value = pair;
        struct span name = span_cut(&value, ':');
        const struct key *key = find_key(name);
        const char *problem = NULL;
        if (key == NULL)
            problem = "unknown key; known are exec_cap, io_cap, reuse_ratio, slots, backing, "
                      "huge_pages, debug, ceiling, ceiling_percent, grant, exec_floor, io_floor, "
                      "live_limit, exhaustion, age_ms, age_runs, maintenance and exec_store";
        else if ((seen & 1u << (key - keys)) != 0)
            problem = "given twice; once is allowed";
        else if (value.at == NULL || !key->set(&parsed, key, value))
            problem = key->expects;
        if (problem != NULL) {
            snprintf(message, bytes, "HEARTH_CONF: \"%.*s\": %s%s", (int)pair.length, pair.at,
                     key != NULL && problem == key->expects ? "expected " : "", problem);
            return HEARTH_INVALID;
        }
        seen |= 1u << (key - keys);
    }
    *conf = parsed;
    return HEARTH_OK;
}

enum hearth_status hearth__conf_environment(const char *call, struct hearth__conf *conf)
{
    char message[MESSAGE_BYTES];
    const char *text = getenv("HEARTH_CONF");
    enum hearth_status status = hearth__conf_parse(text, conf, message, sizeof message);
    if (status != HEARTH_OK)
        return hearth__misuse_detail(status, call, NULL, text, message);
    if ((conf->debug & HEARTH__DEBUG_ABORT) != 0)
        hearth__misuse_set_abort();
    return status;
}

/* Misuse before the first arena is there, too. */
static __attribute__((constructor)) void arm_abort(void)
{
    struct hearth__conf conf;
    char message[1];
    if (hearth__conf_parse(getenv("HEARTH_CONF"), &conf, message, sizeof message) == HEARTH_OK &&
        (conf.debug & HEARTH__DEBUG_ABORT) != 0)
        hearth__misuse_set_abort();
}

enum hearth_status hearth_conf_check(const char *text, char *message, size_t bytes)
{
    struct hearth__conf conf;
    char scratch[1];
    if (message == NULL)
        return hearth__conf_parse(text, &conf, scratch, sizeof scratch);
    return hearth__conf_parse(text, &conf, message, bytes);
}
