/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_allocator.h"

#include <stdio.h>
#include <string.h>

bool replay_allocator_known(const char *name)
{
    return strcmp(name, "hearth") == 0 || strcmp(name, "service") == 0 ||
           strcmp(name, "malloc") == 0 || strcmp(name, "jemalloc") == 0 ||
           strcmp(name, "broken") == 0;
}

struct replay_allocator *replay_allocator_create(const char *name, const char *backing,
                                                 char message[REPLAY_MESSAGE_BYTES])
{
    if (strcmp(name, "hearth") == 0) {
        return replay_hearth_create(false, backing, message);
    }
    if (strcmp(name, "service") == 0) {
        return replay_hearth_create(true, backing, message);
    }
    if (strcmp(name, "malloc") == 0) {
        return replay_malloc_create(message);
    }
    if (strcmp(name, "jemalloc") == 0) {
        return replay_jemalloc_create(message);
    }
    if (strcmp(name, "broken") == 0) {
        return replay_broken_create();
    }
    snprintf(message, REPLAY_MESSAGE_BYTES, "unknown allocator '%s'", name);
    return NULL;
}
