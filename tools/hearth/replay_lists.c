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
