/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: how the bytes of a lease are seen. */
#include "core.h"

#include <string.h>

/* Strides of C order, and the bytes of all elements; a dimension of 0 counts as 1 for the strides, as in NumPy. False
 * when that is more than any memory has. */
static bool set_strides(struct hearthpy_layout *layout, size_t *bytes)
{
    Py_ssize_t stride = layout->dtype->itemsize;
    bool empty = false;
    for (int i = layout->ndim - 1; i >= 0; i--) {
        layout->strides[i] = stride;
        if (layout->shape[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(stride, layout->shape[i], &stride))
            return false;
    }
    *bytes = empty ? 0 : (size_t)stride;
    return true;
}

static int too_many(const struct hearthpy_state *state, Py_ssize_t ndim)
{
    hearthpy_fail(state, HEARTH_INVALID,
                  "shape has %zd dimensions and a lease at most %d: join some of them", ndim,
                  HEARTHPY_RANK_MAX);
    return -1;
}

static int set_dimension(const struct hearthpy_state *state, PyObject *value,
                         struct hearthpy_layout *layout)
{
    Py_ssize_t length = PyNumber_AsSsize_t(value, PyExc_OverflowError);
    if (length == -1 && PyErr_Occurred() != NULL) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        hearthpy_fail(state, HEARTH_OVERFLOW,
                      "a dimension of %R is more than any memory has: ask for less", value);
        return -1;
    }
    if (length < 0) {
        hearthpy_fail(state, HEARTH_INVALID,
                      "a dimension of %zd makes no sense: dimensions are 0 or more", length);
        return -1;
    }
    layout->shape[layout->ndim++] = length;
    return 0;
}

static int set_shape(const struct hearthpy_state *state, PyObject *shape,
                     struct hearthpy_layout *layout)
{
    layout->ndim = 0;
    if (PyIndex_Check(shape)) {
        /* An array of NumPy's looks like an integer, and is one only sometimes. */
        int result = set_dimension(state, shape, layout);
        if (result == 0 || !PySequence_Check(shape) || !PyErr_ExceptionMatches(PyExc_TypeError))
            return result;
        PyErr_Clear();
    }
    if (!PySequence_Check(shape) || PyUnicode_Check(shape)) {
        PyErr_Format(PyExc_TypeError, "shape must be an integer or a sequence of integers, not %R",
                     (PyObject *)Py_TYPE(shape));
        return -1;
    }
    /* A tuple of its own: the items' __index__ may change a list meanwhile. */
    PyObject *items = PySequence_Tuple(shape);
    if (items == NULL)
        return -1;
    Py_ssize_t ndim = PyTuple_Size(items);
    int result = ndim > HEARTHPY_RANK_MAX ? too_many(state, ndim) : 0;
    for (Py_ssize_t i = 0; i < ndim && result == 0; i++)
        result = set_dimension(state, PyTuple_GetItem(items, i), layout);
    Py_DECREF(items);
    return result;
}

int hearthpy_layout_make(const struct hearthpy_state *state, PyObject *shape, PyObject *dtype,
                         struct hearthpy_layout *layout, size_t *bytes)
{
    layout->offset = 0;
    layout->readonly = false;
    layout->dtype = hearthpy_dtype_parse(dtype);
    if (layout->dtype == NULL || set_shape(state, shape, layout) != 0)
        return -1;
    if (!set_strides(layout, bytes)) {
        hearthpy_fail(state, HEARTH_OVERFLOW,
                      "a %s of shape %R is more than any memory has: ask for less",
                      layout->dtype->name, shape);
        return -1;
    }
    return 0;
}

int hearthpy_layout_of_tensor(const struct hearth_tensor *tensor, struct hearthpy_layout *layout)
{
    enum hearth_dtype dtype = hearth_tensor_dtype(tensor);
    const struct hearth_shape *shape = hearth_tensor_shape(tensor);
    size_t bytes;
    layout->offset = 0;
    layout->readonly = false;
    layout->ndim = 0;
    layout->dtype = hearthpy_dtype_of(dtype);
    if (shape == NULL) {
        PyErr_SetString(PyExc_ValueError, "the value is empty: a kernel has to make it first");
        return -1;
    }
    if (layout->dtype == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "a value of type %s cannot be an array: have the kernel make bytes of it "
                     "(uint8)",
                     hearth_dtype_name(dtype));
        return -1;
    }
    layout->ndim = (int)shape->rank;
    for (int i = 0; i < layout->ndim; i++)
        layout->shape[i] = (Py_ssize_t)shape->dims[i];
    if (!set_strides(layout, &bytes)) {
        PyErr_SetString(PyExc_OverflowError, "the value's shape is more than any memory has");
        return -1;
    }
    return 0;
}

size_t hearthpy_layout_bytes(const struct hearthpy_layout *layout)
{
    size_t bytes = layout->dtype->itemsize;
    for (int i = 0; i < layout->ndim; i++)
        bytes *=
            (size_t)layout->shape[i]; /* no overflow: the layout was checked when it was made */
    return bytes;
}

/* In C order from the last dimension, in Fortran's from the first. Dimensions of one element may have any stride, and
 * without elements every stride will do. */
static bool is_packed(const struct hearthpy_layout *layout, bool from_last)
{
    Py_ssize_t stride = layout->dtype->itemsize;
    bool packed = true;
    for (int i = 0; i < layout->ndim; i++) {
        int at = from_last ? layout->ndim - 1 - i : i;
        Py_ssize_t length = layout->shape[at];
        if (length == 0)
            return true;
        if (length == 1)
            continue;
        packed = packed && layout->strides[at] == stride;
        stride *= length;
    }
    return packed;
}

bool hearthpy_layout_is_contiguous(const struct hearthpy_layout *layout)
{
    return is_packed(layout, true);
}

bool hearthpy_layout_is_fortran(const struct hearthpy_layout *layout)
{
    return is_packed(layout, false);
}

/* Dimensions from `at` on, in C order. */
static char *copy_from(const struct hearthpy_layout *layout, int at, const char *from, char *to)
{
    size_t itemsize = layout->dtype->itemsize;
    if (at == layout->ndim) {
        memcpy(to, from, itemsize);
        return to + itemsize;
    }
    Py_ssize_t stride = layout->strides[at];
    if (at == layout->ndim - 1 && stride == (Py_ssize_t)itemsize) {
        size_t row = itemsize * (size_t)layout->shape[at];
        memcpy(to, from, row);
        return to + row;
    }
    for (Py_ssize_t i = 0; i < layout->shape[at]; i++)
        to = copy_from(layout, at + 1, from + i * stride, to);
    return to;
}

void hearthpy_layout_copy(const struct hearthpy_layout *layout, const void *from, void *to)
{
    size_t bytes = hearthpy_layout_bytes(layout);
    if (bytes == 0)
        return;
    if (hearthpy_layout_is_contiguous(layout))
        memcpy(to, from, bytes);
    else
        (void)copy_from(layout, 0, from, to);
}
