/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of this folder share. Each is a plain program: it prints what failed and exits 0, 1 or, when
 * what it needs is not installed, 77. */
#ifndef HEARTH_TESTS_LIFECYCLE_LIFE_H
#define HEARTH_TESTS_LIFECYCLE_LIFE_H

#include <hearth/exec.h>
#include <hearth/io.h>
#include <hearth/service.h>
#include <hearth/status.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#if defined(__SANITIZE_THREAD__)
#define LIFE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LIFE_TSAN 1
#endif
#endif
#ifndef LIFE_TSAN
#define LIFE_TSAN 0
#endif

/* AddressSanitizer or ThreadSanitizer. */
#if LIFE_TSAN || defined(__SANITIZE_ADDRESS__)
#define LIFE_SANITIZED 1
#else
#define LIFE_SANITIZED 0
#endif

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

enum { LIFE_SKIPPED = 77 };

/* Counts and prints when `holds` is false. Any thread. */
#define CHECK(holds) life_check((holds), __FILE__, __LINE__, #holds)
/* The same for a call that answers OK. */
#define OK(call) life_answer((call), HEARTH_OK, __FILE__, __LINE__, #call)
#define ANSWERS(expected, call) life_answer((call), (expected), __FILE__, __LINE__, #call)

bool life_check(bool holds, const char *file, int line, const char *text);
bool life_answer(enum hearth_status got, enum hearth_status expected, const char *file, int line,
                 const char *text);

/* The exit code so far: 0 or 1. */
int life_verdict(void);

/* Ends the process as failed, naming the system call. */
_Noreturn void life_die(const char *what);

/* Runs fn(argument) on a new thread and joins it. */
void life_on_thread(void *(*fn)(void *), void *argument);
void life_start(pthread_t *thread, void *(*fn)(void *), void *argument);
void life_pause(long milliseconds);

/* Waits for a child; one that does not exit 0 within the time fails the program, and is killed. */
void life_await_child(pid_t child, long milliseconds, const char *what);

/* Takes and returns some buffers of both domains. */
void life_work(struct hearth_service *service);
struct hearth_lease life_lease(struct hearth_service *service, size_t size);

/* A figure of /proc/self/status, in kB: "VmRSS", "VmSize". */
size_t life_kilobytes(const char *name);

#endif
