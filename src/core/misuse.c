/* SPDX-License-Identifier: Apache-2.0 */
#include "core/misuse.h"

#include "core/atomic.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Enough to find a bug by, too few to fill a disk. */
#define LINES_MAX 16u

static _Atomic(const struct hearth_misuse_handler *) current_handler;
static _Atomic(uint64_t) misuses;
static _Atomic(uint64_t) lines;
static _Atomic(uint32_t) aborts;

static void print_line(const struct hearth_misuse *misuse)
{
    fprintf(stderr, "hearth: %s(%p): %s: %s (arena %p)\n", misuse->call, misuse->slot,
            hearth_status_name(misuse->status), misuse->detail, (const void *)misuse->arena);
}

static void print_misuse(const struct hearth_misuse *misuse)
{
    uint64_t line = hearth__fetch_add_relaxed(&lines, 1);
    if (line < LINES_MAX)
        print_line(misuse);
    else if (line == LINES_MAX)
        fprintf(stderr, "hearth: further misuse is counted but not printed; see "
                        "hearth_misuse_set_handler()\n");
}

static const char *remedy(enum hearth_status status)
{
    switch (status) {
    case HEARTH_FOREIGN:
        return "not a buffer of this arena; return it to the arena it came from "
               "(hearth_buf_owner)";
    case HEARTH_STALE:
        return "already returned; look for a second return or a use after return";
    case HEARTH_LEASED:
        return "the buffer is leased; release its leases instead";
    case HEARTH_NOT_OWNER:
        return "the calling thread does not own the arena; give each thread its own, or hand it "
               "over "
               "with hearth_exec_release_owner";
    case HEARTH_BUSY:
        return "called from inside one of the arena's own operations";
    default:
        return hearth_status_text(status);
    }
}

void hearth__misuse_set_abort(void)
{
    hearth__store_relaxed(&aborts, 1);
}

enum hearth_status hearth__misuse_untold(enum hearth_status status)
{
    static const char line[] = "hearth: a call from a signal handler inside another call: BUSY\n";
    (void)hearth__fetch_add_relaxed(&misuses, 1);
    if (hearth__load_relaxed(&aborts) != 0) {
        /* Nothing more may be done inside a signal handler; abort() may. */
        ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
        (void)written;
        abort();
    }
    return status;
}

enum hearth_status hearth__misuse_detail(enum hearth_status status, const char *call,
                                         const struct hearth_allocator *arena, const void *slot,
                                         const char *detail)
{
    const struct hearth_misuse misuse = {
        .size = sizeof misuse,
        .status = status,
        .call = call,
        .arena = arena,
        .slot = slot,
        .detail = detail,
    };
    (void)hearth__fetch_add_relaxed(&misuses, 1);
    /* EDGE misuse.handler, observe: the handler's members. */
    const struct hearth_misuse_handler *handler = hearth__load_acquire(&current_handler);
    bool last = hearth__load_relaxed(&aborts) != 0;
    if (handler != NULL)
        handler->fn(handler->context, &misuse);
    else if (!last)
        print_misuse(&misuse);
    if (last) {
        /* The callback may have kept it to itself, and the printer would fall silent in the end. */
        print_line(&misuse);
        abort();
    }
    return status;
}

enum hearth_status hearth__misuse(enum hearth_status status, const char *call,
                                  const struct hearth_allocator *arena, const void *slot)
{
    return hearth__misuse_detail(status, call, arena, slot, remedy(status));
}

const struct hearth_misuse_handler *
hearth_misuse_set_handler(const struct hearth_misuse_handler *handler)
{
    if (handler != NULL && handler->fn == NULL)
        handler = NULL;
    /* EDGE misuse.handler, publish: the handler's members. */
    return hearth__exchange_acq_rel(&current_handler, handler);
}

uint64_t hearth_misuse_count(void)
{
    return hearth__load_relaxed(&misuses);
}
