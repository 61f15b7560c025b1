/* SPDX-License-Identifier: Apache-2.0 */
/* Node: a Python kernel's view of its node, good until the kernel returns. What it handed out stays good. */
#include "runtime.h"

static struct hearthpy_node_view *self_of(PyObject *self)
{
    return (struct hearthpy_node_view *)self;
}

PyObject *hearthpy_node_view_new(const struct hearthpy_state *state,
                                 struct hearthpy_runtime *runtime, const struct hearthpy_node *node,
                                 struct hearth_context *context)
{
    struct hearthpy_node_view *self =
        (struct hearthpy_node_view *)PyType_GenericAlloc(state->node, 0);
    if (self == NULL)
        return NULL;
    self->context = context;
    self->runtime = runtime;
    self->node = node;
    self->thread = PyThread_get_thread_ident();
    return (PyObject *)self;
}

void hearthpy_node_view_end(PyObject *view)
{
    struct hearthpy_node_view *self = self_of(view);
    PyObject *inputs = self->inputs;
    self->context = NULL;
    self->runtime = NULL;
    self->node = NULL;
    self->inputs = NULL;
    Py_XDECREF(inputs);
}

bool hearthpy_node_view_check(struct hearthpy_node_view *self)
{
    if (self->context == NULL)
        hearthpy_fail(hearthpy_state_of((PyObject *)self), HEARTH_CLOSED,
                      "this node's kernel has returned: keep its arrays, not the node");
    else if (self->thread != PyThread_get_thread_ident())
        hearthpy_fail(
            hearthpy_state_of((PyObject *)self), HEARTH_NOT_OWNER,
            "node %R is its kernel's thread's alone: make arrays there, and hand them over",
            self->node->name);
    else
        return true;
    return false;
}

PyObject *hearthpy_node_view_slot(struct hearthpy_node_view *self, Py_ssize_t slot)
{
    PyObject *name = NULL;
    if (slot >= 0 && (size_t)slot < self->node->output_count)
        name = PyTuple_GetItem(self->node->outputs, slot);
    if (name != NULL && name != Py_None)
        return name;
    return hearthpy_fail(hearthpy_state_of((PyObject *)self), HEARTH_INVALID,
                         name == NULL
                             ? "node %R has no output slot %zd: its plan gives it %zu"
                             : "node %R does not use its output slot %zd: ask role() before",
                         self->node->name, slot, self->node->output_count);
}

/* An input that a node made, as an array that has a share of its lease. */
static PyObject *array_of_value(const struct hearthpy_state *state, PyObject *name,
                                const struct hearth_tensor *tensor)
{
    struct hearthpy_layout layout;
    struct hearth_lease lease;
    if (hearthpy_layout_of_tensor(tensor, &layout) != 0)
        return NULL;
    layout.readonly = true;
    enum hearth_status status = hearthpy_tensor_share(tensor, &lease);
    if (status != HEARTH_OK)
        return hearthpy_fail(state, status, "input %R: its storage is not a lease's", name);
    return hearthpy_array_on(state, lease, &layout);
}

static PyObject *input(const struct hearthpy_state *state, struct hearthpy_node_view *self,
                       Py_ssize_t slot)
{
    PyObject *name = PyTuple_GetItem(self->node->inputs, slot);
    if (name == Py_None)
        Py_RETURN_NONE;
    const struct hearth_tensor *tensor = hearth_context_input(self->context, (size_t)slot);
    if (tensor == NULL)
        return hearthpy_fail(state, HEARTH_INVALID, "input %R has no value", name);
    if (hearth_tensor_owner(tensor) != HEARTH_OWNER_BORROWED)
        return array_of_value(state, name, tensor);
    return hearthpy_source_array(state, &self->runtime->feeds[self->node->initial[slot]]);
}

static PyObject *get_inputs(PyObject *object, void *unused)
{
    struct hearthpy_node_view *self = self_of(object);
    (void)unused;
    if (!hearthpy_node_view_check(self))
        return NULL;
    if (self->inputs != NULL)
        return Py_NewRef(self->inputs);
    Py_ssize_t count = (Py_ssize_t)self->node->input_count;
    PyObject *inputs = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count && inputs != NULL; i++) {
        PyObject *value = input(hearthpy_state_of(object), self, i);
        if (value == NULL || PyTuple_SetItem(inputs, i, value) != 0)
            Py_CLEAR(inputs);
    }
    /* A feed's own code may have asked for them meanwhile. */
    PyObject *before = self->inputs;
    self->inputs = Py_XNewRef(inputs);
    Py_XDECREF(before);
    return inputs;
}

static PyObject *get_name(PyObject *object, void *unused)
{
    struct hearthpy_node_view *self = self_of(object);
    (void)unused;
    return hearthpy_node_view_check(self) ? Py_NewRef(self->node->name) : NULL;
}

static PyObject *get_output_count(PyObject *object, void *unused)
{
    struct hearthpy_node_view *self = self_of(object);
    (void)unused;
    return hearthpy_node_view_check(self) ? PyLong_FromSize_t(self->node->output_count) : NULL;
}

static PyObject *role(PyObject *object, PyObject *slot)
{
    static const char *const names[] = {"none", "execution", "io"};
    struct hearthpy_node_view *self = self_of(object);
    if (!hearthpy_node_view_check(self))
        return NULL;
    Py_ssize_t number = PyNumber_AsSsize_t(slot, PyExc_OverflowError);
    if (number == -1 && PyErr_Occurred() != NULL)
        return NULL;
    if ((number < 0 || (size_t)number >= self->node->output_count) &&
        hearthpy_node_view_slot(self, number) == NULL)
        return NULL;
    return PyUnicode_FromString(
        names[hearth_plan_role(self->node->plan->plan, self->node->index, (size_t)number)]);
}

static PyObject *output(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"slot", "shape", "dtype", NULL};
    struct hearthpy_node_view *self = self_of(object);
    const struct hearthpy_state *state = hearthpy_state_of(object);
    Py_ssize_t slot;
    PyObject *shape, *dtype;
    struct hearthpy_layout layout;
    size_t bytes;
    if (!hearthpy_node_view_check(self) ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "nOO:output", names, &slot, &shape, &dtype) ||
        hearthpy_layout_make(state, shape, dtype, &layout, &bytes) != 0 ||
        !hearthpy_node_view_check(self)) /* the arguments may have run anything */
        return NULL;
    PyObject *name = hearthpy_node_view_slot(self, slot);
    if (name == NULL)
        return NULL;
    struct hearth_shape sizes;
    struct hearth_tensor *tensor;
    struct hearth_lease lease;
    hearthpy_shape_of(&layout, &sizes);
    enum hearth_status status = hearth_context_make_output(self->context, (size_t)slot,
                                                           layout.dtype->dtype, &sizes, &tensor);
    if (status == HEARTH_OK)
        status = hearthpy_tensor_to_lease(self->runtime->io, tensor, &lease);
    if (status == HEARTH_OK)
        return hearthpy_array_on(state, lease, &layout);
    return hearthpy_fail(state, status, "node %R, output %R of %zu bytes: %s%s", self->node->name,
                         name, bytes, hearth_status_text(status), hearthpy_remedy(status));
}

static PyObject *temporary(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"shape", "dtype", NULL};
    struct hearthpy_node_view *self = self_of(object);
    const struct hearthpy_state *state = hearthpy_state_of(object);
    PyObject *shape, *dtype = NULL;
    struct hearthpy_layout layout;
    size_t bytes;
    if (!hearthpy_node_view_check(self) ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "O|O:temporary", names, &shape, &dtype))
        return NULL;
    PyObject *bytes_type = dtype == NULL ? PyUnicode_FromString("uint8") : Py_NewRef(dtype);
    int made =
        bytes_type == NULL ? -1 : hearthpy_layout_make(state, shape, bytes_type, &layout, &bytes);
    Py_XDECREF(bytes_type);
    if (made != 0 || !hearthpy_node_view_check(self))
        return NULL;
    struct hearth_buf *buf;
    enum hearth_status status =
        hearth_alloc(hearth_context_execution_allocator(self->context), bytes, &buf);
    if (status != HEARTH_OK)
        return hearthpy_fail(state, status, "node %R, a workspace of %zu bytes: %s%s",
                             self->node->name, bytes, hearth_status_text(status),
                             hearthpy_remedy(status));
    self->runtime->extra.temporaries++;
    PyObject *lease = hearthpy_lease_of_buf(state, buf, &layout);
    return lease == NULL ? NULL : hearthpy_array_of_lease(state, lease);
}

static void dealloc(PyObject *self)
{
    hearthpy_node_view_end(self);
    hearthpy_object_free(self);
}

static PyObject *represent(PyObject *object)
{
    struct hearthpy_node_view *self = self_of(object);
    if (self->context == NULL)
        return PyUnicode_FromString("<hearth.Node, its kernel has returned>");
    return PyUnicode_FromFormat("<hearth.Node %R, number %zu>", self->node->name,
                                self->node->index);
}

static PyGetSetDef properties[] = {
    {"name", get_name, NULL, PyDoc_STR("The node's name."), NULL},
    {"inputs", get_inputs, NULL,
     PyDoc_STR("The values of the inputs, as read-only NumPy arrays (leases where NumPy is missing "
               "or does not "
               "know the\ntype). They stay valid as long as somebody refers to them, also after "
               "the run."),
     NULL},
    {"output_count", get_output_count, NULL, PyDoc_STR("Output slots, used or not."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"role", role, METH_O,
     PyDoc_STR(
         "role($self, slot, /)\n--\n\nWhether an output is an intermediate or a declared output.")},
    {"output", (PyCFunction)(void (*)(void))output, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("output($self, slot, shape, dtype)\n--\n\nMake an output where the plan wants it, "
               "and return it "
               "as a writable array with unspecified content.")},
    {"put", (PyCFunction)(void (*)(void))hearthpy_node_view_put, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("put($self, slot, value)\n--\n\nGive an output an existing value: a lease or an "
               "array of this "
               "process, by a copy unless it is a lease of\nthe arena that the plan wants. Passing "
               "an input on "
               "is fine.")},
    {"temporary", (PyCFunction)(void (*)(void))temporary, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("temporary($self, shape, dtype=\"uint8\")\n--\n\nA workspace of the running "
               "thread's arena.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_repr, (void *)represent},
    {Py_tp_getset, (void *)properties},
    {Py_tp_methods, (void *)methods},
    {Py_tp_doc, (void *)PyDoc_STR(
                    "A kernel's view of its node in a run. Slots count from 0; None is an optional "
                    "slot that is not used.")},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "hearth.Node",
    .basicsize = sizeof(struct hearthpy_node_view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyTypeObject *hearthpy_node_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
