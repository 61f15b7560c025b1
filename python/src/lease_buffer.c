/* SPDX-License-Identifier: Apache-2.0 */
/* Lease: the buffer protocol. */
#include "lease.h"

/* Where a view without any bytes points to: some consumers take NULL for a failure. */
static char nowhere;

static bool asks_for(int flags, int request)
{
    return (flags & request) == request;
}

static const char *objection(const struct hearthpy_lease *self, int flags)
{
    if (asks_for(flags, PyBUF_WRITABLE) && self->layout.readonly)
        return "the lease is read-only: ask for a read-only buffer, or copy";
    if (asks_for(flags, PyBUF_C_CONTIGUOUS) && !self->c_order)
        return "the lease is not contiguous in C order: copy with tobytes() or numpy.array()";
    if (asks_for(flags, PyBUF_F_CONTIGUOUS) && !self->f_order)
        return "the lease is not contiguous in Fortran's order: copy with "
               "numpy.array(order=\"F\")";
    if (asks_for(flags, PyBUF_ANY_CONTIGUOUS) && !self->c_order && !self->f_order)
        return "the lease is not contiguous: copy with tobytes() or numpy.array()";
    if (!asks_for(flags, PyBUF_STRIDES) && !self->c_order)
        return "the lease is not contiguous in C order: ask with strides, or copy with tobytes()";
    if (asks_for(flags, PyBUF_FORMAT) && !asks_for(flags, PyBUF_ND))
        return "a format without a shape makes no sense: ask with PyBUF_ND";
    return NULL;
}

int hearthpy_lease_get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    const struct hearthpy_layout *layout = &self->layout;
    if (view == NULL) {
        PyErr_SetString(PyExc_BufferError, "a buffer needs a view to fill: pass one");
        return -1;
    }
    view->obj = NULL;
    if (hearthpy_lease_refuses(self))
        return -1;
    const char *refused = objection(self, flags);
    if (refused != NULL) {
        PyErr_SetString(PyExc_BufferError, refused);
        return -1;
    }
    if (asks_for(flags, PyBUF_FORMAT) && layout->dtype->format == NULL) {
        PyErr_Format(PyExc_BufferError,
                     "the buffer protocol cannot name %s: use DLPack, or view(\"uint%d\") for the "
                     "raw bits",
                     layout->dtype->name, layout->dtype->itemsize * 8);
        return -1;
    }
    bool shaped = asks_for(flags, PyBUF_ND) && layout->ndim > 0;
    view->buf = self->data == NULL ? &nowhere : self->data;
    view->len = (Py_ssize_t)self->bytes;
    view->readonly = layout->readonly;
    view->itemsize = layout->dtype->itemsize;
    view->format = asks_for(flags, PyBUF_FORMAT) ? (char *)(uintptr_t)layout->dtype->format : NULL;
    /* Without a shape it is a row of bytes. */
    view->ndim = asks_for(flags, PyBUF_ND) ? layout->ndim : 1;
    view->shape = shaped ? self->layout.shape : NULL;
    view->strides = shaped && asks_for(flags, PyBUF_STRIDES) ? self->layout.strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    (void)atomic_fetch_add_explicit(&self->exports, 1, memory_order_relaxed);
    view->obj = Py_NewRef(object);
    return 0;
}

/* Before the reference is given up that the view holds. */
void hearthpy_lease_release_buffer(PyObject *object, Py_buffer *view)
{
    (void)view;
    (void)atomic_fetch_sub_explicit(&hearthpy_lease_of(object)->exports, 1, memory_order_relaxed);
}

PyObject *hearthpy_lease_buffer(PyObject *object, PyObject *request)
{
    long flags = PyLong_AsLong(request);
    if (flags == -1 && PyErr_Occurred() != NULL)
        return NULL;
    const char *refused = objection(hearthpy_lease_of(object), (int)flags);
    if (refused != NULL) {
        PyErr_SetString(PyExc_BufferError, refused);
        return NULL;
    }
    return PyMemoryView_FromObject(object);
}
