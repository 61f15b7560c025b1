/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime: a plan with a session, a context and the arenas that serve them. What a run does: run.c. */
#include "runtime.h"

#include <stdlib.h>

static struct hearthpy_runtime *self_of(PyObject *self)
{
    return (struct hearthpy_runtime *)self;
}

static PyObject *given(PyObject *value)
{
    return value == NULL || value == Py_None ? NULL : Py_NewRef(value);
}

/* The arenas and the service that serve it; a service is made where one is needed and none was given. */
static int choose_arenas(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                         struct hearth_context_options *options)
{
    if (self->service == NULL && (self->execution == NULL || self->io_arena == NULL)) {
        self->service = PyObject_CallNoArgs((PyObject *)state->service);
        if (self->service == NULL)
            return -1;
    }
    if (self->service != NULL) {
        options->service = hearthpy_service_get(state, self->service);
        if (options->service == NULL)
            return -1;
    }
    if (self->execution != NULL) {
        struct hearth_exec *arena = hearthpy_execution_get(state, self->execution);
        if (arena == NULL)
            return -1;
        options->execution = hearth_exec_allocator(arena);
        self->allocator = options->execution;
    }
    if (self->io_arena != NULL) {
        options->arena = hearthpy_io_get(state, self->io_arena);
        if (options->arena == NULL)
            return -1;
    }
    self->io = options->arena != NULL ? options->arena : hearth_service_io(options->service);
    return 0;
}

static int open_context(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                        struct hearth_context_options *options)
{
    if (choose_arenas(state, self, options) != 0)
        return -1;
    options->plan = ((struct hearthpy_plan *)self->plan)->plan;
    enum hearth_status status = hearth_context_create(options, &self->context);
    if (status == HEARTH_OK)
        return 0;
    hearthpy_raise(state, status, "a runtime");
    return -1;
}

static int open_runtime(const struct hearthpy_state *state, struct hearthpy_runtime *self)
{
    const struct hearthpy_plan *plan = (const struct hearthpy_plan *)self->plan;
    struct hearth_context_options context = HEARTH_CONTEXT_OPTIONS_INIT;
    struct hearth_session_options session = HEARTH_SESSION_OPTIONS_INIT;
    if (open_context(state, self, &context) != 0)
        return -1;
    session.plan = plan->plan;
    session.service = context.service;
    enum hearth_status status = hearth_session_create(&session, &self->session);
    self->feeds = calloc((size_t)PyTuple_Size(plan->inputs) + 1, sizeof(*self->feeds));
    if (status == HEARTH_OK && self->feeds == NULL)
        status = HEARTH_NO_MEMORY;
    if (status == HEARTH_OK)
        return 0;
    hearthpy_raise(state, status, "a runtime");
    return -1;
}

int hearthpy_runtime_pin(const struct hearthpy_state *state, struct hearthpy_runtime *self)
{
    if (self->execution == NULL)
        return 0;
    struct hearth_exec *arena = hearthpy_execution_pin(state, self->execution);
    if (arena == NULL)
        return -1;
    self->pinned = true;
    if (hearth_exec_allocator(arena) == self->allocator)
        return 0;
    /* One of a service is another one since its thread detached. */
    struct hearth_context_options options = HEARTH_CONTEXT_OPTIONS_INIT;
    struct hearth_context *old = self->context;
    if (open_context(state, self, &options) != 0) {
        self->allocator = NULL; /* the context keeps the old one: try again in the next run */
        return -1;
    }
    (void)hearth_context_destroy(old);
    return 0;
}

void hearthpy_runtime_unpin(struct hearthpy_runtime *self)
{
    if (self->pinned)
        hearthpy_execution_unpin(self->execution);
    self->pinned = false;
}

static PyObject *construct(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"plan", "service", "execution_arena", "io_arena", NULL};
    const struct hearthpy_state *state = PyType_GetModuleState(type);
    PyObject *plan, *service = NULL, *execution = NULL, *io_arena = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|$OOO:Runtime", names, state->plan, &plan,
                                     &service, &execution, &io_arena) ||
        hearthpy_plan_complete(state, (struct hearthpy_plan *)plan) != 0)
        return NULL;
    struct hearthpy_runtime *self = (struct hearthpy_runtime *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->plan = Py_NewRef(plan);
    self->service = given(service);
    self->execution = given(execution);
    self->io_arena = given(io_arena);
    if (open_runtime(state, self) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static PyObject *clear_values(PyObject *object, PyObject *unused)
{
    struct hearthpy_runtime *self = self_of(object);
    (void)unused;
    if (self->running)
        return hearthpy_fail(hearthpy_state_of(object), HEARTH_BUSY,
                             "the runtime is in a run: clear it when run() has returned");
    (void)hearth_context_clear(self->context);
    self->ran = false;
    Py_RETURN_NONE;
}

static PyObject *none_or(PyObject *value)
{
    return Py_NewRef(value == NULL ? Py_None : value);
}

static PyObject *get_plan(PyObject *object, void *unused)
{
    (void)unused;
    return none_or(self_of(object)->plan);
}

static PyObject *get_service(PyObject *object, void *unused)
{
    (void)unused;
    return none_or(self_of(object)->service);
}

static PyObject *get_execution(PyObject *object, void *unused)
{
    struct hearthpy_runtime *self = self_of(object);
    const struct hearthpy_state *state = hearthpy_state_of(object);
    (void)unused;
    if (self->execution != NULL || self->service == NULL)
        return none_or(self->execution);
    struct hearth_service *service = hearthpy_service_get(state, self->service);
    return service == NULL ? NULL : hearthpy_execution_of_service(state, service);
}

static PyObject *get_io(PyObject *object, void *unused)
{
    struct hearthpy_runtime *self = self_of(object);
    const struct hearthpy_state *state = hearthpy_state_of(object);
    (void)unused;
    if (self->io_arena != NULL || self->service == NULL)
        return none_or(self->io_arena);
    struct hearth_service *service = hearthpy_service_get(state, self->service);
    return service == NULL ? NULL : hearthpy_io_of_service(state, service);
}

static PyObject *get_last_run(PyObject *object, void *unused)
{
    struct hearthpy_runtime *self = self_of(object);
    (void)unused;
    if (!self->ran)
        Py_RETURN_NONE;
    return hearthpy_run_stats(hearthpy_state_of(object), &self->stats);
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    const struct hearthpy_runtime *self = self_of(object);
    PyObject *const references[] = {
        (PyObject *)Py_TYPE(object),
        self->plan,
        self->service,
        self->execution,
        self->io_arena,
        self->executor,
        self->error,
    };
    for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++)
        Py_VISIT(references[i]);
    return 0;
}

/* The arenas stay: the context has their addresses. The plan's own clear breaks cycles through kernels. */
static int clear(PyObject *object)
{
    Py_CLEAR(self_of(object)->error);
    return 0;
}

static void dealloc(PyObject *object)
{
    struct hearthpy_runtime *self = self_of(object);
    PyObject_GC_UnTrack(object);
    hearthpy_call_dropped(self);
    /* Neither is busy: a run, and a task that an executor has, hold the object. */
    (void)hearth_context_destroy(self->context);
    (void)hearth_session_destroy(self->session);
    free(self->feeds);
    Py_XDECREF(self->error);
    Py_XDECREF(self->executor);
    Py_XDECREF(self->io_arena);
    Py_XDECREF(self->execution);
    Py_XDECREF(self->service);
    Py_XDECREF(self->plan);
    hearthpy_object_free(object);
}

static PyGetSetDef properties[] = {
    {"plan", get_plan, NULL, PyDoc_STR("The plan."), NULL},
    {"service", get_service, NULL, PyDoc_STR("The service; None when both arenas were given."),
     NULL},
    {"execution_arena", get_execution, NULL,
     PyDoc_STR("The arena of intermediates: the one that was given, else the calling thread's of "
               "the service."),
     NULL},
    {"io_arena", get_io, NULL, PyDoc_STR("The arena of declared outputs."), NULL},
    {"last_run", get_last_run, NULL, PyDoc_STR("The figures of the last run; None before it."),
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))hearthpy_runtime_run, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("run($self, feeds, *, executor=None, threads=0, leases=False)\n--\n\nRun the plan "
               "once. `feeds` "
               "are arrays (anything with the buffer protocol or DLPack), borrowed for the\ntime "
               "of the run; "
               "those that are not contiguous are copied. `executor` is a "
               "concurrent.futures.Executor of\n"
               "threads for parallel nodes, with up to `threads` of them. Returns the declared "
               "outputs by "
               "name, as NumPy\narrays, or as leases with leases=True. An exception of a kernel is "
               "raised "
               "here.")},
    {"clear", clear_values, METH_NOARGS,
     PyDoc_STR("clear($self)\n--\n\nForget what the last run left. Outputs that were returned stay "
               "valid.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)construct},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_traverse, (void *)traverse},
    {Py_tp_clear, (void *)clear},
    {Py_tp_getset, (void *)properties},
    {Py_tp_methods, (void *)methods},
    {Py_tp_doc,
     (void *)PyDoc_STR(
         "Runtime(plan, *, service=None, execution_arena=None, io_arena=None)\n--\n\nRuns a plan, "
         "again "
         "and again, on warm pages.\n\nOutputs come back as arrays that own their lease: they stay "
         "valid after clear(), after the next run and after\nthe runtime is gone, and return their "
         "buffers exactly once.")},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "hearth.Runtime",
    .basicsize = sizeof(struct hearthpy_runtime),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyTypeObject *hearthpy_runtime_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

static int add_type(PyObject *module, PyTypeObject *made, PyTypeObject **type, bool is_public)
{
    *type = made;
    if (made == NULL)
        return -1;
    return is_public ? PyModule_AddType(module, made) : 0;
}

int hearthpy_runtime_add(PyObject *module, struct hearthpy_state *state)
{
    return add_type(module, hearthpy_c_kernel_type(module), &state->c_kernel, true) == 0 &&
                   add_type(module, hearthpy_node_type(module), &state->node, true) == 0 &&
                   add_type(module, hearthpy_plan_type(module), &state->plan, true) == 0 &&
                   add_type(module, hearthpy_task_type(module), &state->task, false) == 0 &&
                   add_type(module, hearthpy_run_stats_type(module), &state->run_stats, false) ==
                       0 &&
                   add_type(module, hearthpy_runtime_type(module), &state->runtime, true) == 0
               ? 0
               : -1;
}
