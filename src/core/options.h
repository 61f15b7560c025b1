/* SPDX-License-Identifier: Apache-2.0 */
/* What the creation of every arena has in common: options of a known shape, HEARTH_CONF, defaults. */
#ifndef HEARTH_CORE_OPTIONS_H
#define HEARTH_CORE_OPTIONS_H

#include "core/conf.h"

#include <hearth/backing.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The options that every arena has, where its own structure keeps them. */
struct hearth__common_options {
    size_t *retention_cap;
    size_t *slots;
    uint32_t *reuse_ratio;
    struct hearth_backing **backing;
};

/* Tell the misuse callback if `given` is not `known`: has a size or a reserved word of another
 * version. Returns `known`. */
bool hearth__options_known(const char *call, const void *given, bool known);

/* Let HEARTH_CONF override the slots, the ratio and the backing, and replace what is 0 or NULL by
 * its default. Returns OVERFLOW (more slots than can exist), and what hearth_backing_default() returns. */
enum hearth_status hearth__options_complete(const struct hearth__common_options *options,
                                            const struct hearth__conf *conf, size_t slots_default);

#endif
