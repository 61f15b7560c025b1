/* SPDX-License-Identifier: Apache-2.0 */
/* An executor on the pool that comes with the library: nothing to write. */
#include "graph.h"

int main(void)
{
    struct hearth_pool *pool = NULL;
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    bool right = hearth_pool_create(4, &pool) == HEARTH_OK &&
                 hearth_pool_executor(pool, &executor) == HEARTH_OK &&
                 graph_run("executor_pool", &executor);
    right &= hearth_pool_destroy(pool) == HEARTH_OK;
    return right ? 0 : 1;
}
