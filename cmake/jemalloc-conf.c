/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into the private jemalloc in place of libc's functions of these names. MALLOC_CONF and
 * /etc/malloc.conf belong to the host's own jemalloc; the private copy listens to
 * HEARTH_JEMALLOC_CONF only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

extern const char *hearth__je_malloc_conf;

/* One automatic arena, as nobody calls malloc in this copy; the rest is set per arena. */
const char *hearth__je_malloc_conf =
    "narenas:1,tcache:false,background_thread:false,retain:true,metadata_thp:disabled";

char *hearth__conf_secure_getenv(const char *name);
ssize_t hearth__conf_readlink(const char *path, char *text, size_t size);

char *hearth__conf_secure_getenv(const char *name)
{
    return secure_getenv(strcmp(name, "MALLOC_CONF") == 0 ? "HEARTH_JEMALLOC_CONF" : name);
}

/* jemalloc reads no link but /etc/malloc.conf. */
ssize_t hearth__conf_readlink(const char *path, char *text, size_t size)
{
    (void)path;
    (void)text;
    (void)size;
    errno = ENOENT;
    return -1;
}
