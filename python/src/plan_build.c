/* SPDX-License-Identifier: Apache-2.0 */
/* Completing a plan: the library's check, and what kernels in Python need to know of the values. */
#include "runtime.h"

/* The inputs that are the plan's own. */
static int find_initial(const struct hearthpy_plan *self, const struct hearthpy_node *node)
{
    for (size_t i = 0; i < node->input_count; i++) {
        PyObject *number =
            PyDict_GetItemWithError(self->numbers, PyTuple_GetItem(node->inputs, (Py_ssize_t)i));
        if (number == NULL && PyErr_Occurred() != NULL)
            return -1;
        node->initial[i] = number == NULL ? -1 : PyLong_AsSsize_t(number);
    }
    return 0;
}

/* The values that a Python kernel uses. */
static PyObject *find_shown(const struct hearthpy_plan *self)
{
    PyObject *shown = PySet_New(NULL);
    for (size_t i = 0; i < self->count; i++) {
        const struct hearthpy_node *node = self->nodes[i];
        for (size_t k = 0; k < node->input_count && node->function == NULL && shown != NULL; k++)
            if (PySet_Add(shown, PyTuple_GetItem(node->inputs, (Py_ssize_t)k)) != 0)
                Py_CLEAR(shown);
    }
    return shown;
}

static int mark_shown(const struct hearthpy_node *node, PyObject *shown)
{
    for (size_t i = 0; i < node->output_count; i++) {
        int is = PySet_Contains(shown, PyTuple_GetItem(node->outputs, (Py_ssize_t)i));
        if (is < 0)
            return -1;
        node->shown[i] = is != 0;
    }
    return 0;
}

int hearthpy_plan_complete(const struct hearthpy_state *state, struct hearthpy_plan *self)
{
    if (self->plan != NULL)
        return 0;
    PyObject *shown = find_shown(self);
    int result = shown == NULL ? -1 : 0;
    for (size_t i = 0; i < self->count && result == 0; i++)
        result = find_initial(self, self->nodes[i]) == 0 ? mark_shown(self->nodes[i], shown) : -1;
    Py_XDECREF(shown);
    if (result != 0)
        return -1;
    char message[512];
    enum hearth_status status =
        hearth_plan_builder_build(self->builder, &self->plan, message, sizeof(message));
    if (status == HEARTH_OK)
        return 0;
    self->plan = NULL;
    if (message[0] != '\0')
        hearthpy_fail(state, status, "%s", message);
    else
        hearthpy_raise(state, status, "a plan");
    return -1;
}
