/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void *isolate_alloc(size_t count, size_t bytes)
{
    void *memory =
        mmap(NULL, count * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void isolate_free(void *memory, size_t count, size_t bytes)
{
    if (memory != NULL) {
        munmap(memory, count * bytes);
    }
}

static enum command_status wait_for(pid_t child, const char *what)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            fprintf(stderr, "%s: waitpid: %s\n", what, strerror(errno));
            return COMMAND_ERRORS;
        }
    }
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        fprintf(stderr, "%s: the measurement was ended by signal %d (%s)%s\n", what, number,
                strsignal(number), number == SIGKILL ? "; if memory ran out, lower --threads" : "");
        return COMMAND_ERRORS;
    }
    switch (WEXITSTATUS(status)) {
    case COMMAND_OK:
        return COMMAND_OK;
    case COMMAND_BAD_INPUT:
        return COMMAND_BAD_INPUT;
    default: /* A sanitizer's report has exit statuses of its own. */
        return COMMAND_ERRORS;
    }
}

enum command_status isolate_call(const char *what, enum command_status (*fn)(void *argument),
                                 void *argument)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) {
        fprintf(stderr, "%s: fork: %s\n", what, strerror(errno));
        return COMMAND_ERRORS;
    }
    if (child > 0) {
        return wait_for(child, what);
    }
    /* Nobody else would stop it; the second look is for a parent that was gone before the call. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(COMMAND_ERRORS);
    }
    exit((int)fn(argument));
}
