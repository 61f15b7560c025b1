/* SPDX-License-Identifier: Apache-2.0 */
/* The module hearth._core: its state, its types, its functions. */
#include "core.h"

#include <hearth/backing.h>
#include <hearth/version.h>

static struct hearthpy_state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static PyObject *backing(PyObject *module, PyObject *unused)
{
    struct hearth_backing *backing = NULL;
    enum hearth_status status = hearth_backing_default(&backing);
    (void)unused;
    if (status != HEARTH_OK)
        return hearthpy_raise(state_of(module), status, "the default backing");
    return PyUnicode_FromString(hearth_backing_name(backing));
}

static PyObject *backings(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return hearthpy_has_jemalloc() ? Py_BuildValue("(ss)", "jemalloc", "mmap")
                                   : Py_BuildValue("(s)", "mmap");
}

static PyMethodDef functions[] = {
    {"backing", backing, METH_NOARGS,
     PyDoc_STR("backing()\n--\n\nThe backing that arenas use when none is named: \"jemalloc\" or "
               "\"mmap\".")},
    {"backings", backings, METH_NOARGS,
     PyDoc_STR("backings()\n--\n\nThe backings that this build has.")},
    {NULL, NULL, 0, NULL},
};

/* Makes a type, puts it into the module, keeps it in the state. */
static int add_type(PyObject *module, PyTypeObject *(*make)(PyObject *), PyTypeObject **type)
{
    *type = make(module);
    return *type == NULL ? -1 : PyModule_AddType(module, *type);
}

static int execute(PyObject *module)
{
    struct hearthpy_state *state = state_of(module);
    if (PyModule_AddStringConstant(module, "__version__", hearth_version_string()) != 0 ||
        hearthpy_errors_add(module, state) != 0 || hearthpy_stats_add(module, state) != 0 ||
        add_type(module, hearthpy_lease_type, &state->lease) != 0 ||
        add_type(module, hearthpy_execution_arena_type, &state->execution_arena) != 0 ||
        add_type(module, hearthpy_io_arena_type, &state->io_arena) != 0 ||
        add_type(module, hearthpy_service_type, &state->service) != 0)
        return -1;
    return hearthpy_runtime_add(module, state);
}

/* What the state refers to; the table of pointers is the state itself. */
static int traverse(PyObject *module, visitproc visit, void *arg)
{
    PyObject **references = PyModule_GetState(module);
    for (size_t i = 0; i < sizeof(struct hearthpy_state) / sizeof(void *); i++)
        Py_VISIT(references[i]);
    return 0;
}

static int clear(PyObject *module)
{
    PyObject **references = PyModule_GetState(module);
    for (size_t i = 0; i < sizeof(struct hearthpy_state) / sizeof(void *); i++)
        Py_CLEAR(references[i]);
    return 0;
}

static void free_module(void *module)
{
    (void)clear(module);
}

/* Of Python 3.12, which the headers of 3.11 do not have: every interpreter may have a GIL of its own. It may: all that
 * is Python's is in the state, and what the files keep beside it is atomic. */
enum { SLOT_MULTIPLE_INTERPRETERS = 3, PER_INTERPRETER_GIL = 2, PYTHON_3_12 = 0x030c0000 };

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {0, NULL}, /* where Python knows it: the above */
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "hearth._core",
    .m_doc = PyDoc_STR("Arenas, leases and plans. Import these names from hearth."),
    .m_size = sizeof(struct hearthpy_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    if (Py_Version >= PYTHON_3_12)
        slots[1] = (PyModuleDef_Slot){SLOT_MULTIPLE_INTERPRETERS, (void *)PER_INTERPRETER_GIL};
    return PyModuleDef_Init(&definition);
}
