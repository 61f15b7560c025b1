/* SPDX-License-Identifier: Apache-2.0 */
/* Readings as named tuples, made from the same lists as the structs. */
#include "arena.h"

#include <hearth/trim.h>

#include <string.h>

static int copy_field(PyObject *dict, PyObject *fields, PyObject *self, Py_ssize_t i)
{
    PyObject *name = PyTuple_GetItem(fields, i);
    PyObject *value = PyTuple_GetItem(self, i);
    return value == NULL ? -1 : PyDict_SetItem(dict, name, value);
}

/* As typing.NamedTuple has it: a dict of the fields. */
static PyObject *as_dict(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *fields = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "_fields");
    PyObject *dict = fields == NULL ? NULL : PyDict_New();
    Py_ssize_t count = dict == NULL ? 0 : PyTuple_Size(fields);
    bool failed = dict == NULL;
    for (Py_ssize_t i = 0; !failed && i < count; i++)
        failed = copy_field(dict, fields, self, i) != 0;
    if (failed)
        Py_CLEAR(dict);
    Py_XDECREF(fields);
    return dict;
}

static PyMethodDef as_dict_method = {
    "_asdict", as_dict, METH_NOARGS,
    PyDoc_STR("_asdict($self, /)\n--\n\nThe fields by name, in their order.")};

static PyObject *names_of(const PyStructSequence_Desc *description)
{
    PyObject *names = PyTuple_New(description->n_in_sequence);
    for (int i = 0; names != NULL && i < description->n_in_sequence; i++) {
        PyObject *name = PyUnicode_InternFromString(description->fields[i].name);
        if (name == NULL || PyTuple_SetItem(names, i, name) != 0)
            Py_CLEAR(names);
    }
    return names;
}

PyTypeObject *hearthpy_tuple_type(PyObject *module, PyStructSequence_Desc *description)
{
    PyTypeObject *type = PyStructSequence_NewType(description);
    PyObject *names = type == NULL ? NULL : names_of(description);
    PyObject *method = names == NULL ? NULL : PyDescr_NewMethod(type, &as_dict_method);
    if (method == NULL || PyObject_SetAttrString((PyObject *)type, "_fields", names) != 0 ||
        PyObject_SetAttrString((PyObject *)type, as_dict_method.ml_name, method) != 0 ||
        PyModule_AddType(module, type) != 0)
        Py_CLEAR(type);
    Py_XDECREF(names);
    Py_XDECREF(method);
    return type;
}

/* The lists. */

#define FIELD(name, unit, text) {#name, text " (" unit ")"},
#define COUNT(name, unit, text) +1

#define CONSISTENT                                                                                 \
    {                                                                                              \
        "consistent", "whether none of the figures changed while they were read"                   \
    }

static PyStructSequence_Field execution_fields[] = {CONSISTENT,
                                                    HEARTH_EXEC_STATS_MAP(FIELD){NULL, NULL}};
static PyStructSequence_Field io_fields[] = {CONSISTENT, HEARTH_IO_STATS_MAP(FIELD){NULL, NULL}};
static PyStructSequence_Field trim_fields[] = {
    HEARTH_TRIM_REPORT_MAP(FIELD){
        "more", "whether the budget or a grace period ended it: calling again continues"},
    {NULL, NULL}};

/* X(name, unit, text, value), of a service. */
#define SERVICE_MAP(X)                                                                             \
    X(thread_count, "count", "threads attached")                                                   \
    X(waiter_count, "count", "requests that wait for storage")                                     \
    X(live_bytes, "bytes", "logical bytes of live and leased buffers")                             \
    X(live_capacity, "bytes", "their capacity: what live_limit bounds")                            \
    X(retained_bytes, "bytes", "capacity of free buffers: what the ceiling bounds")                \
    X(stranded_bytes, "bytes", "credit granted and not filled")                                    \
    X(ceiling, "bytes", "the ceiling in force, None without one")                                  \
    X(footprint, "bytes", "storage obtained from the backings and not given back")                 \
    X(execution_footprint, "bytes", "the part of it of execution arenas")                          \
    X(io_footprint, "bytes", "the part of it of the I/O arena")

static PyStructSequence_Field service_fields[] = {SERVICE_MAP(FIELD){NULL, NULL}};

static PyStructSequence_Desc execution_description = {
    "hearth.ExecutionArenaStats", PyDoc_STR("One consistent reading of an execution arena."),
    execution_fields, 1 HEARTH_EXEC_STATS_MAP(COUNT)};
static PyStructSequence_Desc io_description = {"hearth.IOArenaStats",
                                               PyDoc_STR("One consistent reading of an I/O arena."),
                                               io_fields, 1 HEARTH_IO_STATS_MAP(COUNT)};
static PyStructSequence_Desc service_description = {"hearth.ServiceStats",
                                                    PyDoc_STR("The figures of a service."),
                                                    service_fields, 0 SERVICE_MAP(COUNT)};
static PyStructSequence_Desc trim_description = {
    "hearth.TrimReport", PyDoc_STR("What a trim gave back, and why the rest stayed; bytes."),
    trim_fields, 0 HEARTH_TRIM_REPORT_MAP(COUNT) + 1};

int hearthpy_stats_add(PyObject *module, struct hearthpy_state *state)
{
    state->execution_stats = hearthpy_tuple_type(module, &execution_description);
    state->io_stats = hearthpy_tuple_type(module, &io_description);
    state->service_stats = hearthpy_tuple_type(module, &service_description);
    state->trim_report = hearthpy_tuple_type(module, &trim_description);
    return state->execution_stats == NULL || state->io_stats == NULL ||
                   state->service_stats == NULL || state->trim_report == NULL
               ? -1
               : 0;
}

/* Filling. */

struct filling {
    PyObject *tuple;
    Py_ssize_t next;
};

/* NULL values, and everything after one, are for finish() to see. */
static void put(struct filling *filling, PyObject *value)
{
    if (filling->tuple != NULL && value != NULL)
        PyStructSequence_SetItem(filling->tuple, filling->next++, value);
    else {
        Py_CLEAR(filling->tuple);
        Py_XDECREF(value);
    }
}

static PyObject *number(const char *name, uint64_t value)
{
    return strcmp(name, "retention_cap") == 0 ? hearthpy_cap_get((size_t)value)
                                              : PyLong_FromUnsignedLongLong(value);
}

#define PUT(name, unit, text) put(&filling, number(#name, reading.name));

PyObject *hearthpy_execution_stats(const struct hearthpy_state *state, struct hearth_exec *arena)
{
    struct hearth_exec_stats reading = HEARTH_EXEC_STATS_INIT;
    enum hearth_status status = hearth_exec_stats(arena, &reading);
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "ExecutionArena.stats");
    struct filling filling = {PyStructSequence_New(state->execution_stats), 0};
    put(&filling, PyBool_FromLong(reading.consistent));
    HEARTH_EXEC_STATS_MAP(PUT)
    return filling.tuple;
}

PyObject *hearthpy_io_stats(const struct hearthpy_state *state, struct hearth_io *io)
{
    struct hearth_io_stats reading = HEARTH_IO_STATS_INIT;
    enum hearth_status status = hearth_io_stats(io, &reading);
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "IOArena.stats");
    struct filling filling = {PyStructSequence_New(state->io_stats), 0};
    put(&filling, PyBool_FromLong(reading.consistent));
    HEARTH_IO_STATS_MAP(PUT)
    return filling.tuple;
}

PyObject *hearthpy_trim_report(const struct hearthpy_state *state,
                               const struct hearth_trim_report *report)
{
    struct hearth_trim_report reading = *report;
    struct filling filling = {PyStructSequence_New(state->trim_report), 0};
    HEARTH_TRIM_REPORT_MAP(PUT)
    put(&filling, PyBool_FromLong(reading.more != 0));
    return filling.tuple;
}

PyObject *hearthpy_service_stats(const struct hearthpy_state *state,
                                 const struct hearth_service *service)
{
    size_t footprint = hearth_service_footprint(service);
    size_t io_footprint = hearth_io_footprint(hearth_service_io(service));
    struct filling filling = {PyStructSequence_New(state->service_stats), 0};
    put(&filling, PyLong_FromSize_t(hearth_service_thread_count(service)));
    put(&filling, PyLong_FromSize_t(hearth_service_waiter_count(service)));
    put(&filling, PyLong_FromSize_t(hearth_service_live_bytes(service)));
    put(&filling, PyLong_FromSize_t(hearth_service_live_capacity(service)));
    put(&filling, PyLong_FromSize_t(hearth_service_retained_bytes(service)));
    put(&filling, PyLong_FromSize_t(hearth_service_stranded_bytes(service)));
    put(&filling, hearthpy_cap_get(hearth_service_ceiling(service)));
    put(&filling, PyLong_FromSize_t(footprint));
    /* Read one after the other, the part may have outgrown the whole. */
    put(&filling, PyLong_FromSize_t(footprint > io_footprint ? footprint - io_footprint : 0));
    put(&filling, PyLong_FromSize_t(io_footprint));
    return filling.tuple;
}
