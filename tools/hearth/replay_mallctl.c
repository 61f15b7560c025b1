/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc as malloc. It cannot be loaded with dlopen (it needs static thread-local storage, and a
 * second malloc beside glibc's would not be a fair peer), so the program starts itself again with
 * LD_PRELOAD. Its control call is looked up at run time: nothing here links jemalloc.
 */
#include "replay_mallctl.h"

#include "replay_allocator.h"
#include "sanitized.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Set for the second start, so that a preload that does not work cannot start us for ever. */
#define STARTED_AGAIN "HEARTH_REPLAY_PRELOADED"

/* MALLCTL_ARENAS_ALL of jemalloc.h. */
#define PURGE_ALL "arena.4096.purge"

#define REMEDY "install it (Debian and Ubuntu: apt-get install libjemalloc2)"

typedef int mallctl_fn(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);

static mallctl_fn *find_mallctl(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "mallctl");
    mallctl_fn *call;
    memcpy(&call, &symbol, sizeof call); /* ISO C has no cast from object to function pointers. */
    return call;
}

bool replay_mallctl_present(void)
{
    return find_mallctl() != NULL;
}

bool replay_mallctl_resident(size_t *bytes)
{
    mallctl_fn *call = find_mallctl();
    uint64_t epoch = 1; /* Any value refreshes the statistics. */
    size_t length = sizeof *bytes;
    return call != NULL && call("epoch", NULL, NULL, &epoch, sizeof epoch) == 0 &&
           call("stats.resident", bytes, &length, NULL, 0) == 0;
}

void replay_mallctl_purge(void)
{
    mallctl_fn *call = find_mallctl();
    if (call != NULL) {
        (void)call(PURGE_ALL, NULL, NULL, NULL, 0);
    }
}

static bool find_library(char *path, size_t bytes)
{
    static const char *const patterns[] = {
        "/usr/lib/*/libjemalloc.so.2",
        "/usr/lib64/libjemalloc.so.2",
        "/usr/lib/libjemalloc.so.2",
        "/usr/local/lib/libjemalloc.so.2",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        glob_t found;
        if (glob(patterns[i], 0, NULL, &found) == 0) {
            snprintf(path, bytes, "%s", found.gl_pathv[0]);
            globfree(&found);
            return true;
        }
    }
    return false;
}

bool replay_jemalloc_loaded(void)
{
    return replay_mallctl_present();
}

/* Where it is, if it can be loaded. */
static bool can_start_again(char *library, size_t bytes, char message[REPLAY_MESSAGE_BYTES])
{
    if (tool_is_sanitized()) {
        snprintf(message, REPLAY_MESSAGE_BYTES,
                 "--allocator jemalloc: malloc of a sanitizer build cannot be replaced; use a "
                 "release build");
        return false;
    }
    if (!find_library(library, bytes)) {
        snprintf(message, REPLAY_MESSAGE_BYTES,
                 "--allocator jemalloc: libjemalloc.so.2 is not on this machine; " REMEDY);
        return false;
    }
    if (getenv(STARTED_AGAIN) != NULL) {
        snprintf(message, REPLAY_MESSAGE_BYTES,
                 "--allocator jemalloc: %s was preloaded but malloc is not jemalloc's; "
                 "is it built for this architecture?",
                 library);
        return false;
    }
    return true;
}

bool replay_jemalloc_possible(char message[REPLAY_MESSAGE_BYTES])
{
    char library[256];
    return replay_mallctl_present() || can_start_again(library, sizeof library, message);
}

void replay_jemalloc_start(char *const *argv, char message[REPLAY_MESSAGE_BYTES])
{
    char library[256];
    if (!can_start_again(library, sizeof library, message)) {
        return;
    }
    if (setenv("LD_PRELOAD", library, 1) != 0 || setenv(STARTED_AGAIN, "1", 1) != 0) {
        snprintf(message, REPLAY_MESSAGE_BYTES, "out of memory");
        return;
    }
    execv("/proc/self/exe", argv);
    snprintf(message, REPLAY_MESSAGE_BYTES,
             "--allocator jemalloc: cannot start again with %s: %s (is /proc mounted?)", library,
             strerror(errno));
}
