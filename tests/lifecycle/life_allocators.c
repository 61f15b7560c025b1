/* SPDX-License-Identifier: Apache-2.0 */
/* Another allocator serves malloc in the same process: jemalloc or mimalloc, preloaded or linked. Both it and hearth
 * are used by many threads; neither notices the other.
 *
 *     life_allocators SYMBOL            the allocator is linked; SYMBOL is one of its own
 *     life_allocators SYMBOL LIBRARY    runs itself again with LIBRARY preloaded; skipped if it is not installed */
#include "life.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 300 };

static struct hearth_service *service;

static void *work(void *unused)
{
    unsigned char *blocks[32] = {NULL};
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < 32; i++) {
            size_t size = (round * 7919 + i * 104729) % 60000 + 1;
            free(blocks[i]);
            blocks[i] = round % 2 ? malloc(size) : aligned_alloc(64, (size + 63) / 64 * 64);
            if (blocks[i] == NULL)
                life_die("malloc");
            memset(blocks[i], (int)i, size);
        }
        life_work(service);
        for (size_t i = 0; i < 32; i++)
            CHECK(*blocks[i] == i);
    }
    for (size_t i = 0; i < 32; i++)
        free(blocks[i]);
    return unused;
}

static _Noreturn void preload(char **argv)
{
    /* A library that is not there is only warned about by the loader. */
    if (setenv("LD_PRELOAD", argv[2], 1) == 0)
        execl("/proc/self/exe", argv[0], argv[1], "preloaded", (char *)NULL);
    life_die("execl");
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc < 2)
        return 2;
    bool preloaded = argc == 3 && strcmp(argv[2], "preloaded") == 0;
    if (argc == 3 && !preloaded)
        preload(argv);
    bool there = dlsym(RTLD_DEFAULT, argv[1]) != NULL;
    if (preloaded && !there)
        return LIFE_SKIPPED;
    CHECK(there);
    OK(hearth_service_create(NULL, &service));
    for (size_t i = 0; i < THREADS; i++)
        life_start(&threads[i], work, NULL);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(hearth_service_trim(service, HEARTH_UNBOUNDED, 0, NULL));
    CHECK(hearth_service_live_bytes(service) == 0);
    hearth_service_unref(service);
    return life_verdict();
}
