/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernel hands out memory here. */
#include "doctor.h"
#include "system.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define THP "/sys/kernel/mm/transparent_hugepage/"

/* The kernel's own default; below it a process with many segments runs into the bound. */
#define MAP_COUNT_DEFAULT 65530u

/* Finds the chosen word of a line such as "always [madvise] never". */
static bool chosen(const char *root, const char *path, char *word, size_t bytes)
{
    char text[256];
    if (!system_read(root, path, text, sizeof text)) {
        return false;
    }
    const char *open = strchr(text, '[');
    const char *close = open != NULL ? strchr(open, ']') : NULL;
    size_t length = close != NULL ? (size_t)(close - open - 1) : bytes;
    if (length >= bytes) {
        return false;
    }
    memcpy(word, open + 1, length);
    word[length] = '\0';
    return true;
}

static void check_page_size(const char *root, struct doctor_finding *finding)
{
    (void)root;
    long bytes = sysconf(_SC_PAGESIZE);
    doctor_say(finding, "%ld bytes", bytes);
    if (bytes != 4096) {
        doctor_advise(finding, DOCTOR_NOTE,
                      "pages are not 4 KiB: fault counts compare with those of 4 KiB machines only "
                      "after scaling by %ld/4096",
                      bytes);
    }
}

static void check_thp(const char *root, struct doctor_finding *finding)
{
    char mode[32];
    if (!chosen(root, THP "enabled", mode, sizeof mode)) {
        doctor_say(finding, "not in this kernel");
        doctor_advise(finding, DOCTOR_NOTE,
                      "every first touch costs a fault per page; only warm-up is slower for it");
        return;
    }
    doctor_say(finding, "%s", mode);
    if (strcmp(mode, "never") == 0) {
        doctor_advise(finding, DOCTOR_NOTE,
                      "large segments get no huge pages, so warm-up takes more faults: "
                      "echo madvise > " THP "enabled");
    } else if (strcmp(mode, "always") == 0) {
        doctor_advise(finding, DOCTOR_NOTE,
                      "the whole process gets huge pages, and resident memory may exceed what is "
                      "used; madvise leaves the choice to each program: echo madvise > " THP
                      "enabled");
    }
}

static void check_thp_defrag(const char *root, struct doctor_finding *finding)
{
    char mode[32];
    if (!chosen(root, THP "defrag", mode, sizeof mode)) {
        doctor_say(finding, "not in this kernel");
        return;
    }
    doctor_say(finding, "%s", mode);
    if (strcmp(mode, "always") == 0) {
        doctor_advise(finding, DOCTOR_NOTE,
                      "a first touch may stall while the kernel compacts memory: "
                      "echo defer+madvise > " THP "defrag");
    }
}

static void check_overcommit(const char *root, struct doctor_finding *finding)
{
    uint64_t mode;
    if (!system_read_number(root, "/proc/sys/vm/overcommit_memory", &mode)) {
        doctor_say(finding, "unknown");
        doctor_advise(finding, DOCTOR_NOTE, "/proc/sys/vm/overcommit_memory cannot be read");
    } else if (mode == 0) {
        doctor_say(finding, "0 (heuristic)");
    } else if (mode == 1) {
        doctor_say(finding, "1 (always)");
        doctor_advise(finding, DOCTOR_NOTE,
                      "the kernel grants everything: a shortage ends in the OOM killer and not in "
                      "HEARTH_NO_MEMORY; set retention caps, or sysctl vm.overcommit_memory=0");
    } else {
        doctor_say(finding, "%" PRIu64 " (strict)", mode);
        doctor_advise(finding, DOCTOR_WARN,
                      "retained storage counts against the commit limit: set retention caps, raise "
                      "vm.overcommit_ratio, or sysctl vm.overcommit_memory=0");
    }
}

static void check_map_count(const char *root, struct doctor_finding *finding)
{
    uint64_t count;
    if (!system_read_number(root, "/proc/sys/vm/max_map_count", &count)) {
        doctor_say(finding, "unknown");
        doctor_advise(finding, DOCTOR_NOTE, "/proc/sys/vm/max_map_count cannot be read");
        return;
    }
    doctor_say(finding, "%" PRIu64, count);
    if (count < MAP_COUNT_DEFAULT) {
        doctor_advise(finding, DOCTOR_WARN,
                      "the mmap backing takes one mapping per segment and fails beyond this: "
                      "sysctl vm.max_map_count=262144");
    }
}

static uint64_t soft_limit(__rlimit_resource_t resource)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return SYSTEM_UNLIMITED;
    }
    return limit.rlim_cur;
}

static void check_address_space(const char *root, struct doctor_finding *finding)
{
    char text[32];
    (void)root;
    uint64_t limit = soft_limit(RLIMIT_AS);
    doctor_say(finding, "%s", system_format_bytes(limit, text, sizeof text));
    if (limit != SYSTEM_UNLIMITED) {
        doctor_advise(
            finding, DOCTOR_WARN,
            "jemalloc and thread stacks reserve address space freely and fail early under "
            "this bound: ulimit -v unlimited; bound memory by control groups instead");
    }
}

static void check_locked(const char *root, struct doctor_finding *finding)
{
    char text[32];
    (void)root;
    uint64_t limit = soft_limit(RLIMIT_MEMLOCK);
    doctor_say(finding, "%s", system_format_bytes(limit, text, sizeof text));
}

static void check_memory(const char *root, struct doctor_finding *finding)
{
    char total[32];
    char available[32];
    doctor_say(
        finding, "%s, %s available",
        system_format_bytes(system_meminfo(root, "MemTotal"), total, sizeof total),
        system_format_bytes(system_meminfo(root, "MemAvailable"), available, sizeof available));
}

static void check_group_memory(const char *root, struct doctor_finding *finding)
{
    char text[32];
    uint64_t limit = system_cgroup_memory_limit(root);
    uint64_t total = system_meminfo(root, "MemTotal");
    doctor_say(finding, "%s", system_format_bytes(limit, text, sizeof text));
    if (limit != SYSTEM_UNLIMITED && (total == 0 || limit < total)) {
        doctor_advise(finding, DOCTOR_NOTE,
                      "retained storage counts against this limit, and the OOM killer enforces it: "
                      "keep exec_cap and io_cap well below it, for example HEARTH_CONF=exec_cap:%s",
                      limit >= UINT64_C(4) << 30 ? "1G" : "256M");
    }
}

static void check_swap(const char *root, struct doctor_finding *finding)
{
    char text[32];
    uint64_t total = system_meminfo(root, "SwapTotal");
    doctor_say(finding, "%s", total == 0 ? "none" : system_format_bytes(total, text, sizeof text));
    if (total != 0) {
        doctor_advise(
            finding, DOCTOR_NOTE,
            "retained pages may be swapped out under pressure and then cost a fault again: "
            "a low vm.swappiness keeps them");
    }
}

const struct doctor_check doctor_memory_checks[] = {
    {"page size", check_page_size},
    {"thp", check_thp},
    {"thp defrag", check_thp_defrag},
    {"overcommit", check_overcommit},
    {"max_map_count", check_map_count},
    {"address space limit", check_address_space},
    {"locked memory limit", check_locked},
    {"memory", check_memory},
    {"cgroup memory limit", check_group_memory},
    {"swap", check_swap},
};

const size_t doctor_memory_check_count =
    sizeof doctor_memory_checks / sizeof doctor_memory_checks[0];
