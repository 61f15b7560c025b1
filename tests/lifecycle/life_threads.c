/* SPDX-License-Identifier: Apache-2.0 */
/* Ten thousand short-lived threads: retained bytes, resident memory, and the library's metadata (the address space
 * and the heap, as storage is on a backing that is counted) are after 10,000 threads what they were after 1,000;
 * under a sanitizer, after 2,000 what they were after 500. */
#include "life.h"

#include <malloc.h>
#include <stdio.h>

enum { AT_ONCE = 10, WARM = LIFE_SANITIZED ? 500 : 1000, ALL = LIFE_SANITIZED ? 2000 : 10000 };

static struct hearth_service *service;

static pthread_barrier_t all_hold;

/* The threads of a batch hold something at the same time, so the first batch needs as much as any. */
static void *live(void *unused)
{
    static const size_t sizes[] = {100, 3000, 20000, 70000, 200000};
    struct hearth_exec *arena = NULL;
    struct hearth_buf *bufs[5] = {NULL};
    struct hearth_lease leases[5];
    OK(hearth_service_exec(service, &arena));
    for (size_t i = 0; i < 5; i++) {
        OK(hearth_exec_alloc(arena, sizes[i], &bufs[i]));
        leases[i] = life_lease(service, sizes[i]);
    }
    pthread_barrier_wait(&all_hold);
    for (size_t i = 0; i < 5; i++) {
        OK(hearth_exec_free(arena, bufs[i]));
        OK(hearth_lease_release(leases[i]));
    }
    life_work(service);
    return unused;
}

struct figures {
    size_t retained, footprint, resident, mapped, heap;
};

static struct figures look(void)
{
    struct figures figures = {
        .retained = hearth_service_retained_bytes(service),
        .footprint = hearth_service_footprint(service),
        .resident = life_kilobytes("VmRSS"),
        .mapped = life_kilobytes("VmSize"),
        .heap = mallinfo2().uordblks,
    };
    printf("retained %zu, footprint %zu, VmRSS %zu kB, VmSize %zu kB, heap %zu\n", figures.retained,
           figures.footprint, figures.resident, figures.mapped, figures.heap);
    return figures;
}

int main(void)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    struct figures warm = {0};
    options.age_ms = HEARTH_AGE_NEVER;
    pthread_barrier_init(&all_hold, NULL, AT_ONCE);
    (void)mallopt(M_ARENA_MAX, 1); /* the C library maps address space for each of its heaps */
    OK(hearth_service_create(&options, &service));
    for (size_t i = 0; i < ALL; i += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (size_t j = 0; j < AT_ONCE; j++)
            life_start(&threads[j], live, NULL);
        for (size_t j = 0; j < AT_ONCE; j++)
            pthread_join(threads[j], NULL);
        if (i + AT_ONCE == WARM)
            warm = look();
    }
    struct figures all = look();
    CHECK(hearth_service_thread_count(service) == 0);
    CHECK(hearth_service_live_bytes(service) == 0);
    /* Which buffer serves which request, and what rests in caches, still varies a little. */
    CHECK(all.retained <= warm.retained + warm.retained / 4);
    CHECK(all.retained == all.footprint);
    CHECK(all.heap <= warm.heap + 64 * KIB);
    /* The sanitizers' own memory grows with threads; there only the library's figures count. */
    if (!LIFE_SANITIZED) {
        CHECK(all.resident <= warm.resident + warm.resident / 10 + all.retained / 4 / KIB + 512);
        CHECK(all.mapped <= warm.mapped + 4096 + all.retained / 4 / KIB);
    }
    hearth_service_unref(service);
    return life_verdict();
}
