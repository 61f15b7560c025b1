/* SPDX-License-Identifier: Apache-2.0 */
/* Leak checks: which of the buffers that were taken since some moment are still out. The essay is in leak.c. */
#ifndef HEARTH_CONCURRENT_LEAK_H
#define HEARTH_CONCURRENT_LEAK_H

#include <hearth/service.h>

#include <stdbool.h>

/* Whether an arena is of interest; called for arenas that may end meanwhile, so it must not follow it. */
typedef bool hearth__leak_filter(const struct hearth_allocator *arena, const void *context);

/* Begin a check on the arenas that `belongs` (NULL: all) picks. NO_MEMORY. */
enum hearth_status hearth__leak_begin(hearth__leak_filter *belongs, const void *context,
                                      struct hearth_leak_check **check);

/* What a service offers for checks on it. */
struct hearth__leak_service {
    /* Take a reference for a check. CLOSED. */
    enum hearth_status (*hold)(struct hearth_service *service);
    void (*drop)(struct hearth_service *service);
    hearth__leak_filter *belongs;
};

/* Set by the service layer before the first service exists; checks on a service are INVALID until then. */
extern const struct hearth__leak_service *hearth__leak_service;

#endif
