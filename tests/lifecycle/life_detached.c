/* SPDX-License-Identifier: Apache-2.0 */
/* Detached threads still work, and the maintenance thread still sleeps, while the process exits: by return from
 * main, by exit() from another thread, after the last reference was given up. Each case is a child process. */
#include "life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, TIMES = LIFE_TSAN ? 3 : LIFE_SANITIZED ? 5 : 15 };

static struct hearth_service *service;
static atomic_uint running;

static void *work(void *unused)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    atomic_fetch_add(&running, 1);
    for (unsigned i = 0;; i++) {
        struct hearth_exec *arena = NULL;
        struct hearth_buf *buf = NULL;
        /* CLOSED comes when the service ends meanwhile; this thread holds a reference. */
        if (hearth_service_exec(service, &arena) == HEARTH_OK &&
            hearth_exec_alloc(arena, i * 64 % 100000, &buf) == HEARTH_OK)
            (void)hearth_exec_free(arena, buf);
        if (hearth_io_lease(hearth_service_io(service), i * 640 % 200000, &lease) == HEARTH_OK)
            (void)hearth_lease_release(lease);
        if (i % 64 == 0)
            (void)hearth_service_trim(service, MIB, 100000, NULL);
    }
    return unused;
}

static void *exit_here(void *unused)
{
    (void)unused;
    exit(life_verdict());
}

static int child(const char *how)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    pthread_t thread;
    options.age_ms = 1;
    options.maintenance_bytes = 1;
    OK(hearth_service_create(&options, &service));
    for (size_t i = 0; i < THREADS; i++) {
        hearth_service_ref(service);
        life_start(&thread, work, NULL);
        pthread_detach(thread);
    }
    while (atomic_load(&running) < THREADS)
        life_pause(1);
    life_pause(5);
    if (strcmp(how, "unref") == 0)
        hearth_service_unref(service);
    if (strcmp(how, "close") == 0)
        OK(hearth_service_close(service));
    if (strcmp(how, "elsewhere") == 0) {
        life_start(&thread, exit_here, NULL);
        pthread_join(thread, NULL);
    }
    return life_verdict();
}

int main(int argc, char **argv)
{
    static const char *const how[] = {"return", "unref", "close", "elsewhere"};
    if (argc > 1)
        return child(argv[1]);
    for (unsigned i = 0; i < TIMES * 4; i++) {
        pid_t pid = fork();
        if (pid < 0)
            life_die("fork");
        if (pid == 0) {
            execl("/proc/self/exe", argv[0], how[i % 4], (char *)NULL);
            life_die("execl");
        }
        life_await_child(pid, LIFE_SANITIZED ? 60000 : 20000, how[i % 4]);
    }
    return life_verdict();
}
