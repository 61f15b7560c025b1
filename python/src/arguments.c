/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are bytes or counts. */
#include "core.h"

int hearthpy_size(PyObject *value, size_t none, const char *name, size_t *size)
{
    if (value == NULL || value == Py_None) {
        *size = none;
        return 0;
    }
    /* What has an __index__, as everywhere in Python; a float is no count. */
    if (!PyIndex_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be an integer or None, not %R", name,
                     (PyObject *)Py_TYPE(value));
        return -1;
    }
    PyObject *number = PyNumber_Index(value);
    if (number == NULL)
        return -1;
    size_t read = PyLong_AsSize_t(number);
    int result = 0;
    if (read == (size_t)-1 && PyErr_Occurred() != NULL) {
        PyErr_Clear();
        PyObject *zero = PyLong_FromLong(0);
        int negative = zero == NULL ? -1 : PyObject_RichCompareBool(number, zero, Py_LT);
        Py_XDECREF(zero);
        result = -1;
        if (negative > 0)
            PyErr_Format(PyExc_ValueError, "%s must not be negative, but is %R", name, number);
        else if (negative == 0)
            PyErr_Format(PyExc_OverflowError, "%s is %R, more than any memory has: ask for less",
                         name, number);
    } else {
        *size = read;
    }
    Py_DECREF(number);
    return result;
}

PyObject *hearthpy_limit(size_t bytes)
{
    if (bytes == HEARTH_UNBOUNDED)
        Py_RETURN_NONE;
    return PyLong_FromSize_t(bytes);
}
