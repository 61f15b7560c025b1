/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources: memory that somebody gives to a run or to an output, looked at through a Lease, the buffer protocol or
 * DLPack, in this order.
 */
#include "runtime.h"

#include <string.h>

/* The exception that is set says what it was about. */
static void note(const char *what)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *done = value == NULL ? NULL : PyObject_CallMethod(value, "add_note", "s", what);
    Py_XDECREF(done);
    PyErr_Restore(type, value, traceback); /* instead of one that the call may have left */
}

static int open_lease(struct hearthpy_source *source)
{
    struct hearth_lease lease;
    if (!hearthpy_lease_get(source->lease, &lease, &source->layout))
        return -1;
    const char *start = hearth_lease_data(lease);
    source->data = start == NULL ? NULL : start + source->layout.offset;
    return 0;
}

static int layout_of_view(const struct hearthpy_state *state, const char *what,
                          struct hearthpy_source *source)
{
    const Py_buffer *view = &source->view;
    struct hearthpy_layout *layout = &source->layout;
    layout->dtype = hearthpy_dtype_of_format(view->format);
    if (layout->dtype == NULL || layout->dtype->itemsize != view->itemsize) {
        hearthpy_fail(
            state, HEARTH_INVALID,
            "%s has elements of type \"%s\", which no kernel could name: convert it, with "
            "astype() for example",
            what, view->format == NULL ? "" : view->format);
        return -1;
    }
    if (view->ndim > HEARTHPY_RANK_MAX) {
        hearthpy_fail(state, HEARTH_INVALID, "%s has %d dimensions, more than %d: join some", what,
                      view->ndim, HEARTHPY_RANK_MAX);
        return -1;
    }
    /* Some exporters leave out what goes without saying, though it was asked for: ctypes has no strides. */
    Py_ssize_t packed = view->itemsize;
    layout->ndim = view->shape == NULL && view->ndim > 1 ? 1 : view->ndim;
    for (int i = layout->ndim - 1; i >= 0; i--) {
        layout->shape[i] = view->shape == NULL ? view->len / view->itemsize : view->shape[i];
        layout->strides[i] = view->strides == NULL ? packed : view->strides[i];
        packed *= layout->shape[i];
    }
    layout->offset = 0;
    layout->readonly = view->readonly != 0;
    source->data = view->buf;
    return 0;
}

static bool has_dlpack(PyObject *object)
{
    return PyObject_HasAttrString(object, "__dlpack__") == 1;
}

static int open_dlpack(const struct hearthpy_state *state, struct hearth_io *io, const char *what,
                       struct hearthpy_source *source)
{
    if (!has_dlpack(source->object)) {
        hearthpy_fail(state, HEARTH_INVALID,
                      "%s is %R, which has neither the buffer protocol nor __dlpack__: pass "
                      "numpy.asarray() of it",
                      what, (PyObject *)Py_TYPE(source->object));
        return -1;
    }
    source->lease = hearthpy_from_dlpack(state, io, source->object);
    if (source->lease != NULL && open_lease(source) == 0)
        return 0;
    note(what);
    return -1;
}

static int open_any(const struct hearthpy_state *state, struct hearth_io *io, const char *what,
                    struct hearthpy_source *source)
{
    if (Py_IS_TYPE(source->object, state->lease)) {
        source->lease = Py_NewRef(source->object);
        if (open_lease(source) == 0)
            return 0;
        note(what);
        return -1;
    }
    if (!PyObject_CheckBuffer(source->object))
        return open_dlpack(state, io, what, source);
    if (PyObject_GetBuffer(source->object, &source->view, PyBUF_RECORDS_RO) == 0)
        return layout_of_view(state, what, source);
    source->view.obj = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        note(what);
        return -1;
    }
    /* Types that the buffer protocol cannot name. The question must not meet the exception, nor lose it. */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (has_dlpack(source->object)) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return open_dlpack(state, io, what, source);
    }
    PyErr_Restore(type, value, traceback);
    note(what);
    return -1;
}

int hearthpy_source_open(const struct hearthpy_state *state, struct hearth_io *io, PyObject *object,
                         const char *what, struct hearthpy_source *source)
{
    memset(source, 0, sizeof(*source));
    source->object = Py_NewRef(object);
    if (open_any(state, io, what, source) != 0) {
        hearthpy_source_close(source);
        return -1;
    }
    source->bytes = hearthpy_layout_bytes(&source->layout);
    source->contiguous = hearthpy_layout_is_contiguous(&source->layout);
    return 0;
}

void hearthpy_source_close(struct hearthpy_source *source)
{
    struct hearthpy_source old = *source;
    memset(source, 0, sizeof(*source));
    if (old.view.obj != NULL)
        PyBuffer_Release(&old.view);
    Py_XDECREF(old.lease);
    Py_XDECREF(old.object);
}

/* Copies of this size and more let other threads run. */
#define COPY_ALONE ((size_t)1 << 20)

void hearthpy_source_copy(const struct hearthpy_source *source, void *to)
{
    PyThreadState *thread = source->bytes >= COPY_ALONE ? PyEval_SaveThread() : NULL;
    hearthpy_layout_copy(&source->layout, source->data, to);
    if (thread != NULL)
        PyEval_RestoreThread(thread);
}

/* numpy.asarray of what is taken over in every case; that itself where there is no NumPy. */
static PyObject *as_array(const struct hearthpy_state *state, PyObject *view)
{
    PyObject *asarray = Py_XNewRef(state->asarray);
    if (asarray == NULL) { /* the first array of all */
        PyObject *numpy = PyImport_ImportModule("numpy");
        asarray = numpy == NULL ? NULL : PyObject_GetAttrString(numpy, "asarray");
        Py_XDECREF(numpy);
        if (asarray == NULL && PyErr_ExceptionMatches(PyExc_ImportError))
            PyErr_Clear();
        else if (asarray == NULL)
            Py_CLEAR(view);
    }
    PyObject *array = view;
    if (asarray != NULL && asarray != Py_None) {
        array = PyObject_CallFunctionObjArgs(asarray, view, NULL);
        Py_DECREF(view);
    }
    Py_XDECREF(asarray);
    return array;
}

/* A read-only view of the object's own, which keeps it: not of our Py_buffer, which ends with the run. */
static PyObject *array_of_object(const struct hearthpy_state *state, PyObject *object)
{
    PyObject *view = PyMemoryView_FromObject(object);
    PyObject *readonly = view == NULL ? NULL : PyObject_CallMethod(view, "toreadonly", NULL);
    Py_XDECREF(view);
    return readonly == NULL ? NULL : as_array(state, readonly);
}

PyObject *hearthpy_source_array(const struct hearthpy_state *state,
                                const struct hearthpy_source *source)
{
    if (source->lease == NULL)
        return array_of_object(state, source->object);
    struct hearth_lease lease;
    struct hearthpy_layout layout;
    if (!hearthpy_lease_get(source->lease, &lease, &layout))
        return NULL;
    enum hearth_status status = hearth_lease_retain(lease);
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "an input");
    layout.readonly = true;
    return hearthpy_array_on(state, lease, &layout);
}
