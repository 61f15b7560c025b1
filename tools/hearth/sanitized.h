/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this is a sanitizer's build: its malloc is not to be replaced, and its shadow memory faults all the
 * time. gcc and clang tell us in different ways. */
#ifndef HEARTH_TOOL_SANITIZED_H
#define HEARTH_TOOL_SANITIZED_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TOOL_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TOOL_SANITIZED true
#endif
#endif

#ifndef TOOL_SANITIZED
#define TOOL_SANITIZED false
#endif

static inline bool tool_is_sanitized(void)
{
    return TOOL_SANITIZED;
}

#endif
