/* SPDX-License-Identifier: Apache-2.0 */
#include "io_ledger.h"

#include <stdlib.h>

static enum hearth_status acquire(void *context, size_t bytes, size_t alignment,
                                  struct hearth_segment *segment)
{
    struct io_ledger *ledger = context;
    if (ledger->refuse || bytes > ledger->limit || ledger->segments == IO_LEDGER_SEGMENTS)
        return HEARTH_NO_MEMORY;
    void *base = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    if (!base)
        return HEARTH_NO_MEMORY;
    *segment = (struct hearth_segment){.base = base, .length = bytes, .cookie = ++ledger->serial};
    ledger->segment[ledger->segments++] = (struct io_ledger_segment){base, ledger->serial};
    ledger->bytes += bytes;
    return HEARTH_OK;
}

static void release(void *context, const struct hearth_segment *segment)
{
    struct io_ledger *ledger = context;
    for (size_t i = 0; i < ledger->segments; i++) {
        if (ledger->segment[i].base == segment->base &&
            ledger->segment[i].serial == segment->cookie) {
            ledger->segment[i] = ledger->segment[--ledger->segments];
            ledger->bytes -= segment->length;
            free(segment->base);
            return;
        }
    }
    abort(); /* given back twice, or changed on its way */
}

static void destroy(void *context)
{
    ((struct io_ledger *)context)->destroyed = true;
}

static const struct hearth_backing_ops ops = {
    .size = sizeof(struct hearth_backing_ops),
    .name = "ledger",
    .granule = 64,
    .acquire = acquire,
    .release = release,
    .destroy = destroy,
};

enum hearth_status io_ledger_init(struct io_ledger *ledger, size_t limit)
{
    *ledger = (struct io_ledger){.limit = limit};
    return hearth_backing_create(&ops, ledger, &ledger->backing);
}

uint64_t io_ledger_serial(const struct io_ledger *ledger, const void *base)
{
    for (size_t i = 0; i < ledger->segments; i++) {
        if (ledger->segment[i].base == base)
            return ledger->segment[i].serial;
    }
    return 0;
}

bool io_ledger_fini(struct io_ledger *ledger)
{
    bool empty = ledger->bytes == 0 && ledger->segments == 0;
    hearth_backing_unref(ledger->backing);
    return empty && ledger->destroyed;
}
