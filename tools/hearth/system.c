/* SPDX-License-Identifier: Apache-2.0 */
#include "system.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool system_read(const char *root, const char *path, char *text, size_t bytes)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *file = fopen(full, "re");
    if (file == NULL) {
        return false;
    }
    size_t length = fread(text, 1, bytes - 1, file);
    bool ok = ferror(file) == 0;
    fclose(file);
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        length--;
    }
    text[length] = '\0';
    return ok;
}

static bool to_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || errno != 0 || text[0] == '-') {
        return false;
    }
    *number = value;
    return true;
}

bool system_read_number(const char *root, const char *path, uint64_t *number)
{
    char text[64];
    return system_read(root, path, text, sizeof text) && to_number(text, number);
}

uint64_t system_meminfo(const char *root, const char *name)
{
    char text[8192];
    char key[64];
    uint64_t kib;
    if (!system_read(root, "/proc/meminfo", text, sizeof text)) {
        return 0;
    }
    snprintf(key, sizeof key, "%s:", name);
    const char *at = strstr(text, key);
    return at != NULL && to_number(at + strlen(key), &kib) ? kib * 1024 : 0;
}

/* Looks up the group's path in /proc/self/cgroup: the line "N:...,controller,...:PATH", or with
 * controller "" the line of version 2, "0::PATH". */
static bool group_path(const char *root, const char *controller, char *path, size_t bytes)
{
    char text[8192];
    char *rest = NULL;
    if (!system_read(root, "/proc/self/cgroup", text, sizeof text)) {
        return false;
    }
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) {
            continue;
        }
        *group = '\0';
        char padded[256];
        char wanted[64];
        snprintf(padded, sizeof padded, ",%s,", controllers + 1);
        snprintf(wanted, sizeof wanted, ",%s,", controller);
        if (controller[0] == '\0' ? controllers[1] == '\0' : strstr(padded, wanted) != NULL) {
            snprintf(path, bytes, "%s", strcmp(group + 1, "/") == 0 ? "" : group + 1);
            return true;
        }
    }
    return false;
}

/* Reads one group's limit; SYSTEM_UNLIMITED when it has none. */
typedef uint64_t read_limit_fn(const char *root, const char *group);

/* The least limit of a group and all groups above it. In a container the path may name groups that
 * are not visible; the mount's own top, the last one read, is then the container's. */
static uint64_t least_limit(const char *root, const char *mount, const char *controller,
                            read_limit_fn *read_limit)
{
    char group[PATH_MAX];
    char folder[PATH_MAX];
    uint64_t least = SYSTEM_UNLIMITED;
    if (!group_path(root, controller, group, sizeof group)) {
        return least;
    }
    for (;;) {
        int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
        uint64_t limit = length < (int)sizeof folder ? read_limit(root, folder) : SYSTEM_UNLIMITED;
        least = limit < least ? limit : least;
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

static bool read_in(const char *root, const char *folder, const char *file, char *text,
                    size_t bytes)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return system_read(root, path, text, bytes);
}

static uint64_t memory_limit_v2(const char *root, const char *folder)
{
    char text[64];
    uint64_t limit;
    return read_in(root, folder, "memory.max", text, sizeof text) && to_number(text, &limit)
               ? limit
               : SYSTEM_UNLIMITED;
}

static uint64_t memory_limit_v1(const char *root, const char *folder)
{
    char text[64];
    uint64_t limit;
    if (!read_in(root, folder, "memory.limit_in_bytes", text, sizeof text) ||
        !to_number(text, &limit)) {
        return SYSTEM_UNLIMITED;
    }
    /* Version 1 writes "none" as the largest multiple of a page. */
    return limit >= UINT64_MAX / 4 ? SYSTEM_UNLIMITED : limit;
}

static uint64_t millicores(uint64_t quota, uint64_t period)
{
    return period == 0 ? SYSTEM_UNLIMITED : quota * 1000 / period;
}

static uint64_t cpu_limit_v2(const char *root, const char *folder)
{
    char text[64];
    uint64_t quota;
    uint64_t period;
    if (!read_in(root, folder, "cpu.max", text, sizeof text) || !to_number(text, &quota)) {
        return SYSTEM_UNLIMITED; /* "max 100000" is no number. */
    }
    const char *space = strchr(text, ' ');
    return space != NULL && to_number(space + 1, &period) ? millicores(quota, period)
                                                          : SYSTEM_UNLIMITED;
}

static uint64_t cpu_limit_v1(const char *root, const char *folder)
{
    char quota_text[64];
    char period_text[64];
    uint64_t quota;
    uint64_t period;
    if (!read_in(root, folder, "cpu.cfs_quota_us", quota_text, sizeof quota_text) ||
        !read_in(root, folder, "cpu.cfs_period_us", period_text, sizeof period_text) ||
        !to_number(quota_text, &quota) || !to_number(period_text, &period)) {
        return SYSTEM_UNLIMITED; /* No quota is written as -1. */
    }
    return millicores(quota, period);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t system_cgroup_memory_limit(const char *root)
{
    return lesser(least_limit(root, "/sys/fs/cgroup", "", memory_limit_v2),
                  least_limit(root, "/sys/fs/cgroup/memory", "memory", memory_limit_v1));
}

uint64_t system_cgroup_cpu_limit(const char *root)
{
    return lesser(least_limit(root, "/sys/fs/cgroup", "", cpu_limit_v2),
                  least_limit(root, "/sys/fs/cgroup/cpu", "cpu", cpu_limit_v1));
}

uint64_t system_memory_budget(const char *root)
{
    uint64_t available = system_meminfo(root, "MemAvailable");
    return lesser(available != 0 ? available : SYSTEM_UNLIMITED, system_cgroup_memory_limit(root));
}

const char *system_format_bytes(uint64_t value, char *text, size_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double scaled = (double)value;
    size_t unit = 0;
    if (value == SYSTEM_UNLIMITED) {
        snprintf(text, bytes, "unlimited");
        return text;
    }
    while (scaled >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        scaled /= 1024;
        unit++;
    }
    snprintf(text, bytes, unit == 0 ? "%.0f %s" : "%.1f %s", scaled, units[unit]);
    return text;
}
