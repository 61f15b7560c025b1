/* SPDX-License-Identifier: Apache-2.0 */
#include "core/options.h"

#include "core/meta.h"
#include "core/misuse.h"

#include <hearth/allocator.h>
#include <hearth/exec.h>

bool hearth__options_known(const char *call, const void *given, bool known)
{
    if (!known)
        (void)hearth__misuse_detail(HEARTH_INVALID, call, NULL, given,
                                    "options->size is not one this version knows, or a reserved "
                                    "word is not zero; start from the structure's _INIT macro");
    return known;
}

enum hearth_status hearth__options_complete(const struct hearth__common_options *options,
                                            const struct hearth__conf *conf, size_t slots_default)
{
    if (conf->has_reuse_ratio)
        *options->reuse_ratio = conf->reuse_ratio;
    if (conf->has_slots)
        *options->slots = conf->slots;
    if (*options->slots == 0)
        *options->slots = slots_default;
    if (*options->retention_cap == 0)
        *options->retention_cap = HEARTH_UNBOUNDED;
    if (*options->reuse_ratio == 0)
        *options->reuse_ratio = HEARTH_REUSE_RATIO_DEFAULT;
    if (*options->slots > HEARTH__SLOTS_MAX)
        return HEARTH_OVERFLOW;
    if (*options->backing == NULL || conf->backing != HEARTH__CONF_BACKING_UNSET)
        return hearth_backing_default(options->backing);
    return HEARTH_OK;
}
