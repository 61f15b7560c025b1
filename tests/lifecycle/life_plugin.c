/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a plugin that is linked to libhearth.so into a program that is not. The plugin's first use of hearth is on a
 * thread that then exits; others use it; it is unloaded while threads that used it go on living, and loaded again. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, TIMES = 20 };

static int failed;
static int (*plugin_open)(void), (*plugin_work)(void), (*plugin_close)(void);

static void check(int code, const char *what)
{
    if (code == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, code);
    failed = 1;
}

static void *find(void *plugin, const char *name)
{
    void *symbol = dlsym(plugin, name);
    if (symbol == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return symbol;
}

static void *load(const char *path)
{
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    /* ISO C has no cast from a data pointer to a function's. */
    void *symbols[] = {find(plugin, "plugin_open"), find(plugin, "plugin_work"),
                       find(plugin, "plugin_close")};
    memcpy(&plugin_open, &symbols[0], sizeof symbols[0]);
    memcpy(&plugin_work, &symbols[1], sizeof symbols[1]);
    memcpy(&plugin_close, &symbols[2], sizeof symbols[2]);
    return plugin;
}

static pthread_barrier_t steps;

static void *first_use(void *unused)
{
    check(plugin_open(), "plugin_open");
    check(plugin_work(), "plugin_work on the first thread");
    return unused;
}

static void *use(void *unused)
{
    for (int i = 0; i < TIMES; i++) {
        pthread_barrier_wait(&steps); /* loaded */
        for (int j = 0; j < 50; j++)
            check(plugin_work(), "plugin_work");
        pthread_barrier_wait(&steps); /* unloads */
    }
    return unused; /* with hearth's thread-exit code behind it, after the last dlclose() */
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS], first;
    if (argc != 2) {
        fprintf(stderr, "usage: life_plugin PLUGIN\n");
        return 2;
    }
    pthread_barrier_init(&steps, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < TIMES; i++) {
        void *plugin = load(argv[1]);
        pthread_create(&first, NULL, first_use, NULL);
        pthread_join(first, NULL);
        pthread_barrier_wait(&steps);
        check(plugin_work(), "plugin_work on the main thread");
        pthread_barrier_wait(&steps);
        check(plugin_close(), "plugin_close");
        check(dlclose(plugin), "dlclose");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return failed;
}
