/* SPDX-License-Identifier: Apache-2.0 */
/* Exit handlers that use hearth: some registered before the library was used, some after, and a destructor of the
 * program. The one that runs last gives up the service and says how it went. */
#include "life.h"

#include <hearth/backing.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct hearth_service *service;
static struct hearth_backing *backing;
static struct hearth_lease leases[4];
static struct hearth_buf *buf;
static unsigned handlers;

static void *release_and_work(void *lease)
{
    OK(hearth_lease_release(*(struct hearth_lease *)lease));
    life_work(service);
    return NULL;
}

static void after(void)
{
    handlers++;
    (void)release_and_work(&leases[0]);
    life_on_thread(release_and_work, &leases[1]);
}

static void before(void)
{
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    handlers++;
    (void)release_and_work(&leases[2]);
    OK(hearth_free(hearth_buf_owner(buf), buf));
    OK(hearth_service_trim(service, HEARTH_UNBOUNDED, 0, &report));
    OK(hearth_service_tick(service));
    hearth_service_unref(service);
}

static __attribute__((destructor)) void last(void)
{
    if (service == NULL)
        return;
    CHECK(handlers == 2);
    OK(hearth_lease_release(leases[3]));
    CHECK(hearth_backing_footprint(backing) == 0);
    hearth_backing_unref(backing);
    fflush(NULL);
    if (life_verdict())
        _exit(1);
}

int main(void)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    if (atexit(before))
        life_die("atexit");
    OK(hearth_backing_create_mmap(NULL, &backing));
    options.exec_backing = options.io_backing = backing;
    options.age_ms = 1;
    options.maintenance_bytes = 1; /* the maintenance thread runs while the process ends */
    OK(hearth_service_create(&options, &service));
    life_work(service);
    for (size_t i = 0; i < 4; i++)
        leases[i] = life_lease(service, 40000 * i + 1);
    OK(hearth_service_exec(service, &arena));
    OK(hearth_exec_alloc(arena, 100000, &buf));
    if (atexit(after))
        life_die("atexit");
    life_pause(10);
    return life_verdict();
}
