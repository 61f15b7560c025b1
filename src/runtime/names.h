/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned names: each text once, numbered from 0 in the order of arrival. A hash table with open
 * addressing; texts never move. One thread at a time adds; finding is for any number of threads while
 * nobody adds. Names are never NULL.
 */
#ifndef HEARTH_RUNTIME_NAMES_H
#define HEARTH_RUNTIME_NAMES_H

#include <hearth/status.h>

#include <stddef.h>
#include <stdint.h>

#define HEARTH__NO_NAME UINT32_MAX

/* Zero-initialised means empty, without memory. */
struct hearth__names {
    char **texts;    /* by number */
    uint32_t *table; /* number + 1; 0: free */
    uint32_t count;
    uint32_t room;    /* of texts */
    size_t table_len; /* a power of two, or 0 */
};

/* Find or add: *number is the name's. OVERFLOW at 2^32 - 2 names, NO_MEMORY; nothing changed then. */
enum hearth_status hearth__names_add(struct hearth__names *names, const char *name,
                                     uint32_t *number);

/* The name's number; HEARTH__NO_NAME. */
uint32_t hearth__names_find(const struct hearth__names *names, const char *name);

static inline const char *hearth__names_text(const struct hearth__names *names, uint32_t number)
{
    return names->texts[number];
}

/* Frees everything; the table is empty afterwards. */
void hearth__names_fini(struct hearth__names *names);

#endif
