/* SPDX-License-Identifier: Apache-2.0 */
#include "core/conf.h"

#include "core/misuse.h"

#include <hearth/allocator.h>
#include <hearth/backing.h>
#include <hearth/stats.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REUSE_RATIO_MAX 1024u
#define MESSAGE_BYTES 256

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

static bool set_exec_cap(struct hearth__conf *conf, struct span value)
{
    conf->has_exec_cap = true;
    return parse_size(value, &conf->exec_cap);
}

static bool set_io_cap(struct hearth__conf *conf, struct span value)
{
    conf->has_io_cap = true;
    return parse_size(value, &conf->io_cap);
}

static bool set_reuse_ratio(struct hearth__conf *conf, struct span value)
{
    uint64_t ratio = 0;
    if (!parse_number(value, &ratio) || ratio < 1 || ratio > REUSE_RATIO_MAX)
        return false;
    conf->has_reuse_ratio = true;
    conf->reuse_ratio = (uint32_t)ratio;
    return true;
}

static bool set_slots(struct hearth__conf *conf, struct span value)
{
    conf->has_slots = true;
    return parse_size(value, &conf->slots) && conf->slots != 0;
}

static bool set_backing(struct hearth__conf *conf, struct span value)
{
    if (span_is(value, "jemalloc"))
        conf->backing = HEARTH__CONF_BACKING_JEMALLOC;
    else if (span_is(value, "mmap"))
        conf->backing = HEARTH__CONF_BACKING_MMAP;
    else
        return false;
    return true;
}

static bool set_huge_pages(struct hearth__conf *conf, struct span value)
{
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

static bool set_debug(struct hearth__conf *conf, struct span value)
{
    while (value.at != NULL) {
        if (!span_is(span_cut(&value, '+'), "poison"))
            return false;
        conf->debug |= HEARTH__DEBUG_POISON;
    }
    return true;
}

static const struct key {
    const char *name;
    bool (*set)(struct hearth__conf *conf, struct span value);
    const char *expects;
} keys[] = {
    {"exec_cap", set_exec_cap, "bytes such as 512M, or unbounded"},
    {"io_cap", set_io_cap, "bytes such as 512M, or unbounded"},
    {"reuse_ratio", set_reuse_ratio, "a number from 1 to 1024"},
    {"slots", set_slots, "a number of at least 1"},
    {"backing", set_backing, "jemalloc or mmap"},
    {"huge_pages", set_huge_pages, "default, on or off"},
    {"debug", set_debug, "poison"},
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
                      "huge_pages and debug";
        else if ((seen & 1u << (key - keys)) != 0)
            problem = "given twice; once is allowed";
        else if (value.at == NULL || !key->set(&parsed, value))
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
    return status == HEARTH_OK ? status : hearth__misuse_detail(status, call, NULL, text, message);
}

enum hearth_status hearth_conf_check(const char *text, char *message, size_t bytes)
{
    struct hearth__conf conf;
    char scratch[1];
    if (message == NULL)
        return hearth__conf_parse(text, &conf, scratch, sizeof scratch);
    return hearth__conf_parse(text, &conf, message, bytes);
}
