/* SPDX-License-Identifier: Apache-2.0 */
/* What the two arenas and the service have in common: their arguments, what they refuse, how they compare. */
#ifndef HEARTH_PYTHON_ARENA_H
#define HEARTH_PYTHON_ARENA_H

#include "core.h"

/* Requests of this size and more give up the GIL where they are to be zero: writing them takes long. */
#define HEARTHPY_ZERO_ALONE ((size_t)1 << 20)

/* What empty() and zeros() were asked for. */
struct hearthpy_asked {
    struct hearth_request request; /* its deadline is not set */
    struct hearthpy_layout layout;
    bool waits;        /* a timeout was given */
    uint64_t deadline; /* CLOCK_MONOTONIC; UINT64_MAX: without one */
};

/* A method that takes (shape, dtype="uint8", *, alignment=0, timeout=None), the last one only where `may_wait`. */
struct hearthpy_call {
    const char *name; /* such as "IOArena.empty" */
    bool zero;
    bool may_wait;
};

/* -1 with an exception set. */
int hearthpy_asked_parse(const struct hearthpy_state *state, const struct hearthpy_call *call,
                         PyObject *const *args, Py_ssize_t count, PyObject *names,
                         struct hearthpy_asked *asked);

/* Raise why it could not be had. Returns NULL. */
PyObject *hearthpy_raise_asked(const struct hearthpy_state *state, enum hearth_status status,
                               const struct hearthpy_call *call,
                               const struct hearthpy_asked *asked);

/* Lease what was asked for, and if need be wait for it in the arena of a service. A signal's exception ends the wait with
 * *raised. */
enum hearth_status hearthpy_io_lease(struct hearth_io *io, bool may_wait,
                                     struct hearthpy_asked *asked, struct hearth_lease *lease,
                                     bool *raised);

uint64_t hearthpy_now_ns(void);
/* Seconds as nanoseconds, at least 1 unless it is 0; UINT64_MAX for infinity and what is beyond. -1 with an exception
 * set: no number, negative, not a number. */
int hearthpy_seconds(const struct hearthpy_state *state, PyObject *value, const char *name,
                     uint64_t *ns);

/* Options. Each -1 with an exception set. NULL and None are the default, 0 for the library. */

bool hearthpy_is_given(PyObject *value);
/* Any count. */
int hearthpy_count(PyObject *value, const char *name, size_t *size);
/* A count or a bound of at least 1. */
int hearthpy_positive(const struct hearthpy_state *state, PyObject *value, const char *name,
                      size_t *size);
/* A bound on what is retained: 0 is nothing. */
int hearthpy_cap(PyObject *value, const char *name, size_t *bytes);
/* From 1 to `most`. */
int hearthpy_number(const struct hearthpy_state *state, PyObject *value, const char *name,
                    uint32_t most, uint32_t *number);
/* One of `words`, of which there are `count`: its index plus `first`. */
int hearthpy_choice(const struct hearthpy_state *state, PyObject *value, const char *name,
                    const char *const *words, uint32_t count, uint32_t first, uint32_t *index);
int hearthpy_store(const struct hearthpy_state *state, PyObject *value, uint32_t *store);
int hearthpy_reuse_ratio(const struct hearthpy_state *state, PyObject *value, uint32_t *ratio);

/* For a setter, where 0 and None need no disguise. */
int hearthpy_cap_set(PyObject *value, const char *name, size_t *bytes);
/* What hearthpy_cap and hearthpy_cap_set made of a bound, read back. */
PyObject *hearthpy_cap_get(size_t bytes);

/* `self` with what ends a deallocation. */
void hearthpy_object_free(PyObject *self);
Py_hash_t hearthpy_pointer_hash(const void *pointer);
/* __reduce__: refuses. */
PyObject *hearthpy_no_reduce(PyObject *self, PyObject *unused);

/* A method with keywords, for a PyMethodDef. */
#define HEARTHPY_FAST(function)                                                                    \
    (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS
#define HEARTHPY_SLOW(function)                                                                    \
    (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

#define HEARTHPY_NO_REDUCE                                                                         \
    {                                                                                              \
        "__reduce__", hearthpy_no_reduce, METH_NOARGS, PyDoc_STR("Refuses: it cannot be pickled.") \
    }

/* What Service() is given; the backings in it are references. -1 with an exception set. */
int hearthpy_service_options(const struct hearthpy_state *state, PyObject *args, PyObject *keywords,
                             struct hearth_service_options *options);
/* Whether the service was closed. */
bool hearthpy_service_is_closed(struct hearth_service *service);

#endif
