/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the type Lease share. */
#ifndef HEARTH_PYTHON_LEASE_H
#define HEARTH_PYTHON_LEASE_H

#include "core.h"

/*
 * A Lease object: one reference of a lease, and a layout. All but the last four members never change, and whoever
 * exports them holds the object, so shape and strides are handed out where they are.
 *
 * The reference is given up by tp_dealloc and nowhere else: numpy.ndarray(buffer=lease) keeps the object, but takes no
 * export, and would dangle if release() gave the buffer back.
 */
struct hearthpy_lease {
    PyObject_HEAD struct hearth_lease lease;
    char *data; /* of the first element */
    struct hearthpy_layout layout;
    size_t bytes; /* of all elements */
    bool c_order, f_order;
    _Atomic(bool) released;
    _Atomic(bool) given; /* it is an output of a run */
    _Atomic(Py_ssize_t) exports;
    PyObject *weak_references;
};

static inline struct hearthpy_lease *hearthpy_lease_of(PyObject *object)
{
    return (struct hearthpy_lease *)object;
}

static inline bool hearthpy_lease_is_released(struct hearthpy_lease *self)
{
    return atomic_load_explicit(&self->released, memory_order_relaxed);
}

/* ClosedError for a lease that was released, and true. */
bool hearthpy_lease_refuses(struct hearthpy_lease *self);
/* Another object on the same buffer. */
PyObject *hearthpy_lease_share(struct hearthpy_lease *self, const struct hearthpy_layout *layout);

/* lease_view.c: methods that give arrays, bytes, other leases. */
PyObject *hearthpy_lease_numpy(PyObject *object, PyObject *args, PyObject *names);
PyObject *hearthpy_lease_array(PyObject *object, PyObject *args, PyObject *names);
PyObject *hearthpy_lease_view(PyObject *object, PyObject *args, PyObject *names);
PyObject *hearthpy_lease_tobytes(PyObject *object, PyObject *unused);

/* lease_buffer.c */
int hearthpy_lease_get_buffer(PyObject *object, Py_buffer *view, int flags);
void hearthpy_lease_release_buffer(PyObject *object, Py_buffer *view);
PyObject *hearthpy_lease_buffer(PyObject *object, PyObject *request);

/* lease_origin.c: the kind and number of the arena that a lease is from. */
PyObject *hearthpy_lease_arena(PyObject *object, void *unused);

#endif
