/* SPDX-License-Identifier: Apache-2.0 */
/* An ExecutionArena object, between its life (execution_life.c) and its methods (execution_arena.c). */
#ifndef HEARTH_PYTHON_EXECUTION_ARENA_H
#define HEARTH_PYTHON_EXECUTION_ARENA_H

#include "arena.h"

struct execution_arena {
    PyObject_HEAD PyObject *weak_references;
    struct hearth_exec *arena; /* its own; NULL when it was detached, and for one of a service */
    struct hearth_service *service; /* a reference; NULL: the arena is its own */
    uint64_t thread;                /* of a service: whose arena it is */
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
struct hearth_exec *hearthpy_execution_enter(const struct hearthpy_state *state, PyObject *self,
                                             const char *what);
/* Detach it if it is time. */
void hearthpy_execution_settle(struct execution_arena *self);

#endif
