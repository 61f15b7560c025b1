/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file version.h
 * Version of the library and the rule of its binary interface.
 *
 * Versions follow semantic versioning. The shared library's soname is the major version: within one
 * major version no exported symbol disappears, no enum value is renumbered, no struct member moves,
 * and structs that carry their size only grow at the end. While the major version is 0 a minor
 * version may break the interface; the change log says so.
 */
#ifndef HEARTH_VERSION_H
#define HEARTH_VERSION_H

#include <hearth/export.h>

HEARTH_BEGIN_DECLS

#define HEARTH_VERSION_MAJOR 0
#define HEARTH_VERSION_MINOR 1
#define HEARTH_VERSION_PATCH 0

/** One number that orders versions: major * 1000000 + minor * 1000 + patch. */
#define HEARTH_VERSION_NUMBER                                                                      \
    (HEARTH_VERSION_MAJOR * 1000000 + HEARTH_VERSION_MINOR * 1000 + HEARTH_VERSION_PATCH)

/**
 * The HEARTH_VERSION_NUMBER of the library that is running, which may be newer than the headers.
 * Thread: any. Progress: wait-free.
 */
HEARTH_API int hearth_version(void);

/** The running library's version as text, for example "0.1.0". Static storage. Thread: any. */
HEARTH_API const char *hearth_version_string(void);

HEARTH_END_DECLS

#endif
