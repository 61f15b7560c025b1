/* SPDX-License-Identifier: Apache-2.0 */
/* Plan: what runs in which order, and where each output lives. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static struct hearthpy_plan *self_of(PyObject *self)
{
    return (struct hearthpy_plan *)self;
}

/* A name as the library takes it; NULL with an exception set. */
static const char *text_of(const struct hearthpy_state *state, PyObject *name, const char *what)
{
    Py_ssize_t length;
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "%s are names, strings, not %R", what,
                     (PyObject *)Py_TYPE(name));
        return NULL;
    }
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text != NULL && strlen(text) != (size_t)length) {
        hearthpy_fail(state, HEARTH_INVALID, "%s: the name %R has a NUL in it: leave it out", what,
                      name);
        return NULL;
    }
    return text;
}

/* A tuple of names; with `optional` None, which stands for "" as well. */
static PyObject *names_of(const struct hearthpy_state *state, PyObject *sequence, const char *what,
                          bool optional)
{
    if (PyUnicode_Check(sequence)) {
        PyErr_Format(PyExc_TypeError, "%s is a sequence of names, not one string: write [%R]", what,
                     sequence);
        return NULL;
    }
    PyObject *given = PySequence_Tuple(sequence);
    PyObject *names = given == NULL ? NULL : PyTuple_New(PyTuple_Size(given));
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_Size(given); i++) {
        PyObject *name = PyTuple_GetItem(given, i);
        const char *text = "";
        if (!optional || name != Py_None)
            text = text_of(state, name, what);
        /* Of a string's subclass the string alone: its __eq__ and __hash__ are not for us. */
        PyObject *kept = text == NULL    ? NULL
                         : *text == '\0' ? Py_NewRef(optional ? Py_None : name)
                                         : PyUnicode_FromObject(name);
        if (kept == NULL || PyTuple_SetItem(names, i, kept) != 0)
            Py_CLEAR(names);
    }
    Py_XDECREF(given);
    return names;
}

static int declare(const struct hearthpy_state *state, struct hearth_plan_builder *builder,
                   PyObject *names, const char *what,
                   enum hearth_status (*add)(struct hearth_plan_builder *, const char *))
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        enum hearth_status status = add(builder, PyUnicode_AsUTF8AndSize(name, NULL));
        if (status == HEARTH_OK)
            continue;
        if (status == HEARTH_INVALID)
            hearthpy_fail(state, status,
                          "%s: %R is declared twice, or empty: give each a name once", what, name);
        else
            hearthpy_raise(state, status, what);
        return -1;
    }
    return 0;
}

static int number_inputs(struct hearthpy_plan *self)
{
    self->numbers = PyDict_New();
    for (Py_ssize_t i = 0; self->numbers != NULL && i < PyTuple_Size(self->inputs); i++) {
        PyObject *number = PyLong_FromSsize_t(i);
        if (number == NULL ||
            PyDict_SetItem(self->numbers, PyTuple_GetItem(self->inputs, i), number) != 0)
            Py_CLEAR(self->numbers);
        Py_XDECREF(number);
    }
    return self->numbers == NULL ? -1 : 0;
}

static PyObject *construct(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"inputs", "outputs", NULL};
    const struct hearthpy_state *state = PyType_GetModuleState(type);
    PyObject *inputs, *outputs;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:Plan", names, &inputs, &outputs))
        return NULL;
    struct hearthpy_plan *self = (struct hearthpy_plan *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    enum hearth_status status = hearth_plan_builder_create(&self->builder);
    if (status != HEARTH_OK)
        hearthpy_raise(state, status, "a plan");
    else if ((self->inputs = names_of(state, inputs, "inputs", false)) != NULL &&
             (self->outputs = names_of(state, outputs, "outputs", false)) != NULL &&
             declare(state, self->builder, self->inputs, "inputs", hearth_plan_builder_add_input) ==
                 0 &&
             declare(state, self->builder, self->outputs, "outputs",
                     hearth_plan_builder_add_output) == 0 &&
             number_inputs(self) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* Nodes */

static void node_free(struct hearthpy_node *node)
{
    Py_XDECREF(node->kernel);
    Py_XDECREF(node->name);
    Py_XDECREF(node->inputs);
    Py_XDECREF(node->outputs);
    free(node->initial);
    free(node->shown);
    free(node);
}

static int set_kernel(const struct hearthpy_state *state, struct hearthpy_node *node,
                      PyObject *kernel)
{
    if (Py_IS_TYPE(kernel, state->c_kernel)) {
        const struct hearthpy_c_kernel *code = (const struct hearthpy_c_kernel *)kernel;
        node->function = code->function;
        node->user = code->user;
        node->slot_aware = code->slot_aware;
    } else if (!PyCallable_Check(kernel)) {
        PyErr_Format(PyExc_TypeError, "a kernel is callable with a Node, or a CKernel, not %R",
                     (PyObject *)Py_TYPE(kernel));
        return -1;
    }
    node->kernel = Py_NewRef(kernel);
    return 0;
}

static struct hearthpy_node *node_new(const struct hearthpy_state *state, PyObject *kernel,
                                      PyObject *inputs, PyObject *outputs, PyObject *name)
{
    struct hearthpy_node *node = calloc(1, sizeof(*node));
    if (node == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (set_kernel(state, node, kernel) == 0 &&
        (node->inputs = names_of(state, inputs, "inputs", true)) != NULL &&
        (node->outputs = names_of(state, outputs, "outputs", true)) != NULL) {
        node->input_count = (size_t)PyTuple_Size(node->inputs);
        node->output_count = (size_t)PyTuple_Size(node->outputs);
        node->initial = calloc(node->input_count + 1, sizeof(*node->initial));
        node->shown = calloc(node->output_count + 1, sizeof(*node->shown));
        if (name != Py_None)
            node->name = Py_NewRef(name);
        else if (PyObject_HasAttrString(kernel, "__name__"))
            node->name = PyObject_GetAttrString(kernel, "__name__");
        else
            node->name = PyUnicode_FromString("");
        if (node->initial == NULL || node->shown == NULL)
            PyErr_NoMemory();
        else if (node->name != NULL && text_of(state, node->name, "names of nodes") != NULL)
            return node;
    }
    node_free(node);
    return NULL;
}

/* Pointers into the strings of a tuple; NULL with an exception set. */
static const char **texts_of(PyObject *names)
{
    Py_ssize_t count = PyTuple_Size(names);
    const char **texts = calloc((size_t)count + 1, sizeof(*texts));
    if (texts == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; texts != NULL && i < count; i++)
        if (PyTuple_GetItem(names, i) != Py_None)
            texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
    return texts;
}

static enum hearth_status builder_add(struct hearthpy_plan *self, struct hearthpy_node *node)
{
    struct hearth_node given = HEARTH_NODE_INIT;
    const char **inputs = texts_of(node->inputs);
    const char **outputs = inputs == NULL ? NULL : texts_of(node->outputs);
    given.name = PyUnicode_AsUTF8AndSize(node->name, NULL);
    given.inputs = inputs;
    given.input_count = node->input_count;
    given.outputs = outputs;
    given.output_count = node->output_count;
    given.kernel = hearthpy_node_run;
    given.user = node;
    given.flags = HEARTH_NODE_SLOT_AWARE; /* those that are not: kernel.c */
    enum hearth_status status =
        outputs == NULL ? HEARTH_NO_MEMORY
                        : hearth_plan_builder_add_node(self->builder, &given, &node->index);
    free(inputs);
    free(outputs);
    return status;
}

static int add_node(const struct hearthpy_state *state, struct hearthpy_plan *self,
                    struct hearthpy_node *node)
{
    struct hearthpy_node **nodes = realloc(self->nodes, (self->count + 1) * sizeof(void *));
    if (nodes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->nodes = nodes;
    node->plan = self;
    enum hearth_status status = builder_add(self, node);
    if (status != HEARTH_OK) {
        if (PyErr_Occurred() == NULL)
            hearthpy_raise(state, status, "a node");
        return -1;
    }
    nodes[self->count++] = node;
    return 0;
}

static PyObject *add(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"kernel", "inputs", "outputs", "name", NULL};
    const struct hearthpy_state *state = hearthpy_state_of(object);
    struct hearthpy_plan *self = self_of(object);
    PyObject *kernel, *inputs, *outputs, *name = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO|$O:add", names, &kernel, &inputs,
                                     &outputs, &name))
        return NULL;
    struct hearthpy_node *node = node_new(state, kernel, inputs, outputs, name);
    if (node == NULL)
        return NULL;
    if (self->plan != NULL)
        hearthpy_fail(state, HEARTH_INVALID,
                      "the plan is complete, since build() or its first runtime: make another one");
    else if (add_node(state, self, node) == 0)
        return PyLong_FromSize_t(node->index);
    node_free(node);
    return NULL;
}

/* Questions */

static PyObject *build(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (hearthpy_plan_complete(hearthpy_state_of(object), self_of(object)) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *role(PyObject *object, PyObject *args)
{
    static const char *const names[] = {"none", "execution", "io"};
    const struct hearthpy_state *state = hearthpy_state_of(object);
    struct hearthpy_plan *self = self_of(object);
    Py_ssize_t node, slot;
    if (!PyArg_ParseTuple(args, "nn:role", &node, &slot) ||
        hearthpy_plan_complete(state, self) != 0)
        return NULL;
    if (node < 0 || (size_t)node >= self->count)
        return hearthpy_fail(state, HEARTH_INVALID, "no node %zd: the plan has %zu", node,
                             self->count);
    if (slot < 0 || (size_t)slot >= self->nodes[node]->output_count)
        return hearthpy_fail(state, HEARTH_INVALID, "node %zd has no output slot %zd: it has %zu",
                             node, slot, self->nodes[node]->output_count);
    return PyUnicode_FromString(names[hearth_plan_role(self->plan, (size_t)node, (size_t)slot)]);
}

static PyObject *order(PyObject *object, PyObject *unused)
{
    struct hearthpy_plan *self = self_of(object);
    (void)unused;
    if (hearthpy_plan_complete(hearthpy_state_of(object), self) != 0)
        return NULL;
    PyObject *numbers = PyTuple_New((Py_ssize_t)self->count);
    for (size_t step = 0; numbers != NULL && step < self->count; step++) {
        PyObject *number = PyLong_FromSize_t(hearth_plan_node_at(self->plan, step));
        if (number == NULL || PyTuple_SetItem(numbers, (Py_ssize_t)step, number) != 0)
            Py_CLEAR(numbers);
    }
    return numbers;
}

static PyObject *get_inputs(PyObject *object, void *unused)
{
    (void)unused;
    return Py_NewRef(self_of(object)->inputs);
}

static PyObject *get_outputs(PyObject *object, void *unused)
{
    (void)unused;
    return Py_NewRef(self_of(object)->outputs);
}

/* The object */

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    const struct hearthpy_plan *self = self_of(object);
    Py_VISIT(Py_TYPE(object));
    for (size_t i = 0; i < self->count; i++)
        Py_VISIT(self->nodes[i]->kernel);
    return 0;
}

static int clear(PyObject *object)
{
    struct hearthpy_plan *self = self_of(object);
    for (size_t i = 0; i < self->count; i++)
        Py_CLEAR(self->nodes[i]->kernel);
    return 0;
}

static void dealloc(PyObject *object)
{
    struct hearthpy_plan *self = self_of(object);
    PyObject_GC_UnTrack(object);
    hearth_plan_builder_destroy(self->builder);
    hearth_plan_unref(self->plan);
    for (size_t i = 0; i < self->count; i++)
        node_free(self->nodes[i]);
    free(self->nodes);
    Py_XDECREF(self->inputs);
    Py_XDECREF(self->outputs);
    Py_XDECREF(self->numbers);
    hearthpy_object_free(object);
}

static PyObject *represent(PyObject *object)
{
    const struct hearthpy_plan *self = self_of(object);
    return PyUnicode_FromFormat("<hearth.Plan, %zu nodes, %R to %R>", self->count, self->inputs,
                                self->outputs);
}

static PyGetSetDef properties[] = {
    {"inputs", get_inputs, NULL, PyDoc_STR("The names of the inputs."), NULL},
    {"outputs", get_outputs, NULL, PyDoc_STR("The names of the declared outputs."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"add", (PyCFunction)(void (*)(void))add, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("add($self, kernel, inputs, outputs, *, name=None)\n--\n\nAdd a node. Returns its "
               "number.")},
    {"build", build, METH_NOARGS,
     PyDoc_STR("build($self)\n--\n\nCheck and order the nodes now. InvalidError names the node and "
               "the value "
               "that are wrong.")},
    {"role", role, METH_VARARGS,
     PyDoc_STR("role($self, node, slot, /)\n--\n\nWhere an output lives: \"none\", \"execution\", "
               "\"io\".")},
    {"order", order, METH_NOARGS,
     PyDoc_STR("order($self)\n--\n\nThe nodes' numbers in the order of a serial run.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)construct},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_traverse, (void *)traverse},
    {Py_tp_clear, (void *)clear},
    {Py_tp_repr, (void *)represent},
    {Py_tp_getset, (void *)properties},
    {Py_tp_methods, (void *)methods},
    {Py_tp_doc,
     (void *)PyDoc_STR(
         "Plan(inputs, outputs)\n--\n\nWhat runs in which order, and where each output lives. "
         "Built once, from nodes in any order.\n\n    plan = Plan(inputs=[\"x\"], "
         "outputs=[\"y\"])\n"
         "    plan.add(square, [\"x\"], [\"t\"])\n    plan.add(double, [\"t\"], [\"y\"])\n\nIt is "
         "complete with its first use by a runtime; add() is refused then.")},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "hearth.Plan",
    .basicsize = sizeof(struct hearthpy_plan),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyTypeObject *hearthpy_plan_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
