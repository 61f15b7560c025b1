/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file export.h
 * Attributes used by every public header. Nothing here is an interface of its own.
 */
#ifndef HEARTH_EXPORT_H
#define HEARTH_EXPORT_H

#ifdef __cplusplus
#define HEARTH_BEGIN_DECLS extern "C" {
#define HEARTH_END_DECLS }
#else
#define HEARTH_BEGIN_DECLS
#define HEARTH_END_DECLS
#endif

#if !defined(__linux__)
#error "hearth supports Linux only"
#endif

/** A symbol of the library's binary interface. Everything else is hidden. */
#define HEARTH_API __attribute__((visibility("default")))

/** The result says whether the call did anything; ignoring it is a bug. */
#define HEARTH_NODISCARD __attribute__((warn_unused_result))

/** The result depends on the arguments alone. */
#define HEARTH_CONST __attribute__((const))

#endif
