/* SPDX-License-Identifier: Apache-2.0 */
/* Forks while 32 threads are inside operations. The child, alone with whatever state the others were in, uses the
 * service, trims it, and exits 0 within a deadline; the parent goes on.
 *
 * Under ThreadSanitizer and AddressSanitizer the child starts no thread, so no maintenance thread either: the
 * sanitizers' own locks are not taken over into a child of a process with threads. */
#include "life.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    THREADS = 32,
    FORKS = LIFE_SANITIZED ? 40 : 200,
    CHILD_MS = LIFE_SANITIZED ? 60000 : 15000,
    KEPT = 4,
};

static struct hearth_service *service;
static struct hearth_lease kept[KEPT];
static atomic_bool over;
static atomic_bool resting; /* while a child runs, so that it has a processor */

static void *work(void *seed)
{
    uint64_t dice = (uint64_t)(uintptr_t)seed * 31 + 7;
    struct hearth_lease held[4] = {{NULL, 0}};
    while (!atomic_load(&over)) {
        if (atomic_load(&resting)) {
            life_pause(1);
            continue;
        }
        struct hearth_exec *arena = NULL;
        struct hearth_buf *buf = NULL;
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        struct hearth_lease *at = &held[dice >> 62];
        if (at->buf)
            OK(hearth_lease_release(*at));
        OK(hearth_io_lease(hearth_service_io(service), (dice >> 33) % 100000, at));
        OK(hearth_service_exec(service, &arena));
        OK(hearth_exec_alloc(arena, (dice >> 40) % 50000, &buf));
        OK(hearth_free(hearth_buf_owner(buf), buf));
        if (dice % 256 == 0)
            OK(hearth_service_detach(service));
        if (dice % 1024 == 1)
            (void)hearth_service_trim(service, MIB, 50000, NULL);
        if (dice % 128 == 2)
            (void)hearth_service_end_run(service);
    }
    for (size_t i = 0; i < 4; i++) {
        if (held[i].buf)
            OK(hearth_lease_release(held[i]));
    }
    return NULL;
}

static _Noreturn void child(void)
{
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    for (size_t i = 0; i < 20; i++)
        life_work(service);
    for (size_t i = 0; i < KEPT; i++) {
        CHECK(*(unsigned char *)hearth_lease_data(kept[i]) == 0x5A);
        OK(hearth_lease_release(kept[i]));
    }
    OK(hearth_service_trim(service, HEARTH_UNBOUNDED, 0, &report));
    OK(hearth_service_tick(service));
    OK(hearth_service_trim(service, HEARTH_UNBOUNDED, 0, &report));
    /* Nobody else is here: what is not live, lost or in the middle of something went back. */
    CHECK(report.busy_caches == 0);
    CHECK(report.kept_busy == 0);
    CHECK(hearth_service_retained_bytes(service) <= report.kept_lost + report.kept_unreached);
    life_work(service);
    hearth_service_unref(service);
    struct hearth_service *second = NULL;
    OK(hearth_service_create(NULL, &second));
    life_work(second);
    hearth_service_unref(second);
    fflush(NULL);
    _exit(life_verdict());
}

int main(void)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    pthread_t threads[THREADS];
    options.age_ms = 2;
    options.maintenance_bytes = 1;
    options.ceiling = 16 * MIB;
    options.grant = 64 * KIB;
    if (LIFE_SANITIZED)
        options.flags = HEARTH_SERVICE_NO_THREAD;
    OK(hearth_service_create(&options, &service));
    for (size_t i = 0; i < KEPT; i++)
        kept[i] = life_lease(service, i * 20000 + 1);
    for (size_t i = 0; i < THREADS; i++)
        life_start(&threads[i], work, (void *)(uintptr_t)i);
    life_pause(20);
    for (size_t i = 0; i < FORKS && !life_verdict(); i++) {
        pid_t pid = fork();
        if (pid < 0)
            life_die("fork");
        if (pid == 0)
            child();
        char name[40];
        atomic_store(&resting, true);
        snprintf(name, sizeof name, "child %zu", i);
        life_await_child(pid, CHILD_MS, name);
        atomic_store(&resting, false);
        life_pause((long)(i % 4) + 2);
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < KEPT; i++)
        OK(hearth_lease_release(kept[i]));
    CHECK(hearth_service_live_bytes(service) == 0);
    hearth_service_unref(service);
    return life_verdict();
}
