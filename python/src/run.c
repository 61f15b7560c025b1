/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run: feeds become values, the nodes run without the GIL, declared outputs become arrays.
 *
 * Values end before the memory they borrow: the context is cleared before the feeds are closed, whatever happened.
 */
#include "runtime.h"

/* What run() was called with. */
struct call {
    PyObject *feeds, *executor;
    long threads;
    int leases;
};

/* The exception of a kernel, or what the library says of the run. */
static void raise_failure(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                          enum hearth_status status)
{
    PyObject *error = self->error;
    self->error = NULL;
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
        return;
    }
    const char *text = hearth_session_error(self->context);
    if (text[0] != '\0')
        hearthpy_fail(state, status, "%s", text);
    else
        hearthpy_raise(state, status, "a run");
}

/* What the library does not know of. */
static void add_extra(struct hearthpy_runtime *self)
{
    self->stats.temporaries += self->extra.temporaries;
    self->stats.payload_copies += self->extra.copies;
    self->stats.copied_bytes += self->extra.copied_bytes;
    self->stats.staged_copies += self->extra.staged;
}

static int run_nodes(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                     const struct hearth_executor *executor)
{
    struct hearthpy_entry entry;
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    hearthpy_enter(&entry, self);
    enum hearth_status status =
        executor == NULL ? hearth_session_run(self->session, self->context, &stats)
                         : hearth_session_run_on(self->session, self->context, executor, &stats);
    hearthpy_leave(&entry);
    if (stats.runs != 0) {
        self->stats = stats;
        self->ran = true;
        add_extra(self);
    }
    if (status == HEARTH_OK && self->error == NULL)
        return 0;
    raise_failure(state, self, status);
    return -1;
}

/* A declared output leaves: an array, or a lease. */
static PyObject *export(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                        PyObject *name, bool as_lease)
{
    struct hearth_lease lease;
    struct hearthpy_layout layout;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    enum hearth_status status = text == NULL
                                    ? HEARTH_NO_MEMORY
                                    : hearth_context_export(self->context, text, &lease, &tensor);
    if (status != HEARTH_OK)
        return text == NULL ? NULL
                            : hearthpy_fail(state, status, "output %R could not leave: %s%s", name,
                                            hearth_status_text(status), hearthpy_remedy(status));
    if (hearthpy_layout_of_tensor(&tensor, &layout) != 0) {
        (void)hearth_lease_release(lease);
        return NULL;
    }
    PyObject *object = hearthpy_lease_new(state, lease, &layout);
    return object == NULL || as_lease ? object : hearthpy_array_of_lease(state, object);
}

static PyObject *export_all(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                            bool as_leases)
{
    PyObject *outputs = ((struct hearthpy_plan *)self->plan)->outputs;
    PyObject *results = PyDict_New();
    Py_ssize_t count = PyTuple_Size(outputs);
    for (Py_ssize_t i = 0; i < count && results != NULL; i++) {
        PyObject *name = PyTuple_GetItem(outputs, i);
        PyObject *value = export(state, self, name, as_leases);
        if (value == NULL || PyDict_SetItem(results, name, value) != 0)
            Py_CLEAR(results);
        Py_XDECREF(value);
    }
    return results;
}

static PyObject *run(const struct hearthpy_state *state, struct hearthpy_runtime *self,
                     const struct call *call)
{
    struct hearth_executor executor, *chosen = NULL;
    if (call->executor != Py_None) {
        if (hearthpy_executor_of(state, call->executor, call->threads, &executor) != 0)
            return NULL;
        chosen = &executor;
        self->executor = Py_NewRef(call->executor);
    }
    if (hearthpy_runtime_pin(state, self) != 0 ||
        hearthpy_feeds_open(state, self, call->feeds) != 0 || run_nodes(state, self, chosen) != 0)
        return NULL;
    return export_all(state, self, call->leases != 0);
}

/* Whatever an exception says stays set. */
static void end(struct hearthpy_runtime *self)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    (void)hearth_context_clear(self->context);
    hearthpy_feeds_close(self);
    hearthpy_runtime_unpin(self);
    Py_CLEAR(self->executor);
    Py_CLEAR(self->error);
    /* Last: what went before may have dropped tasks, and from here on they are not kept. */
    self->running = false;
    hearthpy_call_dropped(self);
    PyErr_Restore(type, value, traceback);
}

PyObject *hearthpy_runtime_run(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"feeds", "executor", "threads", "leases", NULL};
    const struct hearthpy_state *state = hearthpy_state_of(object);
    struct hearthpy_runtime *self = (struct hearthpy_runtime *)object;
    struct call call = {.executor = Py_None};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$Olp:run", names, &call.feeds,
                                     &call.executor, &call.threads, &call.leases))
        return NULL;
    if (self->running)
        return hearthpy_fail(
            state, HEARTH_BUSY,
            "the runtime is in a run: wait for it, or give each thread a Runtime of "
            "its own on the same plan and service");
    self->running = true;
    self->extra = (struct hearthpy_extra){0};
    PyObject *results = run(state, self, &call);
    end(self);
    return results;
}
