/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_allocator.h"

#include <stdio.h>
#include <string.h>

static const char *const allocator_names[] = {"hearth", "service", "malloc", "jemalloc", "broken"};

/* In the order of enum hearth_exec_store. */
static const char *const store_names[] = {"lists", "spans", "plans"};

static const char *find(const char *const *names, size_t count, const char *name, size_t length)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0) {
            return names[i];
        }
    }
    return NULL;
}

const char *replay_allocator_find(const char *name, size_t length)
{
    return find(allocator_names, sizeof allocator_names / sizeof allocator_names[0], name, length);
}

const char *replay_store_find(const char *name, size_t length)
{
    return find(store_names, sizeof store_names / sizeof store_names[0], name, length);
}

uint32_t replay_store_number(const char *store)
{
    for (uint32_t i = 0; i < sizeof store_names / sizeof store_names[0]; i++) {
        if (strcmp(store_names[i], store) == 0) {
            return i + 1;
        }
    }
    return 0;
}

bool replay_allocator_is_hearth(const char *name)
{
    return strcmp(name, "hearth") == 0 || strcmp(name, "service") == 0;
}

struct replay_allocator *replay_allocator_create(const struct replay_subject *subject,
                                                 char message[REPLAY_MESSAGE_BYTES])
{
    if (replay_allocator_is_hearth(subject->allocator)) {
        return replay_hearth_create(subject, message);
    }
    if (strcmp(subject->allocator, "malloc") == 0) {
        return replay_malloc_create(message);
    }
    if (strcmp(subject->allocator, "jemalloc") == 0) {
        return replay_jemalloc_create(message);
    }
    if (strcmp(subject->allocator, "broken") == 0) {
        return replay_broken_create();
    }
    snprintf(message, REPLAY_MESSAGE_BYTES, "unknown allocator '%s'", subject->allocator);
    return NULL;
}
