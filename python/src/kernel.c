/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one C kernel of all nodes: it calls what the plan's user gave, in Python or in C.
 *
 * All nodes are slot-aware for the library. A C kernel that is not has its outputs brought to their places here, since
 * the library's own check comes later, and would move a value of the execution role out of the lease that Python's
 * view of it needs.
 *
 * The end of the interpreter. A thread that asks for the GIL then is Python's to stop, wherever it is: that can only be
 * a daemon thread in a run, which stays in it. An executor's threads are joined before, and storage goes home without
 * the GIL. Signals are handled where Python code runs: in kernels, and when run() returns.
 */
#include "runtime.h"

static _Thread_local struct hearthpy_entry *current;

void hearthpy_enter(struct hearthpy_entry *entry, struct hearthpy_runtime *runtime)
{
    entry->runtime = runtime;
    entry->outer = current;
    current = entry;
    entry->thread = PyEval_SaveThread();
}

void hearthpy_leave(struct hearthpy_entry *entry)
{
    PyEval_RestoreThread(entry->thread);
    current = entry->outer;
}

struct hearthpy_entry *hearthpy_entry(void)
{
    return current;
}

bool hearthpy_in_run(void)
{
    return current != NULL;
}

void hearthpy_keep_error(struct hearthpy_runtime *runtime)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (runtime->error == NULL && type != NULL) {
        PyErr_NormalizeException(&type, &value, &traceback);
        if (traceback != NULL)
            (void)PyException_SetTraceback(value, traceback);
        runtime->error = Py_NewRef(value);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* The kept exception says where it comes from. */
static void note_node(struct hearthpy_runtime *runtime, const struct hearthpy_node *node)
{
    PyObject *note = PyUnicode_FromFormat(
        "raised by the kernel of node %R (number %zu of the plan)", node->name, node->index);
    PyObject *done =
        note == NULL ? NULL : PyObject_CallMethod(runtime->error, "add_note", "O", note);
    if (done == NULL)
        PyErr_Clear(); /* the exception itself is what matters */
    Py_XDECREF(done);
    Py_XDECREF(note);
}

static enum hearth_status run_python(struct hearthpy_runtime *runtime,
                                     const struct hearthpy_node *node,
                                     struct hearth_context *context)
{
    PyObject *result = NULL;
    PyObject *kernel = Py_XNewRef(node->kernel);
    PyObject *view = NULL;
    if (kernel != NULL)
        view =
            hearthpy_node_view_new(hearthpy_state_of((PyObject *)runtime), runtime, node, context);
    if (view != NULL) {
        result = PyObject_CallFunctionObjArgs(kernel, view, NULL);
        hearthpy_node_view_end(view);
    }
    if (result == NULL && runtime->error == NULL) {
        hearthpy_keep_error(runtime);
        if (runtime->error != NULL)
            note_node(runtime, node);
    }
    bool failed = result == NULL;
    PyErr_Clear(); /* of a second failure: the first one is told */
    Py_XDECREF(result);
    Py_XDECREF(view);
    Py_XDECREF(kernel);
    return failed ? HEARTH_INVALID : HEARTH_OK;
}

/* Whether a value is where the slot wants it. */
static bool is_placed(const struct hearth_context *context, size_t slot,
                      const struct hearth_tensor *tensor)
{
    if (hearth_tensor_owner(tensor) != HEARTH_OWNER_HANDLE)
        return hearth_tensor_owner(tensor) == HEARTH_OWNER_INLINE;
    struct hearth_allocator *wanted = hearth_context_allocator_for_output(context, slot);
    struct hearth_allocator *owner = hearth_tensor_allocator(tensor);
    /* An input's storage may be another thread's, when it was reused in place. */
    return owner == wanted || (hearth_exec_of(owner) != NULL && hearth_exec_of(wanted) != NULL);
}

static enum hearth_status place(struct hearth_context *context, size_t slot,
                                struct hearth_tensor *tensor)
{
    if (is_placed(context, slot, tensor))
        return HEARTH_OK;
    HEARTH_TENSOR_SCOPED moved = HEARTH_TENSOR_INIT;
    (void)hearth_tensor_move(&moved, tensor);
    return hearth_context_put_output(context, slot, &moved);
}

static enum hearth_status run_c(const struct hearthpy_runtime *runtime,
                                const struct hearthpy_node *node, struct hearth_context *context)
{
    if (node->kernel == NULL) /* its library may be gone */
        return HEARTH_INVALID;
    enum hearth_status status = node->function(context, node->user);
    for (size_t slot = 0; slot < node->output_count && status == HEARTH_OK; slot++) {
        struct hearth_tensor *tensor = hearth_context_output(context, slot);
        if (tensor == NULL)
            continue;
        if (!node->slot_aware)
            status = place(context, slot, tensor);
        if (status == HEARTH_OK && node->shown[slot])
            status = hearthpy_tensor_to_lease(runtime->io, tensor, NULL);
    }
    return status;
}

enum hearth_status hearthpy_node_run(struct hearth_context *context, void *user)
{
    const struct hearthpy_node *node = user;
    struct hearthpy_entry *entry = current;
    if (node->function != NULL)
        return run_c(entry->runtime, node, context);
    PyEval_RestoreThread(entry->thread);
    enum hearth_status status = run_python(entry->runtime, node, context);
    entry->thread = PyEval_SaveThread();
    return status;
}
