/* SPDX-License-Identifier: Apache-2.0 */
#include "life.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int failures;

bool life_check(bool holds, const char *file, int line, const char *text)
{
    if (!holds && atomic_fetch_add(&failures, 1) < 10)
        fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, text);
    return holds;
}

bool life_answer(enum hearth_status got, enum hearth_status expected, const char *file, int line,
                 const char *text)
{
    if (got != expected && atomic_fetch_add(&failures, 1) < 10)
        fprintf(stderr, "%s:%d: %s answers %s instead of %s\n", file, line, text,
                hearth_status_name(got), hearth_status_name(expected));
    return got == expected;
}

int life_verdict(void)
{
    return atomic_load(&failures) != 0;
}

_Noreturn void life_die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

void life_start(pthread_t *thread, void *(*fn)(void *), void *argument)
{
    errno = pthread_create(thread, NULL, fn, argument);
    if (errno)
        life_die("pthread_create");
}

void life_on_thread(void *(*fn)(void *), void *argument)
{
    pthread_t thread;
    life_start(&thread, fn, argument);
    pthread_join(thread, NULL);
}

void life_pause(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

void life_await_child(pid_t child, long milliseconds, const char *what)
{
    int status = 0;
    for (long waited = 0; waitpid(child, &status, WNOHANG) == 0; waited++) {
        if (waited > milliseconds) {
            atomic_fetch_add(&failures, 1);
            fprintf(stderr, "%s: did not exit within %ld ms\n", what, milliseconds);
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return;
        }
        life_pause(1);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    atomic_fetch_add(&failures, 1);
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: ended by signal %d\n", what, WTERMSIG(status));
    else
        fprintf(stderr, "%s: exit code %d\n", what, WEXITSTATUS(status));
}

struct hearth_lease life_lease(struct hearth_service *service, size_t size)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    if (OK(hearth_io_lease(hearth_service_io(service), size, &lease)))
        memset(hearth_lease_data(lease), 0x5A, size);
    return lease;
}

void life_work(struct hearth_service *service)
{
    static const size_t sizes[] = {100, 3000, 20000, 70000, 200000};
    struct hearth_buf *bufs[5];
    struct hearth_lease leases[5];
    struct hearth_exec *arena = NULL;
    if (!OK(hearth_service_exec(service, &arena)))
        return;
    for (size_t i = 0; i < 5; i++) {
        bufs[i] = NULL;
        if (OK(hearth_exec_alloc(arena, sizes[i], &bufs[i])))
            memset(hearth_buf_data(bufs[i]), (int)i, sizes[i]);
        leases[i] = life_lease(service, sizes[i]);
    }
    for (size_t i = 0; i < 5; i++) {
        CHECK(*(unsigned char *)hearth_lease_data(leases[i]) == 0x5A);
        OK(hearth_lease_release(leases[i]));
        CHECK(*(unsigned char *)hearth_buf_data(bufs[i]) == i);
        OK(hearth_exec_free(arena, bufs[i]));
    }
}

size_t life_kilobytes(const char *name)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t value = 0, length = strlen(name);
    if (file == NULL)
        life_die("/proc/self/status");
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            value = strtoul(line + length + 1, NULL, 10);
    }
    fclose(file);
    return value;
}
