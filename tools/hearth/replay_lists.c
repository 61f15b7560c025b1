/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef const char *name_finder(const char *name, size_t length);

/* Comma-separated names. `known` says which ones there are. */
static void parse_names(struct argp_state *state, const char *arg, name_finder *find,
                        const char *option, const char *known, const char *names[REPLAY_NAMES_MAX],
                        size_t *count)
{
    const char *at = arg;
    *count = 0;
    for (;;) {
        size_t length = strcspn(at, ",");
        const char *name = find(at, length);
        if (name == NULL) {
            argp_error(state, "%s '%.*s': expected %s", option, (int)length, at, known);
            return;
        }
        if (*count == REPLAY_NAMES_MAX) {
            argp_error(state, "%s '%s': at most %u names in one list", option, arg,
                       REPLAY_NAMES_MAX);
            return;
        }
        names[(*count)++] = name;
        if (at[length] == '\0') {
            return;
        }
        at += length + 1;
    }
}

void replay_parse_allocators(struct argp_state *state, const char *arg,
                             struct replay_options *options)
{
    parse_names(state, arg, replay_allocator_find, "--allocator",
                "hearth, service, malloc or jemalloc", options->allocators,
                &options->allocator_count);
}

void replay_parse_stores(struct argp_state *state, const char *arg, struct replay_options *options)
{
    parse_names(state, arg, replay_store_find, "--store", "lists, spans or plans", options->stores,
                &options->store_count);
    options->stores_given = true;
}

/* "0.3": digits, and up to four behind a point. */
static bool parse_rate(const char *text, size_t length, uint32_t *rate)
{
    uint64_t value = 0;
    uint32_t scale = 0; /* Of what comes next; 0: no point yet. */
    if (length == 0 || length > 8 || text[0] == '.' || text[length - 1] == '.') {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && scale == 0) {
            scale = REPLAY_RATE_WHOLE / 100;
        } else if (text[i] < '0' || text[i] > '9' || scale == 1) {
            return false;
        } else if (scale == 0) {
            value = value * 10 + (uint64_t)(text[i] - '0') * (REPLAY_RATE_WHOLE / 100);
        } else {
            scale /= 10;
            value += (uint64_t)(text[i] - '0') * scale;
        }
    }
    *rate = (uint32_t)value;
    return value > 0 && value <= REPLAY_RATE_WHOLE;
}

static const char *find_fault(const char *name, size_t length)
{
    for (enum replay_fault fault = 0; fault < REPLAY_FAULTS; fault++) {
        const char *known = replay_fault_name(fault);
        if (strlen(known) == length && strncmp(known, name, length) == 0) {
            return known;
        }
    }
    return NULL;
}

void replay_parse_faults(struct argp_state *state, const char *arg, struct replay_options *options)
{
    const char *names[REPLAY_NAMES_MAX];
    size_t count = 0;
    size_t length = strcspn(arg, ":");
    if (!parse_rate(arg, length, &options->faults.rate)) {
        argp_error(
            state,
            "--inject '%s': give a rate from 0.0001 to 100 per cent, and kinds behind a colon",
            arg);
    }
    if (arg[length] == ':') {
        parse_names(state, arg + length + 1, find_fault, "--inject",
                    "late, swap, extra, missing or resize", names, &count);
    }
    options->faults.kinds = 0;
    for (enum replay_fault fault = 0; fault < REPLAY_FAULTS; fault++) {
        bool named = count == 0;
        for (size_t i = 0; i < count; i++) {
            named = named || names[i] == replay_fault_name(fault);
        }
        options->faults.kinds |= named ? 1u << fault : 0;
    }
}

/* The store that HEARTH_CONF orders, whatever the options say; NULL: none. */
static const char *ordered_store(void)
{
    static const char key[] = "exec_store:";
    const char *conf = getenv("HEARTH_CONF");
    const char *at = conf != NULL ? strstr(conf, key) : NULL;
    if (at == NULL || (at != conf && at[-1] != ',')) {
        return NULL;
    }
    at += strlen(key);
    return replay_store_find(at, strcspn(at, ","));
}

/* Without --store. */
static void default_store(struct replay_options *options)
{
    const char *ordered = ordered_store();
    options->stores[0] = ordered != NULL ? ordered : replay_store_find("lists", strlen("lists"));
    options->store_count = 1;
}

static bool any_hearth(const struct replay_options *options)
{
    for (size_t i = 0; i < options->allocator_count; i++) {
        if (replay_allocator_is_hearth(options->allocators[i])) {
            return true;
        }
    }
    return false;
}

static void add_subjects(struct replay_options *options, const char *allocator)
{
    bool hearth = replay_allocator_is_hearth(allocator);
    size_t stores = hearth ? options->store_count : 1;
    for (size_t i = 0; i < stores; i++) {
        options->subjects[options->subject_count++] = (struct replay_subject){
            .allocator = allocator,
            .backing = hearth ? options->backing : NULL,
            .store = hearth ? options->stores[i] : NULL,
        };
    }
}

/* Several stores are there to be compared: malloc and jemalloc stand beside them, where they can. */
static void add_peers(struct replay_options *options)
{
    static const char *const peers[] = {"malloc", "jemalloc"};
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        char message[REPLAY_MESSAGE_BYTES];
        bool possible =
            i == 0 ? replay_malloc_possible(message) : replay_jemalloc_possible(message);
        if (!possible) {
            fprintf(stderr, "hearth replay: without %s: %s\n", peers[i], message);
            continue;
        }
        add_subjects(options, peers[i]);
        options->peer_count++;
    }
}

void replay_choose_subjects(struct argp_state *state, struct replay_options *options)
{
    bool allocators_given = options->allocator_count > 0;
    if (!allocators_given) {
        options->allocators[options->allocator_count++] =
            options->fresh_threads ? "service" : "hearth";
    }
    if (options->backing != NULL && !any_hearth(options)) {
        argp_error(state,
                   "--backing is an option of --allocator hearth and service, not of %s: drop one",
                   options->allocators[0]);
    }
    if (options->stores_given && !any_hearth(options)) {
        argp_error(state,
                   "--store is an option of --allocator hearth and service, not of %s: drop one",
                   options->allocators[0]);
    }
    if (options->stores_given && ordered_store() != NULL) {
        argp_error(state, "--store: HEARTH_CONF says exec_store:%s, which overrides it: drop one",
                   ordered_store());
    }
    if (!options->stores_given) {
        default_store(options);
    }
    for (size_t i = 0; i < options->allocator_count; i++) {
        add_subjects(options, options->allocators[i]);
    }
    if (!allocators_given && options->store_count > 1) {
        add_peers(options);
    }
}
