/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about this machine. `root` stands before /proc and /sys, "" for this
 * machine; tests pass a folder with files of their own.
 */
#ifndef HEARTH_TOOL_SYSTEM_H
#define HEARTH_TOOL_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** No bound, or none known. */
#define SYSTEM_UNLIMITED UINT64_MAX

/** Read the start of a small text file, without trailing white space. False: not readable. */
bool system_read(const char *root, const char *path, char *text, size_t bytes);

/** Read a file that holds one number. */
bool system_read_number(const char *root, const char *path, uint64_t *number);

/** A figure of /proc/meminfo in bytes, for example "MemAvailable". 0 when it is not there. */
uint64_t system_meminfo(const char *root, const char *name);

/** The tightest memory limit of the process's control groups, version 1 or 2. */
uint64_t system_cgroup_memory_limit(const char *root);

/** The tightest CPU quota of the process's control groups in thousandths of a core. */
uint64_t system_cgroup_cpu_limit(const char *root);

/** Bytes that this process may still use: available memory, or the control group limit if less. */
uint64_t system_memory_budget(const char *root);

/** "11.5 GiB" and the like; SYSTEM_UNLIMITED is "unlimited". Returns `text`. */
const char *system_format_bytes(uint64_t value, char *text, size_t bytes);

#endif
