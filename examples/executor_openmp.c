/* SPDX-License-Identifier: Apache-2.0 */
/* An executor on OpenMP: one thread of a parallel region runs the graph, and each call is a task for the
 * others, which wait for tasks at the end of the region. */
#include "graph.h"

#include <omp.h>

enum { THREADS = 4 };

/* Only from inside of the region; the runtime submits from threads that run the graph's nodes. */
static enum hearth_status submit(void *pool, void (*fn)(void *arg), void *arg)
{
    (void)pool;
#pragma omp task firstprivate(fn, arg)
    fn(arg);
    return HEARTH_OK;
}

int main(void)
{
    bool right = false;
#pragma omp parallel num_threads(THREADS) shared(right)
#pragma omp single
    {
        struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
        executor.submit = submit;
        executor.threads = (uint32_t)omp_get_num_threads();
        right = graph_run("executor_openmp", &executor);
    }
    return right ? 0 : 1;
}
