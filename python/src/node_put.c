/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Node.put(): an output from a value that is there already.
 *
 * A lease of the arena that the plan wants becomes the value as it is. For a declared output that would give two
 * owners one writable array where the lease is an input's or another output's, and make writable what is read-only:
 * these are copied, as are leases that were an output before, of another node or of an earlier run. An intermediate is read-only for all who see it, so an input that is one can be passed on.
 */
#include "runtime.h"

/* Arrays and memoryviews between a value and its lease. */
#define DEPTH_MAX 8

/* The Lease that an array looks at, as a reference; NULL without an exception when there is none. */
static PyObject *lease_behind(const struct hearthpy_state *state, PyObject *value)
{
    PyObject *at = Py_NewRef(value);
    for (int depth = 0; at != NULL && depth < DEPTH_MAX; depth++) {
        if (Py_IS_TYPE(at, state->lease))
            return at;
        PyObject *base = PyObject_GetAttrString(at, PyMemoryView_Check(at) ? "obj" : "base");
        Py_DECREF(at);
        at = base;
    }
    Py_XDECREF(at);
    PyErr_Clear();
    return NULL;
}

/* Whether the bytes are an input's or another output's of this node. */
static bool is_shared(const struct hearthpy_node_view *self, size_t slot, const void *data)
{
    for (size_t i = 0; i < self->node->input_count; i++)
        if (hearth_tensor_data(hearth_context_input(self->context, i)) == data)
            return true;
    for (size_t i = 0; i < self->node->output_count; i++)
        if (i != slot && hearth_tensor_data(hearth_context_output(self->context, i)) == data)
            return true;
    return false;
}

/* Whether the bytes are what the slot has already. */
static bool is_value(const struct hearthpy_node_view *self, size_t slot, const void *data)
{
    return hearth_tensor_data(hearth_context_output(self->context, slot)) == data;
}

/* Whether the source is all of a lease that may become the slot's value; *lease is that. */
static bool may_pass(const struct hearthpy_node_view *self, size_t slot,
                     const struct hearthpy_source *source, PyObject *object,
                     struct hearth_lease *lease)
{
    struct hearthpy_layout layout;
    struct hearth_buf *buf;
    if (object == NULL || !source->contiguous)
        return false;
    if (!hearthpy_lease_get(object, lease, &layout)) {
        PyErr_Clear(); /* released: what was exported before is good for a copy */
        return false;
    }
    if (hearth_lease_data(*lease) != source->data || hearth_lease_size(*lease) != source->bytes ||
        source->bytes == 0)
        return false;
    if (hearth_plan_role(self->node->plan->plan, self->node->index, slot) == HEARTH_ROLE_IO)
        return hearth_buf_owner(hearth_lease_buf(*lease)) ==
                   hearth_io_allocator(self->runtime->io) &&
               !layout.readonly && !source->layout.readonly &&
               !is_shared(self, slot, source->data) &&
               (!hearthpy_lease_give(object) || is_value(self, slot, source->data));
    return hearth_buf_of(source->data, &buf) == HEARTH_OK &&
           hearth_exec_of(hearth_buf_owner(buf)) != NULL;
}

/* An intermediate: put_output() would copy what is a lease of no arena of the run's, so the slot is made first. */
static enum hearth_status pass_intermediate(struct hearth_context *context, size_t slot,
                                            struct hearth_tensor *value)
{
    const struct hearth_shape nothing = {.dims = {0}, .rank = 1};
    struct hearth_tensor *tensor;
    enum hearth_status status =
        hearth_context_make_output(context, slot, HEARTH_DTYPE_UINT8, &nothing, &tensor);
    if (status == HEARTH_OK)
        (void)hearth_tensor_move(tensor, value);
    return status;
}

static enum hearth_status pass(struct hearthpy_node_view *self, size_t slot,
                               const struct hearthpy_source *source, struct hearth_lease lease)
{
    HEARTH_HANDLE_SCOPED handle = HEARTH_HANDLE_INIT;
    HEARTH_TENSOR_SCOPED tensor = HEARTH_TENSOR_INIT;
    struct hearth_shape shape;
    hearthpy_shape_of(&source->layout, &shape);
    enum hearth_status status = hearth_lease_retain(lease);
    if (status != HEARTH_OK)
        return status;
    status = hearth_handle_from_lease(lease, &handle);
    if (status != HEARTH_OK) {
        (void)hearth_lease_release(lease);
        return status;
    }
    status = hearth_tensor_from_handle(&handle, source->layout.dtype->dtype, &shape, &tensor);
    if (status != HEARTH_OK)
        return status;
    if (hearth_plan_role(self->node->plan->plan, self->node->index, slot) == HEARTH_ROLE_IO)
        return hearth_context_put_output(self->context, slot, &tensor);
    return pass_intermediate(self->context, slot, &tensor);
}

static enum hearth_status copy(struct hearthpy_node_view *self, size_t slot,
                               const struct hearthpy_source *source)
{
    struct hearth_tensor *tensor;
    struct hearth_shape shape;
    hearthpy_shape_of(&source->layout, &shape);
    enum hearth_status status = hearth_context_make_output(
        self->context, slot, source->layout.dtype->dtype, &shape, &tensor);
    if (status == HEARTH_OK)
        status = hearthpy_tensor_to_lease(self->runtime->io, tensor, NULL);
    if (status != HEARTH_OK)
        return status;
    hearthpy_source_copy(source, hearth_tensor_data(tensor));
    self->runtime->extra.copies++;
    self->runtime->extra.copied_bytes += source->bytes;
    return HEARTH_OK;
}

static PyObject *put_source(struct hearthpy_node_view *self, size_t slot, PyObject *name,
                            const struct hearthpy_source *source)
{
    const struct hearthpy_state *state = hearthpy_state_of((PyObject *)self);
    struct hearth_lease lease;
    PyObject *object = lease_behind(state, source->object);
    enum hearth_status status = may_pass(self, slot, source, object, &lease)
                                    ? pass(self, slot, source, lease)
                                    : copy(self, slot, source);
    Py_XDECREF(object);
    if (status == HEARTH_OK)
        Py_RETURN_NONE;
    return hearthpy_fail(state, status, "node %R, output %R of %zu bytes: %s%s", self->node->name,
                         name, source->bytes, hearth_status_text(status), hearthpy_remedy(status));
}

PyObject *hearthpy_node_view_put(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"slot", "value", NULL};
    struct hearthpy_node_view *self = (struct hearthpy_node_view *)object;
    Py_ssize_t slot;
    PyObject *value, *name;
    if (!hearthpy_node_view_check(self) ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "nO:put", names, &slot, &value) ||
        (name = hearthpy_node_view_slot(self, slot)) == NULL)
        return NULL;
    struct hearthpy_source source;
    PyObject *what =
        PyUnicode_FromFormat("the value for output \"%U\" of node \"%U\"", name, self->node->name);
    const char *text = what == NULL ? NULL : PyUnicode_AsUTF8AndSize(what, NULL);
    int opened = text == NULL ? -1
                              : hearthpy_source_open(hearthpy_state_of(object), self->runtime->io,
                                                     value, text, &source);
    Py_XDECREF(what);
    if (opened != 0)
        return NULL;
    PyObject *result = put_source(self, (size_t)slot, name, &source);
    hearthpy_source_close(&source);
    return result;
}
