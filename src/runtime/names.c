/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned names: a hash table with open addressing and linear probing whose entries are numbers of
 * texts. Names are only added, so there are no tombstones and a free entry ends every search. The
 * hash is FNV-1a of 64 bits (G. Fowler, L. C. Noll, K.-P. Vo, "The FNV Non-Cryptographic Hash
 * Algorithm", IETF draft-eastlake-fnv). At most three entries in four are used.
 */
#include "runtime/names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FIRST 16u
#define ROOM_FIRST 8u
#define NAMES_MOST (UINT32_MAX - 1)

static size_t hash(const char *name)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        value = (value ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (size_t)(value ^ value >> 32);
}

/* Where the name is in a table that is not empty, or the free entry where it belongs. */
static size_t seek(const struct hearth__names *names, const char *name)
{
    size_t mask = names->table_len - 1;
    size_t at = hash(name) & mask;
    while (names->table[at] != 0 && strcmp(names->texts[names->table[at] - 1], name) != 0)
        at = (at + 1) & mask;
    return at;
}

uint32_t hearth__names_find(const struct hearth__names *names, const char *name)
{
    if (names->table_len == 0)
        return HEARTH__NO_NAME;
    uint32_t entry = names->table[seek(names, name)];
    return entry == 0 ? HEARTH__NO_NAME : entry - 1;
}

static bool grow_texts(struct hearth__names *names)
{
    if (names->count < names->room)
        return true;
    uint32_t room = names->room == 0 ? ROOM_FIRST : names->room;
    if (names->room != 0)
        room = room > NAMES_MOST / 2 ? NAMES_MOST : room * 2;
    char **texts = realloc(names->texts, room * sizeof *texts);
    if (texts == NULL)
        return false;
    names->texts = texts;
    names->room = room;
    return true;
}

static bool grow_table(struct hearth__names *names)
{
    if (names->count < names->table_len / 4 * 3)
        return true;
    size_t len = names->table_len == 0 ? TABLE_FIRST : names->table_len * 2;
    uint32_t *table = calloc(len, sizeof *table);
    if (table == NULL)
        return false;
    free(names->table);
    names->table = table;
    names->table_len = len;
    for (uint32_t i = 0; i < names->count; i++)
        names->table[seek(names, names->texts[i])] = i + 1;
    return true;
}

enum hearth_status hearth__names_add(struct hearth__names *names, const char *name,
                                     uint32_t *number)
{
    uint32_t found = hearth__names_find(names, name);
    if (found != HEARTH__NO_NAME) {
        *number = found;
        return HEARTH_OK;
    }
    if (names->count >= NAMES_MOST)
        return HEARTH_OVERFLOW;
    size_t bytes = strlen(name) + 1;
    char *text = malloc(bytes);
    /* Room that came and is not used for this name is used for the next. */
    if (text == NULL || !grow_texts(names) || !grow_table(names)) {
        free(text);
        return HEARTH_NO_MEMORY;
    }
    memcpy(text, name, bytes);
    *number = names->count++;
    names->texts[*number] = text;
    names->table[seek(names, name)] = *number + 1;
    return HEARTH_OK;
}

void hearth__names_fini(struct hearth__names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        free(names->texts[i]);
    free(names->texts);
    free(names->table);
    *names = (struct hearth__names){0};
}
