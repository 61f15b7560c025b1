/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory limits of control groups, read from trees of files made for the purpose: version 1, version 2,
 * both side by side, nested groups, containers that see a part of the hierarchy, and content that is
 * odd in one way or another. Not covered: whether a kernel enforces what it says.
 */
#include "core/memory_limit.h"
#include "support.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NONE SIZE_MAX

static char root[256];

static void start(void)
{
    const char *directory = getenv("TMPDIR");
    (void)snprintf(root, sizeof root, "%s/hearth-limit-XXXXXX",
                   directory == NULL ? P_tmpdir : directory);
    cr_assert_not_null(mkdtemp(root));
}

static int delete (const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

static void end(void)
{
    cr_assert_eq(nftw(root, delete, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Write a file below the root, with the directories above it. */
static void put_bytes(const char *name, const void *content, size_t bytes)
{
    char path[8192];
    int length = snprintf(path, sizeof path, "%s%s", root, name);
    cr_assert(length > 0 && (size_t)length < sizeof path);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        cr_assert(mkdir(path, 0755) == 0 || errno == EEXIST, "%s", path);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(content, 1, bytes, file), bytes);
    cr_assert_eq(fclose(file), 0);
}

static void put(const char *name, const char *content)
{
    put_bytes(name, content, strlen(content));
}

#define CGROUP "/proc/self/cgroup"
#define MOUNTS "/proc/self/mountinfo"

#define OTHER_MOUNTS                                                                               \
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"                                      \
    "23 22 0:21 / /proc rw,nosuid - proc proc rw\n"
#define V2_MOUNT "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw\n"
#define V1_CPU "31 25 0:30 / /sys/fs/cgroup/cpu rw shared:11 - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_MEMORY "34 25 0:33 / /sys/fs/cgroup/memory rw shared:14 - cgroup cgroup rw,memory\n"
#define UNIFIED "40 25 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static size_t limit(void)
{
    return hearth__memory_limit(root);
}

Test(memory_limit, no_files_no_limit, .init = start, .fini = end)
{
    assert_size(limit(), NONE);
    put(CGROUP, "0::/app\n");
    assert_size(limit(), NONE);
    put(MOUNTS, OTHER_MOUNTS);
    assert_size(limit(), NONE);
    put(MOUNTS, OTHER_MOUNTS V2_MOUNT);
    assert_size(limit(), NONE);
}

Test(memory_limit, version_2, .init = start, .fini = end)
{
    put(CGROUP, "0::/app\n");
    put(MOUNTS, OTHER_MOUNTS V2_MOUNT);
    put("/sys/fs/cgroup/app/memory.max", "536870912\n");
    put("/sys/fs/cgroup/app/memory.limit_in_bytes", "1\n");
    assert_size(limit(), 512 * MIB);
    put("/sys/fs/cgroup/app/memory.max", "max\n");
    assert_size(limit(), NONE);
    put("/sys/fs/cgroup/app/memory.max", "0\n");
    assert_size(limit(), 0);
}

Test(memory_limit, version_2_in_a_namespace, .init = start, .fini = end)
{
    put(CGROUP, "0::/\n");
    put(MOUNTS, OTHER_MOUNTS V2_MOUNT);
    put("/sys/fs/cgroup/memory.max", "4096\n");
    assert_size(limit(), 4096);
}

Test(memory_limit, the_tightest_limit_above_counts, .init = start, .fini = end)
{
    put(CGROUP, "0::/machine/pod/app/worker\n");
    put(MOUNTS, OTHER_MOUNTS V2_MOUNT);
    put("/sys/fs/cgroup/machine/pod/app/worker/memory.max", "max\n");
    put("/sys/fs/cgroup/machine/pod/app/memory.max", "3000000\n");
    put("/sys/fs/cgroup/machine/pod/memory.max", "1000000\n");
    put("/sys/fs/cgroup/machine/memory.max", "2000000\n");
    put("/sys/fs/cgroup/machine/other/memory.max", "5\n");
    put("/sys/fs/cgroup/machine/pod/app/worker/below/memory.max", "6\n");
    assert_size(limit(), 1000000);
    put("/sys/fs/cgroup/machine/pod/app/worker/memory.max", "999999\n");
    assert_size(limit(), 999999);
    put("/sys/fs/cgroup/memory.max", "7\n");
    assert_size(limit(), 7);
}

Test(memory_limit, a_deleted_group_is_bound_from_above, .init = start, .fini = end)
{
    put(CGROUP, "0::/pod/gone (deleted)\n");
    put(MOUNTS, OTHER_MOUNTS V2_MOUNT);
    put("/sys/fs/cgroup/pod/memory.max", "12345\n");
    assert_size(limit(), 12345);
}

Test(memory_limit, version_1, .init = start, .fini = end)
{
    put(CGROUP, "5:cpu,cpuacct:/fast\n4:memory:/app/one\n1:name=systemd:/init\n");
    put(MOUNTS, OTHER_MOUNTS V1_CPU V1_MEMORY);
    put("/sys/fs/cgroup/cpu/app/one/memory.limit_in_bytes", "1\n");
    put("/sys/fs/cgroup/memory/fast/memory.limit_in_bytes", "2\n");
    put("/sys/fs/cgroup/memory/app/one/memory.limit_in_bytes", "268435456\n");
    put("/sys/fs/cgroup/memory/app/one/memory.max", "3\n");
    assert_size(limit(), 256 * MIB);
    put("/sys/fs/cgroup/memory/app/memory.limit_in_bytes", "134217728\n");
    put("/sys/fs/cgroup/memory/app/memory.use_hierarchy", "1\n");
    assert_size(limit(), 128 * MIB);
    put("/sys/fs/cgroup/memory/app/memory.use_hierarchy", "0\n");
    assert_size(limit(), 256 * MIB);
}

Test(memory_limit, version_1_writes_unlimited_as_a_number, .init = start, .fini = end)
{
    static const char *const unlimited[] = {
        "9223372036854771712\n",  "9223372036854710272\n", "9223372036854775807\n",
        "18446744073709551615\n", "1152921504606846976\n", "99999999999999999999999999999999\n",
    };
    put(CGROUP, "4:memory:/\n");
    put(MOUNTS, OTHER_MOUNTS V1_MEMORY);
    for (size_t i = 0; i < COUNT_OF(unlimited); i++) {
        put("/sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited[i]);
        assert_size(limit(), NONE);
    }
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1152921504606842880\n");
    assert_size(limit(), 1152921504606842880u);
}

/* The memory controller is in version 1, version 2 only keeps order. */
Test(memory_limit, hybrid, .init = start, .fini = end)
{
    put(CGROUP, "9:name=systemd:/unit\n4:pids,memory:/app\n0::/unit\n");
    put(MOUNTS, OTHER_MOUNTS V1_CPU V1_MEMORY UNIFIED);
    put("/sys/fs/cgroup/unified/unit/cgroup.procs", "1\n");
    put("/sys/fs/cgroup/memory/app/memory.limit_in_bytes", "70000\n");
    assert_size(limit(), 70000);
    put("/sys/fs/cgroup/unified/unit/memory.max", "60000\n");
    assert_size(limit(), 60000);
    put("/sys/fs/cgroup/unified/unit/memory.max", "80000\n");
    assert_size(limit(), 70000);
}

/* A container without a namespace of its own: its groups have the host's names, and its mounts begin
 * somewhere in the host's hierarchy. */
Test(memory_limit, a_mount_of_a_part, .init = start, .fini = end)
{
    put(CGROUP, "4:memory:/docker/abc/inner\n");
    put(MOUNTS, OTHER_MOUNTS
        "34 25 0:33 /docker/ab /wrong rw - cgroup cgroup rw,memory\n"
        "35 25 0:33 /docker/abcd /wrong rw - cgroup cgroup rw,memory\n"
        "36 25 0:33 /docker/abc/inner/deeper /wrong rw - cgroup cgroup rw,memory\n"
        "37 25 0:33 /docker/abc /sys/fs/cgroup/memory ro master:15 - cgroup cgroup rw,memory\n");
    put("/wrong/memory.limit_in_bytes", "1\n");
    put("/wrong/inner/memory.limit_in_bytes", "2\n");
    put("/sys/fs/cgroup/memory.limit_in_bytes", "3\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "40000\n");
    assert_size(limit(), 40000);
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "30000\n");
    assert_size(limit(), 30000);
    put(CGROUP, "4:memory:/docker/abc\n");
    assert_size(limit(), 40000);
}

/* Outside of the namespace's root: what the mount shows is not above the process. */
Test(memory_limit, a_group_outside_of_the_namespace, .init = start, .fini = end)
{
    static const char *const groups[] = {"0::/../other\n", "0::/..\n", "0::/a/../../other\n"};
    put(MOUNTS, OTHER_MOUNTS V2_MOUNT);
    put("/sys/fs/cgroup/memory.max", "1\n");
    put("/sys/fs/other/memory.max", "2\n");
    put("/sys/fs/memory.max", "3\n");
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        put(CGROUP, groups[i]);
        assert_size(limit(), NONE);
    }
    put(CGROUP, "0::/..other\n");
    put("/sys/fs/cgroup/..other/memory.max", "0\n");
    assert_size(limit(), 0);
    put(CGROUP, "0::/../other\n");
    put(MOUNTS, "30 22 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/other/memory.max", "77\n");
    put("/sys/fs/cgroup/memory.max", "88\n");
    assert_size(limit(), 77);
}

Test(memory_limit, blanks_in_mount_points, .init = start, .fini = end)
{
    put(CGROUP, "0::/my app\n");
    put(MOUNTS, "30 22 0:26 / /my\\040groups\\134\\011x rw - cgroup2 cgroup2 rw\n");
    put("/my groups\\\tx/my app/memory.max", "4711\n");
    assert_size(limit(), 4711);
}

Test(memory_limit, several_mounts_of_one_hierarchy, .init = start, .fini = end)
{
    put(CGROUP, "0::/pod/app\n");
    put(MOUNTS, "30 22 0:26 /pod/app /one rw - cgroup2 cgroup2 rw\n"
                "31 22 0:26 / /two rw - cgroup2 none rw,nsdelegate\n");
    put("/one/memory.max", "2000\n");
    put("/two/pod/app/memory.max", "2000\n");
    put("/two/pod/memory.max", "1000\n");
    assert_size(limit(), 1000);
}

Test(memory_limit, numbers_written_oddly_are_none, .init = start, .fini = end)
{
    static const char *const odd[] = {
        "",     "\n",     " ",      "-1\n",    "+5\n",  " 5\n",   "5 \n",
        "5k\n", "0x10\n", "5\n6\n", "max 5\n", "5.5\n", "five\n", "\x80\xff\n",
    };
    put(CGROUP, "0::/app\n");
    put(MOUNTS, V2_MOUNT);
    put("/sys/fs/cgroup/memory.max", "100\n");
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        put("/sys/fs/cgroup/app/memory.max", odd[i]);
        assert_size(limit(), 100);
    }
    put("/sys/fs/cgroup/app/memory.max", "50");
    assert_size(limit(), 50);
}

Test(memory_limit, a_directory_in_place_of_a_file, .init = start, .fini = end)
{
    put(CGROUP, "0::/app\n");
    put(MOUNTS, V2_MOUNT);
    put("/sys/fs/cgroup/app/memory.max/x", "5\n");
    put("/sys/fs/cgroup/memory.max", "100\n");
    assert_size(limit(), 100);
}

Test(memory_limit, lines_cut_short, .init = start, .fini = end)
{
    static const char whole[] = OTHER_MOUNTS V2_MOUNT;
    put(CGROUP, "0::/app\n");
    put("/sys/fs/cgroup/app/memory.max", "100\n");
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        put_bytes(MOUNTS, whole, length);
        assert_size(limit(), NONE);
    }
    put(MOUNTS, whole);
    assert_size(limit(), 100);
    static const char *const groups[] = {"",         "\n",       ":\n",       "::\n",
                                         ":::\n",    "0\n",      "0:\n",      "0::\n",
                                         "0:/app\n", "0::app\n", "1::/app\n", "0:memory\n"};
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        put(CGROUP, groups[i]);
        assert_size(limit(), NONE);
    }
    put(CGROUP, "\n:::\n0::/app\n");
    assert_size(limit(), 100);
}

/* Lines as long as the buffer, one less and one more, and very much longer, before the one that
 * matters. */
Test(memory_limit, long_lines, .init = start, .fini = end)
{
    static const size_t lengths[] = {4095, 4096, 4097, 4350, 4351, 4352,
                                     4353, 8703, 8704, 8705, 50000};
    static char text[65536];
    put("/sys/fs/cgroup/app/memory.max", "100\n");
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        memset(text, 'x', lengths[i]);
        memcpy(text, "0::/", 4);
        (void)snprintf(text + lengths[i], sizeof text - lengths[i], "\n%s", V2_MOUNT);
        put(MOUNTS, text);
        put(CGROUP, "0::/app\n");
        assert_size(limit(), 100);
        /* A group's path that cannot be opened. */
        text[lengths[i] + 1] = '\0';
        put(CGROUP, text);
        put(MOUNTS, V2_MOUNT);
        assert_size(limit(), NONE);
    }
}

Test(memory_limit, paths_that_are_too_long_together, .init = start, .fini = end)
{
    char text[8192];
    char mount[4001];
    memset(mount, 'm', sizeof mount - 1);
    mount[0] = '/';
    mount[sizeof mount - 1] = '\0';
    (void)snprintf(text, sizeof text, "30 22 0:26 / %s rw - cgroup2 cgroup2 rw\n%s", mount,
                   V2_MOUNT);
    put(MOUNTS, text);
    put(CGROUP, "0::/app\n");
    put("/sys/fs/cgroup/app/memory.max", "100\n");
    assert_size(limit(), 100);
    char deep[3000];
    memset(deep, 'd', sizeof deep - 1);
    for (size_t i = 0; i < sizeof deep; i += 100)
        deep[i] = '/';
    deep[sizeof deep - 1] = '\0';
    (void)snprintf(text, sizeof text, "0::/app%s\n", deep);
    put(CGROUP, text);
    assert_size(limit(), 100);
    static char long_root[8192];
    memset(long_root, 'r', sizeof long_root - 1);
    assert_size(hearth__memory_limit(long_root), NONE);
}

/* Whatever is in the files, the answer is that of a limit that is there, or none. */
Test(memory_limit, garbage, .init = start, .fini = end)
{
    static const char *const pieces[] = {
        "0::/",
        ":memory:/",
        "/app",
        "\n",
        "\n",
        " ",
        " - cgroup2 cgroup2 rw\n",
        "30 22 0:26 / ",
        "/sys/fs/cgroup",
        " - cgroup x rw,memory\n",
        "\\040",
        "\\",
        ":",
        ",",
        "..",
        "-",
        "rw",
    };
    uint64_t random = 5;
    put("/sys/fs/cgroup/app/memory.max", "100\n");
    put("/sys/fs/cgroup/memory.max", "200\n");
    put("/sys/fs/cgroup/memory.limit_in_bytes", "300\n");
    put("/sys/fs/cgroup/app/memory.limit_in_bytes", "\xff\xfe");
    for (unsigned round = 0; round < 500; round++) {
        for (unsigned which = 0; which < 2; which++) {
            char text[4096];
            size_t length = 0;
            for (uint64_t n = random_next(&random) % 60; n > 0; n--) {
                const char *piece = pieces[random_next(&random) % COUNT_OF(pieces)];
                memcpy(text + length, piece, strlen(piece));
                length += strlen(piece);
                if (random_next(&random) % 16 == 0)
                    text[length++] = (char)random_next(&random);
            }
            put_bytes(which == 0 ? CGROUP : MOUNTS, text, length);
        }
        size_t found = limit();
        cr_assert(found == 100 || found == 200 || found == 300 || found == NONE, "%zu", found);
    }
}

/* No descriptor stays open, and without any there is no limit. */
Test(memory_limit, descriptors, .init = start, .fini = end)
{
    put(CGROUP, "0::/app\n4:memory:/app\n");
    put(MOUNTS, V2_MOUNT V1_MEMORY);
    put("/sys/fs/cgroup/app/memory.max", "100\n");
    int before = dup(0);
    cr_assert_geq(before, 0);
    (void)close(before);
    for (unsigned i = 0; i < 100; i++)
        assert_size(limit(), 100);
    int after = dup(0);
    cr_assert_eq(after, before);
    (void)close(after);
    struct rlimit old;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    const struct rlimit none = {0, old.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    size_t found = limit();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_size(found, NONE);
}

/* This process's own: nothing can be said of it but that it is no small number. */
Test(memory_limit, the_real_one)
{
    cr_assert_gt(hearth__memory_limit(""), MIB);
}
