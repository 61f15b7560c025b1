/* SPDX-License-Identifier: Apache-2.0 */
#include "concurrent/thread.h"

_Thread_local uint64_t hearth__thread_token_value;

uint64_t hearth__thread_token_assign(void)
{
    static _Atomic(uint64_t) next = HEARTH__TOKEN_FIRST;
    uint64_t token = hearth__fetch_add_relaxed(&next, 1);
    /* A signal handler may have been here meanwhile, and have created arenas with its token. */
    if (hearth__thread_token_value == 0)
        hearth__thread_token_value = token;
    return hearth__thread_token_value;
}
