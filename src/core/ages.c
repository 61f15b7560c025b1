/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ages.h"

#include <string.h>

void hearth__ages_init(struct hearth__ages *ages)
{
    memset(ages, 0, sizeof *ages);
}

void hearth__ages_note(struct hearth__ages *ages, uint64_t at, uint64_t clock, uint64_t age)
{
    if (ages->count != 0) {
        uint64_t last = ages->samples[ages->newest].at;
        if (at < last || clock < ages->samples[ages->newest].clock)
            return;
        /* More notes at one moment raise its sample: they must not push the older ones out. */
        uint64_t step = age / 4 != 0 ? age / 4 : 1;
        if (at != last && at - last < step)
            return;
        if (at != last)
            ages->newest = (ages->newest + 1) % HEARTH__AGES_SAMPLES;
    }
    ages->samples[ages->newest].at = at;
    ages->samples[ages->newest].clock = clock;
    if (ages->count <= ages->newest)
        ages->count = ages->newest + 1;
}

uint64_t hearth__ages_before(const struct hearth__ages *ages, uint64_t at, uint64_t age)
{
    if (age == HEARTH__AGE_NEVER)
        return 0;
    for (uint32_t i = 0; i < ages->count; i++) {
        uint32_t index = (ages->newest + HEARTH__AGES_SAMPLES - i) % HEARTH__AGES_SAMPLES;
        if (age == 0 || (at >= ages->samples[index].at && at - ages->samples[index].at >= age))
            return ages->samples[index].clock;
    }
    return 0;
}
