/* SPDX-License-Identifier: Apache-2.0 */
/* Lease: arrays, other leases and bytes of it. */
#include "lease.h"

/* None, True or False. -1 with an exception set. Other things are refused: readonly="no" would be true. */
static int tristate(PyObject *value, const char *name)
{
    if (value == NULL || value == Py_None)
        return 2;
    if (!PyBool_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be True, False or None, not %R", name, value);
        return -1;
    }
    return value == Py_True;
}

/* What readonly= makes of a lease: false with an exception set when it cannot be. */
static bool set_readonly(struct hearthpy_lease *self, PyObject *readonly, bool *result)
{
    int wanted = tristate(readonly, "readonly");
    if (wanted < 0)
        return false;
    if (wanted == 0 && self->layout.readonly) {
        hearthpy_fail(hearthpy_state_of((PyObject *)self), HEARTH_INVALID,
                      "a read-only lease cannot become writable: copy it with tobytes() or "
                      "numpy().copy()");
        return false;
    }
    *result = wanted == 2 ? self->layout.readonly : wanted == 1;
    return true;
}

/* NumPy's asarray, kept by the module. NULL with an exception set: ImportError where there is no NumPy. */
static PyObject *asarray_of(struct hearthpy_state *state)
{
    if (state->asarray != NULL && state->asarray != Py_None)
        return state->asarray;
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *asarray = numpy == NULL ? NULL : PyObject_GetAttrString(numpy, "asarray");
    Py_XDECREF(numpy);
    if (asarray == NULL)
        return NULL;
    PyObject *before = state->asarray;
    state->asarray = asarray;
    Py_XDECREF(before);
    return asarray;
}

static PyObject *array_of(struct hearthpy_lease *self)
{
    struct hearthpy_state *state = hearthpy_state_of((PyObject *)self);
    PyObject *asarray = state == NULL ? NULL : asarray_of(state);
    return asarray == NULL ? NULL : PyObject_CallFunctionObjArgs(asarray, self, NULL);
}

/* An array, through a read-only lease where the array is to be that and the lease is not. */
static PyObject *array_with(struct hearthpy_lease *self, bool readonly)
{
    if (self->layout.dtype->format == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "NumPy has no %s: use view(\"uint%d\").numpy() for the raw bits, or DLPack "
                     "with a framework that has the type",
                     self->layout.dtype->name, self->layout.dtype->itemsize * 8);
        return NULL;
    }
    if (readonly == self->layout.readonly)
        return array_of(self);
    struct hearthpy_layout layout = self->layout;
    layout.readonly = readonly;
    PyObject *shared = hearthpy_lease_share(self, &layout);
    PyObject *array = shared == NULL ? NULL : array_of(hearthpy_lease_of(shared));
    Py_XDECREF(shared);
    return array;
}

PyObject *hearthpy_lease_numpy(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"readonly", NULL};
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    PyObject *wanted = NULL;
    bool readonly;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|$O:numpy", keywords, &wanted) ||
        hearthpy_lease_refuses(self) || !set_readonly(self, wanted, &readonly))
        return NULL;
    return array_with(self, readonly);
}

/* NumPy comes here only when the buffer protocol was refused, which it passes over in silence: without this it would
 * make an array of one object, the lease. */
PyObject *hearthpy_lease_array(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"dtype", "copy", NULL};
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O$O:__array__", keywords, &dtype, &copy) ||
        hearthpy_lease_refuses(self))
        return NULL;
    PyObject *array = array_with(self, self->layout.readonly);
    PyObject *result = array;
    if (array != NULL && dtype != Py_None)
        result = PyObject_CallMethod(array, "astype", "O", dtype);
    else if (array != NULL && copy == Py_True)
        result = PyObject_CallMethod(array, "copy", NULL);
    if (result != array)
        Py_DECREF(array);
    return result;
}

PyObject *hearthpy_array_of_lease(const struct hearthpy_state *state, PyObject *lease)
{
    struct hearthpy_lease *self = hearthpy_lease_of(lease);
    if (self->layout.dtype->format == NULL || state->asarray == Py_None)
        return lease;
    PyObject *array = array_of(self);
    if (array == NULL && PyErr_ExceptionMatches(PyExc_ImportError)) {
        /* Not looked for again by this way. */
        struct hearthpy_state *kept = hearthpy_state_of(lease);
        PyErr_Clear();
        if (kept != NULL && kept->asarray == NULL)
            kept->asarray = Py_NewRef(Py_None);
        return lease;
    }
    Py_DECREF(lease);
    return array;
}

/* Shape and strides of a view from what was asked for. -1 with an exception set. */
static int set_view(struct hearthpy_lease *self, PyObject *dtype, PyObject *shape, size_t offset,
                    struct hearthpy_layout *layout)
{
    const struct hearthpy_state *state = hearthpy_state_of((PyObject *)self);
    size_t bytes, rest = self->bytes - offset;
    const struct hearthpy_dtype *type =
        dtype == Py_None ? self->layout.dtype : hearthpy_dtype_parse(dtype);
    if (type == NULL)
        return -1;
    if (shape == Py_None && offset == 0 && type->itemsize == self->layout.dtype->itemsize) {
        *layout = self->layout;
        layout->dtype = type;
        return 0;
    }
    PyObject *name = PyUnicode_FromString(type->name);
    PyObject *count = NULL;
    if (shape == Py_None && rest % type->itemsize != 0)
        hearthpy_fail(state, HEARTH_INVALID,
                      "%zu bytes are not a whole number of %s: choose another offset, or give a "
                      "shape",
                      rest, type->name);
    else if (shape == Py_None)
        count = PyLong_FromSize_t(rest / type->itemsize);
    else
        count = Py_NewRef(shape);
    int result = name == NULL || count == NULL
                     ? -1
                     : hearthpy_layout_make(state, count, name, layout, &bytes);
    Py_XDECREF(name);
    Py_XDECREF(count);
    if (result == 0 && bytes > rest) {
        hearthpy_fail(state, HEARTH_INVALID,
                      "the view has %zu bytes, but from offset %zu the lease has %zu: make it "
                      "smaller",
                      bytes, offset, rest);
        result = -1;
    }
    return result;
}

PyObject *hearthpy_lease_view(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"dtype", "shape", "offset", "readonly", NULL};
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    const struct hearthpy_state *state = hearthpy_state_of(object);
    PyObject *dtype = Py_None, *shape = Py_None, *from = NULL, *wanted = NULL;
    struct hearthpy_layout layout;
    size_t offset;
    bool readonly;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|OO$OO:view", keywords, &dtype, &shape, &from,
                                     &wanted) ||
        hearthpy_size(from, 0, "offset", &offset) != 0 || !set_readonly(self, wanted, &readonly))
        return NULL;
    if (!self->c_order)
        return hearthpy_fail(state, HEARTH_INVALID,
                             "the lease is not contiguous: take numpy() of it and a view of that, "
                             "or copy with tobytes()");
    if (offset > self->bytes)
        return hearthpy_fail(state, HEARTH_INVALID,
                             "offset %zu is beyond the lease's %zu bytes: make it smaller", offset,
                             self->bytes);
    /* Last: what the arguments do when they are read may be a release. */
    if (set_view(self, dtype, shape, offset, &layout) != 0 || hearthpy_lease_refuses(self))
        return NULL;
    layout.offset = self->layout.offset + offset;
    layout.readonly = readonly;
    return hearthpy_lease_share(self, &layout);
}

PyObject *hearthpy_lease_tobytes(PyObject *object, PyObject *unused)
{
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    (void)unused;
    if (hearthpy_lease_refuses(self))
        return NULL;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)self->bytes);
    if (bytes != NULL)
        hearthpy_layout_copy(&self->layout, self->data, PyBytes_AsString(bytes));
    return bytes;
}
