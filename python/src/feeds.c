/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds: what a run is given becomes the values of its inputs, without a copy where it is contiguous. */
#include "runtime.h"

static const struct hearthpy_plan *plan_of(const struct hearthpy_runtime *self)
{
    return (const struct hearthpy_plan *)self->plan;
}

static int refuse(const struct hearthpy_state *state, const char *name, enum hearth_status status)
{
    PyObject *what = PyUnicode_FromFormat("input \"%s\"", name);
    const char *text = what == NULL ? NULL : PyUnicode_AsUTF8AndSize(what, NULL);
    if (text != NULL)
        hearthpy_raise(state, status, text);
    Py_XDECREF(what);
    return -1;
}

/* Room in the I/O arena with the elements in C order, owned by a lease as everything that Python may see. */
static int stage(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                 const char *name, const struct hearthpy_source *source)
{
    struct hearth_shape shape;
    struct hearth_tensor *tensor;
    hearthpy_shape_of(&source->layout, &shape);
    enum hearth_status status = hearth_context_stage(
        self->context, name, source->layout.dtype->dtype, &shape, NULL, source->bytes, &tensor);
    if (status == HEARTH_OK)
        status = hearthpy_tensor_to_lease(self->io, tensor, NULL);
    if (status != HEARTH_OK)
        return refuse(state, name, status);
    hearthpy_source_copy(source, hearth_tensor_data(tensor));
    self->extra.copies++;
    self->extra.staged++;
    self->extra.copied_bytes += source->bytes;
    return 0;
}

static int borrow(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                  const char *name, const struct hearthpy_source *source)
{
    struct hearth_shape shape;
    hearthpy_shape_of(&source->layout, &shape);
    enum hearth_status status = hearth_context_borrow(
        self->context, name, source->data, source->bytes, source->layout.dtype->dtype, &shape);
    return status == HEARTH_OK ? 0 : refuse(state, name, status);
}

static int feed(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                Py_ssize_t number, PyObject *value)
{
    struct hearthpy_source *source = &self->feeds[number];
    PyObject *what =
        PyUnicode_FromFormat("input \"%U\"", PyTuple_GetItem(plan_of(self)->inputs, number));
    const char *text = what == NULL ? NULL : PyUnicode_AsUTF8AndSize(what, NULL);
    const char *name =
        PyUnicode_AsUTF8AndSize(PyTuple_GetItem(plan_of(self)->inputs, number), NULL);
    int result = text == NULL || name == NULL
                     ? -1
                     : hearthpy_source_open(state, self->io, value, text, source);
    Py_XDECREF(what);
    if (result != 0)
        return -1;
    return source->contiguous ? borrow(state, self, name, source)
                              : stage(state, self, name, source);
}

/* The number of the plan's input with this name; -1 with an exception set. */
static Py_ssize_t number_of(const struct hearthpy_state *state, const struct hearthpy_plan *plan,
                            PyObject *name)
{
    PyObject *number = PyUnicode_Check(name) ? PyDict_GetItemWithError(plan->numbers, name) : NULL;
    if (number != NULL)
        return PyLong_AsSsize_t(number);
    if (PyErr_Occurred() == NULL)
        hearthpy_fail(state, HEARTH_INVALID,
                      "%R is no input of the plan, whose inputs are %R: feed these", name,
                      plan->inputs);
    return -1;
}

static int feed_item(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                     PyObject *item)
{
    if (!PyTuple_Check(item) || PyTuple_Size(item) != 2) {
        PyErr_SetString(PyExc_TypeError, "feeds is a mapping of names to arrays");
        return -1;
    }
    Py_ssize_t number = number_of(state, plan_of(self), PyTuple_GetItem(item, 0));
    if (number < 0)
        return -1;
    if (self->feeds[number].object != NULL) {
        hearthpy_fail(state, HEARTH_INVALID, "input %R is fed twice: feed it once",
                      PyTuple_GetItem(item, 0));
        return -1;
    }
    return feed(state, self, number, PyTuple_GetItem(item, 1));
}

static int find_missing(const struct hearthpy_state *state, const struct hearthpy_runtime *self)
{
    const struct hearthpy_plan *plan = plan_of(self);
    int result = -1;
    PyObject *missing = PyList_New(0);
    if (missing == NULL)
        return -1;
    Py_ssize_t count = PyTuple_Size(plan->inputs);
    for (Py_ssize_t i = 0; i < count; i++)
        if (self->feeds[i].object == NULL &&
            PyList_Append(missing, PyTuple_GetItem(plan->inputs, i)) != 0)
            goto done;
    if (PyList_Size(missing) == 0)
        result = 0;
    else
        hearthpy_fail(state, HEARTH_INVALID, "inputs without a value: %R; feed an array for each",
                      missing);
done:
    Py_DECREF(missing);
    return result;
}

int hearthpy_feeds_open(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                        PyObject *feeds)
{
    if (!PyMapping_Check(feeds) || !PyObject_HasAttrString(feeds, "items")) {
        PyErr_Format(PyExc_TypeError, "feeds is a mapping of names to arrays, not %R",
                     (PyObject *)Py_TYPE(feeds));
        return -1;
    }
    PyObject *items = PyMapping_Items(feeds);
    if (items == NULL)
        return -1;
    int result = 0;
    Py_ssize_t count = PyList_Size(items);
    for (Py_ssize_t i = 0; i < count && result == 0; i++)
        result = feed_item(state, self, PyList_GetItem(items, i));
    Py_DECREF(items);
    return result == 0 ? find_missing(state, self) : -1;
}

void hearthpy_feeds_close(struct hearthpy_runtime *self)
{
    Py_ssize_t count = PyTuple_Size(plan_of(self)->inputs);
    for (Py_ssize_t i = 0; i < count; i++)
        hearthpy_source_close(&self->feeds[i]);
}
