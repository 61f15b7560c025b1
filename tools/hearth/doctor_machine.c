/* SPDX-License-Identifier: Apache-2.0 */
/* Processors and the kernel calls that hearth uses. */
#include "doctor.h"
#include "system.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static void check_kernel(const char *root, struct doctor_finding *finding)
{
    (void)root;
    struct utsname name;
    if (uname(&name) == 0) {
        doctor_say(finding, "%s %s", name.release, name.machine);
    }
}

static void check_membarrier(const char *root, struct doctor_finding *finding)
{
    (void)root;
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (commands < 0) {
        doctor_say(finding, "not available (%s)", strerror(errno));
        doctor_advise(finding, DOCTOR_WARN,
                      "other threads' idle caches cannot be visited, so trim reaches less: allow "
                      "membarrier in the seccomp profile, or use a kernel of 4.14 or later");
    } else if ((commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) {
        doctor_say(finding, "without private expedited");
        doctor_advise(finding, DOCTOR_WARN,
                      "other threads' idle caches cannot be visited, so trim reaches less: use a "
                      "kernel of 4.14 or later");
    } else {
        doctor_say(finding, "private expedited");
    }
}

/* Processors that this process may run on; 0 when the kernel does not tell. */
static int allowed_cores(void)
{
    int cores = 0;
    /* The kernel refuses masks that are too small for its own, so the size is found by trying. */
    for (int most = 1024; most <= 1 << 20 && cores == 0; most *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        if (set == NULL) {
            return 0;
        }
        if (sched_getaffinity(0, bytes, set) == 0) {
            cores = CPU_COUNT_S(bytes, set);
        }
        CPU_FREE(set);
    }
    return cores;
}

static void check_cores(const char *root, struct doctor_finding *finding)
{
    (void)root;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int allowed = allowed_cores();
    doctor_say(finding, "%ld online, %d allowed", online, allowed);
    if (allowed > 0 && allowed < online) {
        doctor_advise(finding, DOCTOR_NOTE,
                      "this process may use %d of them: start no more busy threads than that",
                      allowed);
    } else if (online == 1) {
        doctor_advise(finding, DOCTOR_NOTE,
                      "one core: threads take turns, figures of several threads say little");
    }
}

static void check_quota(const char *root, struct doctor_finding *finding)
{
    uint64_t limit = system_cgroup_cpu_limit(root);
    if (limit == SYSTEM_UNLIMITED) {
        doctor_say(finding, "none");
        return;
    }
    doctor_say(finding, "%.2f cores", (double)limit / 1000);
    doctor_advise(
        finding, DOCTOR_NOTE,
        "threads are stopped when the quota is used up, which shows as slow passes: measure "
        "without it");
}

static void check_nodes(const char *root, struct doctor_finding *finding)
{
    char nodes[64];
    uint64_t balancing = 0;
    if (!system_read(root, "/sys/devices/system/node/online", nodes, sizeof nodes)) {
        doctor_say(finding, "unknown");
        return;
    }
    (void)system_read_number(root, "/proc/sys/kernel/numa_balancing", &balancing);
    doctor_say(finding, "%s%s", nodes, balancing != 0 ? ", balancing on" : "");
    if (balancing != 0) {
        doctor_advise(
            finding, DOCTOR_WARN,
            "NUMA balancing unmaps pages now and then to see who uses them, which shows as "
            "stray faults: sysctl kernel.numa_balancing=0");
    } else if (strcmp(nodes, "0") != 0) {
        doctor_advise(finding, DOCTOR_NOTE,
                      "storage keeps the node it was first touched on: bind a process to one node "
                      "(numactl --cpunodebind --membind) where that matters");
    }
}

const struct doctor_check doctor_machine_checks[] = {
    {"kernel", check_kernel},   {"membarrier", check_membarrier}, {"cores", check_cores},
    {"cpu quota", check_quota}, {"numa nodes", check_nodes},
};

const size_t doctor_machine_check_count =
    sizeof doctor_machine_checks / sizeof doctor_machine_checks[0];
