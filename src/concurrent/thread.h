/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's name: a 64-bit token that is never reused. Thread ids and the addresses of thread-local
 * variables are reused, and would make a new thread look like the dead owner of an arena.
 */
#ifndef HEARTH_CONCURRENT_THREAD_H
#define HEARTH_CONCURRENT_THREAD_H

#include "core/atomic.h"

#include <stdint.h>

/* Values of an arena's owner word that are no thread. A thread without a token yet reads as 0. */
#define HEARTH__OWNER_NONE ((uint64_t)2)   /* claimable */
#define HEARTH__OWNER_GONE ((uint64_t)3)   /* detached or destroyed */
#define HEARTH__OWNER_POOLED ((uint64_t)4) /* of a service, which gives it to its next thread */

/* Tokens start here. */
#define HEARTH__TOKEN_FIRST ((uint64_t)16)

/* Initial-exec, for speed in the shared library; 8 bytes of static TLS are always to be had. */
extern _Thread_local uint64_t hearth__thread_token_value __attribute__((tls_model("initial-exec")));

/* Give the calling thread its token. */
uint64_t hearth__thread_token_assign(void);

/* The calling thread's token, or 0 if it has none yet: not equal to any arena's owner. */
static inline uint64_t hearth__thread_token_peek(void)
{
    return hearth__thread_token_value;
}

static inline uint64_t hearth__thread_token(void)
{
    uint64_t token = hearth__thread_token_value;
    return hearth__likely(token != 0) ? token : hearth__thread_token_assign();
}

#endif
