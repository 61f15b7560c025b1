/* SPDX-License-Identifier: Apache-2.0 */
/* Page observation: what the kernel counted. No allocation, so that looking does not change the view. */
#include <hearth/stats.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The second number of /proc/self/statm, in bytes; 0 when it cannot be read. */
static uint64_t resident_bytes(void)
{
    char text[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    (void)close(file);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *second = strchr(text, ' ');
    return second == NULL ? 0 : strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

enum hearth_status hearth_page_stats(enum hearth_scope scope, struct hearth_page_stats *stats)
{
    struct rusage usage;
    if (stats == NULL || stats->size == 0 ||
        (scope != HEARTH_SCOPE_THREAD && scope != HEARTH_SCOPE_PROCESS))
        return HEARTH_INVALID;
    if (getrusage(scope == HEARTH_SCOPE_THREAD ? RUSAGE_THREAD : RUSAGE_SELF, &usage) != 0)
        return HEARTH_INVALID;
    struct hearth_page_stats made = {
        .size = stats->size,
        .minor_faults = (uint64_t)usage.ru_minflt,
        .major_faults = (uint64_t)usage.ru_majflt,
        .resident_bytes = resident_bytes(),
    };
    memcpy(stats, &made, stats->size < sizeof made ? stats->size : sizeof made);
    return HEARTH_OK;
}
