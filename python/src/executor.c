/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executors of Python's: the library asks for a call, and concurrent.futures is given a task that makes it.
 *
 * The library counts on each call that was accepted. An executor may drop one without making it (cancel_futures, an
 * interpreter that ends): it is made then by whoever drops it, which is nothing but a word that nobody comes, as
 * long as no run is going on; in a run, run() makes it when the run is over. A task keeps the runtime, so a runtime
 * that ends has none out.
 */
#include "runtime.h"

#include <stdlib.h>

struct task {
    PyObject_HEAD struct hearthpy_runtime *runtime;
    struct hearthpy_call_back *call; /* NULL: it was made, or refused */
};

static struct task *task_of(PyObject *self)
{
    return (struct task *)self;
}

static PyObject *task_new(const struct hearthpy_state *state, struct hearthpy_runtime *runtime,
                          void (*fn)(void *), void *arg)
{
    struct task *self = (struct task *)PyType_GenericAlloc(state->task, 0);
    if (self == NULL)
        return NULL;
    self->runtime = (struct hearthpy_runtime *)Py_NewRef((PyObject *)runtime);
    self->call = malloc(sizeof(*self->call));
    if (self->call == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    *self->call = (struct hearthpy_call_back){fn, arg, NULL};
    return (PyObject *)self;
}

static PyObject *task_call(PyObject *object, PyObject *args, PyObject *keywords)
{
    struct task *self = task_of(object);
    struct hearthpy_call_back *call = self->call;
    (void)args;
    (void)keywords;
    if (call != NULL) { /* once, whoever calls again */
        struct hearthpy_entry entry;
        self->call = NULL;
        hearthpy_enter(&entry, self->runtime);
        call->fn(call->arg);
        hearthpy_leave(&entry);
        free(call);
    }
    Py_RETURN_NONE;
}

void hearthpy_call_dropped(struct hearthpy_runtime *self)
{
    struct hearthpy_call_back *call;
    while ((call = self->dropped) != NULL) {
        self->dropped = call->next;
        call->fn(call->arg);
        free(call);
    }
}

static int task_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)task_of(object)->runtime);
    return 0;
}

static void task_dealloc(PyObject *object)
{
    struct task *self = task_of(object);
    PyObject_GC_UnTrack(object);
    if (self->call != NULL) {
        self->call->next = self->runtime->dropped;
        self->runtime->dropped = self->call;
        if (!self->runtime->running)
            hearthpy_call_dropped(self->runtime);
    }
    Py_DECREF((PyObject *)self->runtime);
    hearthpy_object_free(object);
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)task_dealloc},
    {Py_tp_traverse, (void *)task_traverse},
    {Py_tp_call, (void *)task_call},
    {Py_tp_doc, (void *)PyDoc_STR("Runs nodes of a runtime on the thread that calls it.")},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "hearth._core.Task",
    .basicsize = sizeof(struct task),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyTypeObject *hearthpy_task_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

static enum hearth_status submit_task(struct hearthpy_runtime *runtime, void (*fn)(void *),
                                      void *arg)
{
    PyObject *executor = Py_XNewRef(runtime->executor);
    PyObject *task = executor == NULL
                         ? NULL
                         : task_new(hearthpy_state_of((PyObject *)runtime), runtime, fn, arg);
    PyObject *future = task == NULL ? NULL : PyObject_CallMethod(executor, "submit", "O", task);
    enum hearth_status status = future == NULL ? HEARTH_CLOSED : HEARTH_OK;
    if (future == NULL) {
        /* It may have been queued all the same. */
        if (task != NULL && task_of(task)->call != NULL) {
            free(task_of(task)->call);
            task_of(task)->call = NULL;
        } else if (task != NULL) {
            status = HEARTH_OK; /* and was even called */
        }
        /* An executor that refuses is done without; an interrupt is not the executor's. */
        if (PyErr_Occurred() != NULL && !PyErr_ExceptionMatches(PyExc_Exception))
            hearthpy_keep_error(runtime);
        PyErr_Clear();
    }
    Py_XDECREF(future);
    Py_XDECREF(task);
    Py_XDECREF(executor);
    return status;
}

/* What the library calls between two nodes, on a thread of the run. */
static enum hearth_status submit(void *pool, void (*fn)(void *), void *arg)
{
    struct hearthpy_entry *entry = hearthpy_entry();
    (void)pool;
    PyEval_RestoreThread(entry->thread);
    enum hearth_status status = submit_task(entry->runtime, fn, arg);
    entry->thread = PyEval_SaveThread();
    return status;
}

/* As many threads as the executor says it has, and the caller; 0: it does not say. */
static long threads_of(PyObject *executor)
{
    PyObject *workers = PyObject_GetAttrString(executor, "_max_workers");
    long threads = -1;
    if (workers != NULL && PyLong_Check(workers))
        threads = PyLong_AsLong(workers);
    Py_XDECREF(workers);
    PyErr_Clear();
    return threads < 0 ? 0 : threads >= UINT16_MAX ? UINT16_MAX : threads + 1;
}

int hearthpy_executor_of(const struct hearthpy_state *state, PyObject *executor, long threads,
                         struct hearth_executor *made)
{
    if (!PyObject_HasAttrString(executor, "submit")) {
        PyErr_Format(PyExc_TypeError,
                     "executor is a concurrent.futures.Executor, such as a ThreadPoolExecutor, not "
                     "%R",
                     (PyObject *)Py_TYPE(executor));
        return -1;
    }
    if (threads < 0 || threads > UINT16_MAX) {
        hearthpy_fail(state, HEARTH_INVALID,
                      "threads is %ld: pass how many may run nodes, or 0 for all of the executor's",
                      threads);
        return -1;
    }
    if (threads == 0)
        threads = threads_of(executor);
    *made = (struct hearth_executor)HEARTH_EXECUTOR_INIT;
    made->submit = submit;
    made->pool = executor; /* tells executors apart */
    made->threads = (uint32_t)(threads > UINT16_MAX ? UINT16_MAX : threads);
    return 0;
}
