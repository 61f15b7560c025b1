/* SPDX-License-Identifier: Apache-2.0 */
/* An ExecutionArena object, between its life (execution_life.c) and its methods (execution_arena.c). */
#ifndef HEARTH_PYTHON_EXECUTION_ARENA_H
#define HEARTH_PYTHON_EXECUTION_ARENA_H

#include "arena.h"

struct execution_arena {
    PyObject_HEAD PyObject *weak_references;
    struct hearth_exec *arena; /* its own; NULL when it was detached, and for one of a service */
    struct hearth_service *service; /* a reference; NULL: the arena is its own */
    /* Of a service: whose arena it is. Else the thread that is known to own it; 0: ask the library. */
    uint64_t thread;
    size_t pins;
    bool closed;
};

static inline struct execution_arena *execution_arena_of(PyObject *self)
{
    return (struct execution_arena *)(void *)self;
}

/* tp_new and tp_dealloc. */
PyObject *hearthpy_execution_new(PyTypeObject *type, PyObject *args, PyObject *keywords);
void hearthpy_execution_dealloc(PyObject *object);

/* The struct, for a call named `what`; NULL with an exception set. Good until the GIL is given up. */
struct hearth_exec *hearthpy_execution_resolve(const struct hearthpy_state *state,
                                               const struct execution_arena *self,
                                               const char *what);
/* As hearthpy_execution_pin(). */
struct hearth_exec *hearthpy_execution_enter(const struct hearthpy_state *state, PyObject *object,
                                             const char *what);
/* A call of the owner's was answered OK, so this thread owns it. */
void hearthpy_execution_owned(struct execution_arena *self);
/* Detach it if it is time. */
void hearthpy_execution_settle(struct execution_arena *self);

#endif
