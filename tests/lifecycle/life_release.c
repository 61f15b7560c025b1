/* SPDX-License-Identifier: Apache-2.0 */
/* Leases released by threads that hearth never saw before: while the service lives, after its close, and after it
 * was destroyed with leases and buffers outstanding. */
#include "life.h"

#include <hearth/backing.h>

enum { COUNT = 100 };

static struct hearth_lease leases[COUNT];
static struct hearth_buf *bufs[COUNT];

static void *release_leases(void *unused)
{
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(*(unsigned char *)hearth_lease_data(leases[i]) == 0x5A);
        OK(hearth_lease_release(leases[i]));
        ANSWERS(HEARTH_STALE, hearth_lease_release(leases[i]));
    }
    return unused;
}

static void *free_bufs(void *unused)
{
    for (size_t i = 0; i < COUNT; i++)
        OK(hearth_free(hearth_buf_owner(bufs[i]), bufs[i]));
    return unused;
}

static void *take_all(void *service)
{
    struct hearth_exec *arena = NULL;
    OK(hearth_service_exec(service, &arena));
    for (size_t i = 0; i < COUNT; i++) {
        leases[i] = life_lease(service, i * 331 + 1);
        OK(hearth_exec_alloc(arena, i * 997, &bufs[i]));
    }
    life_work(service);
    return NULL;
}

enum ending { OPEN, CLOSED, DESTROYED, DESTROYED_ELSEWHERE, ENDINGS };

static void *unref(void *service)
{
    hearth_service_unref(service);
    return NULL;
}

static void run(enum ending ending, bool ended_owner)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    struct hearth_backing *backing = NULL;
    struct hearth_service *service = NULL;
    OK(hearth_backing_create_mmap(NULL, &backing));
    options.exec_backing = options.io_backing = backing;
    OK(hearth_service_create(&options, &service));
    if (ended_owner)
        life_on_thread(take_all, service);
    else
        take_all(service);
    if (ending == CLOSED)
        OK(hearth_service_close(service));
    if (ending == DESTROYED)
        unref(service);
    if (ending == DESTROYED_ELSEWHERE)
        life_on_thread(unref, service);
    life_on_thread(release_leases, NULL);
    life_on_thread(free_bufs, NULL);
    if (ending < DESTROYED)
        unref(service);
    CHECK(hearth_backing_footprint(backing) == 0);
    hearth_backing_unref(backing);
}

static void quiet(void *unused, const struct hearth_misuse *misuse)
{
    (void)unused;
    (void)misuse;
}

int main(void)
{
    static const struct hearth_misuse_handler handler = {quiet, NULL};
    (void)hearth_misuse_set_handler(&handler); /* stale releases are made on purpose */
    for (unsigned round = 0; round < 3; round++) {
        for (enum ending ending = OPEN; ending < ENDINGS; ending++) {
            run(ending, false);
            run(ending, true);
        }
    }
    return life_verdict();
}
