/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/self/cgroup names the group of the process in each hierarchy, by its path from the hierarchy's
 * root. /proc/self/mountinfo says which part of a hierarchy is mounted where:
 *
 *     group         /kubepods/pod1/app/worker           of the process
 *     mounted root  /kubepods/pod1                      of the hierarchy
 *     mount point   /sys/fs/cgroup/memory
 *     directories   /sys/fs/cgroup/memory/app/worker, .../app, and the mount point itself
 *
 * A limit binds all groups below it, so the smallest one counts. Groups above the mounted root cannot
 * be seen; a mount that does not contain the process's group tells nothing about it. With version 1
 * and 2 mounted side by side, the memory controller is in one of them, and the other has no such file.
 *
 * Whatever cannot be opened, is longer than the buffers, or reads differently is skipped.
 */
#include "core/memory_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Longer paths cannot be opened in one go. */
#define PATH_BYTES 4096

/* "Unlimited" in version 1 is the largest multiple of a page, in old kernels UINT64_MAX: no machine
 * has as much as this. */
#define ABSURD_BYTES (UINT64_C(1) << 60)

/* The two versions of the interface. */
struct version {
    const char *filesystem; /* its type in mountinfo */
    const char *limit_file;
    /* Says whether a group's limit binds the groups below it ("0": no); NULL: it always does. */
    const char *hierarchy_file;
    /* Found in the lists of controllers in both files; NULL: there is but one hierarchy. */
    const char *controller;
};

static const struct version versions[] = {
    {"cgroup2", "memory.max", NULL, NULL},
    {"cgroup", "memory.limit_in_bytes", "memory.use_hierarchy", "memory"},
};

static ssize_t read_some(int fd, char *to, size_t bytes)
{
    ssize_t got;
    do
        got = read(fd, to, bytes);
    while (got < 0 && errno == EINTR);
    return got;
}

/* A file that is read line by line. */
struct lines {
    int fd;
    size_t begin; /* of what is in the buffer and not yet handed out */
    size_t end;
    char buffer[PATH_BYTES + 256];
};

static bool open_lines(struct lines *lines, const char *root, const char *name)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s%s", root, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return false;
    lines->begin = 0;
    lines->end = 0;
    lines->fd = open(path, O_RDONLY | O_CLOEXEC);
    return lines->fd >= 0;
}

/* The next line that fits the buffer, without its end; NULL at the end of the file. A last line
 * without a newline is none. */
static char *next_line(struct lines *lines)
{
    bool too_long = false;
    for (;;) {
        char *line = lines->buffer + lines->begin;
        char *newline = memchr(line, '\n', lines->end - lines->begin);
        if (newline != NULL) {
            *newline = '\0';
            lines->begin = (size_t)(newline + 1 - lines->buffer);
            if (!too_long)
                return line;
            too_long = false;
            continue;
        }
        if (lines->begin == 0 && lines->end == sizeof lines->buffer) {
            too_long = true;
            lines->end = 0;
        }
        memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
        lines->end -= lines->begin;
        lines->begin = 0;
        ssize_t got =
            read_some(lines->fd, lines->buffer + lines->end, sizeof lines->buffer - lines->end);
        if (got <= 0)
            return NULL;
        lines->end += (size_t)got;
    }
}

/* Cut the next field off, up to `separator`; NULL when there is none. */
static char *next_field(char **rest, char separator)
{
    char *field = *rest;
    if (field == NULL)
        return NULL;
    char *end = strchr(field, separator);
    *rest = end == NULL ? NULL : end + 1;
    if (end != NULL)
        *end = '\0';
    return field;
}

/* Whether a list separated by commas has this member. */
static bool lists(const char *list, const char *member)
{
    size_t length = strlen(member);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, member, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* Replace the \ooo that mountinfo writes for blanks. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        bool escaped = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
                       from[2] <= '7' && from[3] >= '0' && from[3] <= '7';
        if (escaped) {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* The path of the process's group in the hierarchy of this version. */
static bool find_group(const char *root, const struct version *version, char group[PATH_BYTES])
{
    struct lines lines;
    if (!open_lines(&lines, root, "/proc/self/cgroup"))
        return false;
    bool found = false;
    for (char *rest; !found && (rest = next_line(&lines)) != NULL;) {
        const char *id = next_field(&rest, ':');
        const char *controllers = next_field(&rest, ':');
        if (rest == NULL || rest[0] != '/' || strlen(rest) >= PATH_BYTES)
            continue;
        found = version->controller == NULL ? strcmp(id, "0") == 0 && controllers[0] == '\0'
                                            : lists(controllers, version->controller);
        if (found)
            memcpy(group, rest, strlen(rest) + 1);
    }
    close(lines.fd);
    return found;
}

/* The mounted root and the mount point in a line of mountinfo, if it is a mount of this version. */
static bool parse_mount(char *rest, const struct version *version, char **mounted_root,
                        char **mount_point)
{
    for (unsigned i = 0; i < 3; i++)
        (void)next_field(&rest, ' ');
    *mounted_root = next_field(&rest, ' ');
    *mount_point = next_field(&rest, ' ');
    /* Any number of optional fields, ended by a dash. */
    const char *field;
    do
        field = next_field(&rest, ' ');
    while (field != NULL && strcmp(field, "-") != 0);
    const char *filesystem = next_field(&rest, ' ');
    (void)next_field(&rest, ' ');
    if (filesystem == NULL || strcmp(filesystem, version->filesystem) != 0 || rest == NULL)
        return false;
    if (version->controller != NULL && !lists(rest, version->controller))
        return false;
    unescape(*mounted_root);
    unescape(*mount_point);
    return true;
}

/* The group's path below the mounted root, "" for that itself; NULL when it is not below. */
static const char *below(const char *group, const char *mounted_root)
{
    size_t length = strcmp(mounted_root, "/") == 0 ? 0 : strlen(mounted_root);
    if (strncmp(group, mounted_root, length) != 0)
        return NULL;
    const char *path = group + length;
    if (path[0] != '/' && path[0] != '\0')
        return NULL;
    /* Above the root of the process's namespace: as a path, it would leave the mount. */
    for (const char *at = path; (at = strstr(at, "/..")) != NULL; at += 3) {
        if (at[3] == '/' || at[3] == '\0')
            return NULL;
    }
    return strcmp(path, "/") == 0 ? "" : path;
}

/* A directory, with room for the name of a file in it. */
struct directory {
    size_t length;
    char path[PATH_BYTES + 32];
};

/* The beginning of a file in a directory, as a string; false if there is none. */
static bool read_file(struct directory *directory, const char *name, char *text, size_t bytes)
{
    char *end = directory->path + directory->length;
    (void)snprintf(end, sizeof directory->path - directory->length, "/%s", name);
    int fd = open(directory->path, O_RDONLY | O_CLOEXEC);
    *end = '\0';
    if (fd < 0)
        return false;
    ssize_t got = read_some(fd, text, bytes - 1);
    close(fd);
    text[got < 0 ? 0 : got] = '\0';
    return got >= 0;
}

static size_t parse_limit(const char *text)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value >= ABSURD_BYTES || value > SIZE_MAX)
            return SIZE_MAX;
    }
    bool whole = at != text && (*at == '\0' || (*at == '\n' && at[1] == '\0'));
    return whole ? (size_t)value : SIZE_MAX;
}

/* The smallest limit from a directory up to the mount point, which is its first `top` characters. */
static size_t climb(struct directory *directory, size_t top, const struct version *version)
{
    size_t smallest = SIZE_MAX;
    for (;;) {
        char text[64];
        if (read_file(directory, version->limit_file, text, sizeof text)) {
            size_t limit = parse_limit(text);
            smallest = limit < smallest ? limit : smallest;
        }
        char *slash = strrchr(directory->path + top, '/');
        if (slash == NULL)
            return smallest;
        *slash = '\0';
        directory->length = (size_t)(slash - directory->path);
        if (version->hierarchy_file != NULL &&
            read_file(directory, version->hierarchy_file, text, sizeof text) && text[0] == '0')
            return smallest;
    }
}

static size_t limit_of(const char *root, const struct version *version)
{
    char group[PATH_BYTES];
    struct lines lines;
    size_t smallest = SIZE_MAX;
    if (!find_group(root, version, group) || !open_lines(&lines, root, "/proc/self/mountinfo"))
        return SIZE_MAX;
    for (char *line; (line = next_line(&lines)) != NULL;) {
        struct directory directory;
        char *mounted_root;
        char *mount_point;
        if (!parse_mount(line, version, &mounted_root, &mount_point))
            continue;
        const char *path = below(group, mounted_root);
        if (path == NULL)
            continue;
        int length = snprintf(directory.path, PATH_BYTES, "%s%s%s", root, mount_point, path);
        if (length < 0 || length >= PATH_BYTES)
            continue;
        directory.length = (size_t)length;
        size_t limit = climb(&directory, directory.length - strlen(path), version);
        smallest = limit < smallest ? limit : smallest;
    }
    close(lines.fd);
    return smallest;
}

size_t hearth__memory_limit(const char *root)
{
    size_t smallest = SIZE_MAX;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        size_t limit = limit_of(root, &versions[i]);
        smallest = limit < smallest ? limit : smallest;
    }
    return smallest;
}
