/* SPDX-License-Identifier: Apache-2.0 */
/* The exceptions: one class for each kind of answer, with the status's name on each instance. */
#include "core.h"

#include <string.h>

/* One class: its name, its second base, what `status` says of an instance that nobody gave another one. */
struct error_class {
    const char *name;
    const char *doc;
    const char *status;
};

static const struct error_class classes[HEARTHPY_ERRORS] = {
    [HEARTHPY_ERROR] = {"hearth.Error",
                        "A call that hearth answered with a status. `status` is its name, such as "
                        "\"CLOSED\".",
                        "UNKNOWN"},
    [HEARTHPY_ERROR_INVALID] = {"hearth.InvalidError",
                                "INVALID: an argument that makes no sense; FOREIGN: something of "
                                "another arena.",
                                "INVALID"},
    [HEARTHPY_ERROR_NO_MEMORY] = {"hearth.NoMemoryError",
                                  "NO_MEMORY, NO_SLOT and OVERFLOW: what was asked for cannot be "
                                  "had.",
                                  "NO_MEMORY"},
    [HEARTHPY_ERROR_CLOSED] = {"hearth.ClosedError",
                               "CLOSED: the arena or service was closed, or the lease released.",
                               "CLOSED"},
    [HEARTHPY_ERROR_NOT_OWNER] = {"hearth.NotOwnerError",
                                  "NOT_OWNER: an execution arena belongs to one thread, and this "
                                  "is another one.",
                                  "NOT_OWNER"},
    [HEARTHPY_ERROR_BUSY] = {"hearth.BusyError", "BUSY: in use at this moment, or re-entered.",
                             "BUSY"},
    [HEARTHPY_ERROR_TIMEOUT] = {"hearth.WaitTimeoutError",
                                "TIMEOUT: the deadline of a request passed.", "TIMEOUT"},
};

static enum hearthpy_error class_of(enum hearth_status status)
{
    switch (status) {
    case HEARTH_NO_MEMORY:
    case HEARTH_NO_SLOT:
    case HEARTH_OVERFLOW:
        return HEARTHPY_ERROR_NO_MEMORY;
    case HEARTH_INVALID:
    case HEARTH_FOREIGN:
        return HEARTHPY_ERROR_INVALID;
    case HEARTH_CLOSED:
    case HEARTH_STALE:
        return HEARTHPY_ERROR_CLOSED;
    case HEARTH_NOT_OWNER:
        return HEARTHPY_ERROR_NOT_OWNER;
    case HEARTH_BUSY:
    case HEARTH_LEASED:
        return HEARTHPY_ERROR_BUSY;
    case HEARTH_TIMEOUT:
        return HEARTHPY_ERROR_TIMEOUT;
    case HEARTH_OK:
        break;
    }
    return HEARTHPY_ERROR;
}

const char *hearthpy_remedy(enum hearth_status status)
{
    switch (status) {
    case HEARTH_NO_MEMORY:
        return "; drop arrays and leases, call trim(), or raise the limit";
    case HEARTH_NO_SLOT:
        return "; drop arrays and leases, or make the arena with a larger capacity";
    case HEARTH_OVERFLOW:
        return "; ask for less";
    case HEARTH_CLOSED:
        return "; make a new one, what was handed out stays valid";
    case HEARTH_STALE:
        return "; keep a reference as long as it is used";
    case HEARTH_LEASED:
        return "";
    case HEARTH_BUSY:
        return "; try again when the other call has returned";
    case HEARTH_TIMEOUT:
        return "; drop arrays and leases elsewhere, or allow more time";
    case HEARTH_NOT_OWNER:
        return "; use the arena on its thread, or have it call release_owner() first";
    case HEARTH_FOREIGN:
        return "; use the arena that it came from";
    case HEARTH_OK:
    case HEARTH_INVALID:
        break;
    }
    return "";
}

static void raise_message(const struct hearthpy_state *state, enum hearth_status status,
                          PyObject *message)
{
    /* Without classes when the interpreter is on its way out. */
    PyObject *class = state == NULL ? NULL : state->errors[class_of(status)];
    if (class == NULL) {
        PyErr_SetObject(PyExc_RuntimeError, message);
        return;
    }
    PyObject *error = PyObject_CallFunctionObjArgs(class, message, NULL);
    PyObject *name = error == NULL ? NULL : PyUnicode_FromString(hearth_status_name(status));
    if (name != NULL && PyObject_SetAttrString(error, "status", name) == 0)
        PyErr_SetObject(class, error);
    Py_XDECREF(name);
    Py_XDECREF(error);
}

PyObject *hearthpy_raise(const struct hearthpy_state *state, enum hearth_status status,
                         const char *what)
{
    return hearthpy_fail(state, status, "%s: %s%s", what, hearth_status_text(status),
                         hearthpy_remedy(status));
}

PyObject *hearthpy_fail(const struct hearthpy_state *state, enum hearth_status status,
                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *message = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    if (message != NULL)
        raise_message(state, status, message);
    Py_XDECREF(message);
    return NULL;
}

/* A class on Error and, where Python has one for the same thing, on that. */
static PyObject *make_class(const struct hearthpy_state *state, enum hearthpy_error error)
{
    PyObject *base = NULL, *class = NULL;
    PyObject *also = error == HEARTHPY_ERROR_INVALID     ? PyExc_ValueError
                     : error == HEARTHPY_ERROR_NO_MEMORY ? PyExc_MemoryError
                     : error == HEARTHPY_ERROR_TIMEOUT   ? PyExc_TimeoutError
                                                         : NULL;
    const struct error_class *entry = &classes[error];
    PyObject *members = Py_BuildValue("{s:s}", "status", entry->status);
    if (error == HEARTHPY_ERROR)
        base = PyTuple_Pack(1, PyExc_Exception);
    else if (also == NULL)
        base = PyTuple_Pack(1, state->errors[HEARTHPY_ERROR]);
    else
        base = PyTuple_Pack(2, state->errors[HEARTHPY_ERROR], also);
    if (base != NULL && members != NULL)
        class = PyErr_NewExceptionWithDoc(entry->name, entry->doc, base, members);
    Py_XDECREF(base);
    Py_XDECREF(members);
    return class;
}

int hearthpy_errors_add(PyObject *module, struct hearthpy_state *state)
{
    for (int i = 0; i < HEARTHPY_ERRORS; i++) {
        state->errors[i] = make_class(state, (enum hearthpy_error)i);
        if (state->errors[i] == NULL ||
            PyModule_AddObjectRef(module, strchr(classes[i].name, '.') + 1, state->errors[i]) != 0)
            return -1;
    }
    return 0;
}
