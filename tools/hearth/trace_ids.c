/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_ids.h"

#include "mix.h"

#include <stdlib.h>

#define FIRST_CAPACITY ((size_t)1024)

/* The id's entry, or the unused one where it belongs. There is always one: at most half are
 * used. */
static struct trace_id *locate(struct trace_id *entries, size_t capacity, uint64_t id)
{
    size_t at = (size_t)mix64(id) & (capacity - 1);
    while (entries[at].used && entries[at].id != id) {
        at = (at + 1) & (capacity - 1);
    }
    return &entries[at];
}

struct trace_id *trace_ids_find(const struct trace_ids *ids, uint64_t id)
{
    if (ids->capacity == 0) {
        return NULL;
    }
    struct trace_id *entry = locate(ids->entries, ids->capacity, id);
    return entry->used ? entry : NULL;
}

static bool grow(struct trace_ids *ids)
{
    size_t capacity = ids->capacity == 0 ? FIRST_CAPACITY : ids->capacity * 2;
    struct trace_id *entries = calloc(capacity, sizeof *entries);
    if (entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < ids->capacity; i++) {
        if (ids->entries[i].used) {
            *locate(entries, capacity, ids->entries[i].id) = ids->entries[i];
        }
    }
    free(ids->entries);
    ids->entries = entries;
    ids->capacity = capacity;
    return true;
}

struct trace_id *trace_ids_add(struct trace_ids *ids, uint64_t id)
{
    if (ids->count * 2 >= ids->capacity && !grow(ids)) {
        return NULL;
    }
    struct trace_id *entry = locate(ids->entries, ids->capacity, id);
    entry->id = id;
    entry->used = true;
    ids->count++;
    return entry;
}

void trace_ids_destroy(struct trace_ids *ids)
{
    free(ids->entries);
    ids->entries = NULL;
    ids->capacity = 0;
    ids->count = 0;
}
