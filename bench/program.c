/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include "measure.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const char *bench_malloc_origin(void)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (symbol == NULL || dladdr(symbol, &info) == 0 || info.dli_fname == NULL) {
        return "unknown";
    }
    return info.dli_fname;
}

bool bench_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *word = list; word != NULL; word = strchr(word, ',')) {
        word += *word == ',';
        if (strncmp(word, name, length) == 0 && (word[length] == ',' || word[length] == '\0')) {
            return true;
        }
    }
    return false;
}

size_t bench_word_count(const char *list)
{
    size_t words = 1;
    for (const char *c = list; *c != '\0'; c++) {
        words += *c == ',';
    }
    return words;
}

size_t bench_parse_count(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || value > SIZE_MAX) {
        return 0;
    }
    return (size_t)value;
}

bool bench_isolated(const char *what, void (*run)(const void *context), const void *context,
                    unsigned seconds)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* Neither outlives the one who waits for it, nor runs for ever. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(seconds);
        run(context);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        bench_die(what, "no process for the case");
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        return false;
    }
    if (status != 0) {
        bench_die(what, "the case's process failed");
    }
    return true;
}
