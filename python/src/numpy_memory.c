/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module hearth._numpy_memory: handlers as capsules, and which one the calling context uses.
 *
 * It is the only part that needs NumPy's headers, and with them NumPy's line: what was built for
 * NumPy 1 does not load with NumPy 2. hearth/numpy_memory.py loads it when it is used, and says what
 * to do when that fails.
 */
#include "numpy_memory.h"

#include <numpy/arrayobject.h>

/* NumPy's name for the capsules of handlers, and ours for those of services. */
static const char handler_name[] = "mem_handler";
static const char service_name[] = "hearth.service";

static void end_of_capsule(PyObject *capsule)
{
    PyDataMem_Handler *table = PyCapsule_GetPointer(capsule, handler_name);
    hearthpy_numpy_handler_drop(hearthpy_numpy_handler_of(table));
}

static PyObject *new_handler(PyObject *module, PyObject *args)
{
    PyObject *service_capsule;
    Py_ssize_t threshold, lazy_threshold;
    (void)module;
    if (!PyArg_ParseTuple(args, "Onn:handler", &service_capsule, &threshold, &lazy_threshold))
        return NULL;
    struct hearth_service *service = PyCapsule_GetPointer(service_capsule, service_name);
    if (service == NULL)
        return NULL;
    PyDataMem_Handler *plain = PyCapsule_GetPointer(PyDataMem_DefaultHandler, handler_name);
    if (plain == NULL)
        return NULL;
    if (threshold < 0 || lazy_threshold < -1) {
        PyErr_SetString(PyExc_ValueError, "thresholds are bytes: 0 or more");
        return NULL;
    }
    /* Not 0: a block of no bytes stays NumPy's own. */
    const struct hearthpy_numpy_policy policy = {
        .threshold = threshold == 0 ? 1 : (size_t)threshold,
        .lazy_threshold = lazy_threshold == -1 ? SIZE_MAX : (size_t)lazy_threshold,
    };
    struct hearthpy_numpy_handler *handler = hearthpy_numpy_handler_new(service, plain, &policy);
    if (handler == NULL)
        return PyErr_NoMemory();
    PyObject *capsule =
        PyCapsule_New(hearthpy_numpy_handler_table(handler), handler_name, end_of_capsule);
    if (capsule == NULL)
        hearthpy_numpy_handler_drop(handler);
    return capsule;
}

static PyObject *set_handler(PyObject *module, PyObject *handler)
{
    (void)module;
    if (handler == Py_None)
        return PyDataMem_SetHandler(NULL);
    if (!PyCapsule_IsValid(handler, handler_name)) {
        PyErr_SetString(PyExc_TypeError,
                        "not a handler: give what hearth.install_numpy() returned, or None for "
                        "NumPy's own");
        return NULL;
    }
    return PyDataMem_SetHandler(handler);
}

static PyObject *get_handler(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyDataMem_GetHandler();
}

static PyObject *name_of(PyObject *module, PyObject *array)
{
    (void)module;
    PyObject *handler;
    if (array == Py_None) {
        handler = PyDataMem_GetHandler();
    } else if (PyArray_Check(array)) {
        handler = PyArray_HANDLER((PyArrayObject *)array);
        Py_XINCREF(handler);
        if (handler == NULL)
            Py_RETURN_NONE;
    } else {
        PyErr_SetString(PyExc_TypeError, "not a NumPy array");
        return NULL;
    }
    PyDataMem_Handler *table = handler == NULL ? NULL : PyCapsule_GetPointer(handler, handler_name);
    PyObject *name = table == NULL ? NULL : PyUnicode_FromString(table->name);
    Py_XDECREF(handler);
    return name;
}

static PyObject *stats(PyObject *module, PyObject *handler)
{
    uint64_t figures[HEARTHPY_NUMPY_STATS];
    (void)module;
    PyDataMem_Handler *table = PyCapsule_GetPointer(handler, handler_name);
    if (table == NULL)
        return NULL;
    if (PyCapsule_GetDestructor(handler) != end_of_capsule) {
        PyErr_SetString(PyExc_TypeError, "not a handler of hearth: it has no figures");
        return NULL;
    }
    hearthpy_numpy_handler_stats(hearthpy_numpy_handler_of(table), figures);
    PyObject *tuple = PyTuple_New(HEARTHPY_NUMPY_STATS);
    for (Py_ssize_t i = 0; tuple != NULL && i < HEARTHPY_NUMPY_STATS; i++) {
        PyObject *figure = PyLong_FromUnsignedLongLong(figures[i]);
        if (figure == NULL || PyTuple_SetItem(tuple, i, figure) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyMethodDef functions[] = {
    {"handler", new_handler, METH_VARARGS,
     PyDoc_STR("handler(service, threshold, lazy_threshold, /)\n--\n\nA new handler on a service's "
               "capsule.")},
    {"set_handler", set_handler, METH_O,
     PyDoc_STR("set_handler(handler, /)\n--\n\nUse a handler in this context, None: NumPy's own. "
               "Returns the one before.")},
    {"get_handler", get_handler, METH_NOARGS,
     PyDoc_STR("get_handler()\n--\n\nThe handler of this context.")},
    {"name", name_of, METH_O,
     PyDoc_STR("name(array, /)\n--\n\nThe name of an array's handler; None: of this context's.")},
    {"stats", stats, METH_O,
     PyDoc_STR("stats(handler, /)\n--\n\nThe figures of a handler, in the order of STATS.")},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    static const char *const names[] = {
#define STAT_NAME(name, text) #name,
        HEARTHPY_NUMPY_STATS_MAP(STAT_NAME)
#undef STAT_NAME
    };
    PyObject *tuple = PyTuple_New(HEARTHPY_NUMPY_STATS);
    for (Py_ssize_t i = 0; tuple != NULL && i < HEARTHPY_NUMPY_STATS; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (name == NULL || PyTuple_SetItem(tuple, i, name) != 0)
            Py_CLEAR(tuple);
    }
    int status = PyModule_AddObjectRef(module, "STATS", tuple);
    Py_XDECREF(tuple);
    if (status == 0)
        status = PyModule_AddIntConstant(module, "THRESHOLD", (long)HEARTHPY_NUMPY_THRESHOLD);
    if (status == 0)
        status =
            PyModule_AddIntConstant(module, "LAZY_THRESHOLD", (long)HEARTHPY_NUMPY_LAZY_THRESHOLD);
    return status;
}

static int execute(PyObject *module)
{
    return _import_array() < 0 ? -1 : add_constants(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "hearth._numpy_memory",
    .m_doc = PyDoc_STR("NumPy's data allocator on hearth's service. Use hearth.numpy_allocator()."),
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__numpy_memory(void);
PyMODINIT_FUNC PyInit__numpy_memory(void)
{
    return PyModuleDef_Init(&definition);
}
