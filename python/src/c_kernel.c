/* SPDX-License-Identifier: Apache-2.0 */
/* CKernel: a kernel in C, by its address. */
#include "runtime.h"

#include <string.h>

static struct hearthpy_c_kernel *self_of(PyObject *self)
{
    return (struct hearthpy_c_kernel *)self;
}

/* An address from an integer; -1 with an exception set. */
static int read_address(PyObject *value, const char *name, void **address)
{
    *address = NULL;
    if (value == NULL)
        return 0;
    PyObject *number = PyIndex_Check(value) ? PyNumber_Index(value) : NULL;
    if (number == NULL) {
        if (PyErr_Occurred() == NULL)
            PyErr_Format(PyExc_TypeError,
                         "%s is an address, an integer, not %R: use ctypes.cast(f, "
                         "ctypes.c_void_p).value for a function of ctypes",
                         name, (PyObject *)Py_TYPE(value));
        return -1;
    }
    *address = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return *address == NULL && PyErr_Occurred() != NULL ? -1 : 0;
}

static PyObject *construct(PyTypeObject *type, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"function", "user", "keep", "slot_aware", NULL};
    PyObject *function, *user = NULL, *keep = Py_None;
    int slot_aware = 0;
    void *code, *data;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|O$Op:CKernel", keywords, &function, &user,
                                     &keep, &slot_aware) ||
        read_address(function, "function", &code) != 0 || read_address(user, "user", &data) != 0)
        return NULL;
    struct hearthpy_state *state = PyType_GetModuleState(type);
    if (code == NULL)
        return hearthpy_fail(state, HEARTH_INVALID,
                             "function is 0: pass the address of an enum hearth_status "
                             "(*)(struct hearth_context *, void *)");
    struct hearthpy_c_kernel *self = (struct hearthpy_c_kernel *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    /* POSIX has functions and data in addresses of one kind. */
    memcpy(&self->function, &code, sizeof(code));
    self->user = data;
    self->keep = Py_NewRef(keep);
    self->slot_aware = slot_aware != 0;
    return (PyObject *)self;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self_of(self)->keep);
    return 0;
}

static void dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self_of(self)->keep);
    hearthpy_object_free(self);
}

static PyObject *represent(PyObject *self)
{
    void *code;
    memcpy(&code, &self_of(self)->function, sizeof(code));
    return PyUnicode_FromFormat("<hearth.CKernel at %p%s>", code,
                                self_of(self)->slot_aware ? ", slot-aware" : "");
}

/* No tp_clear: `keep` is what the code lives in, and stays as long as something may call it. */
static PyType_Slot slots[] = {
    {Py_tp_new, (void *)construct},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_traverse, (void *)traverse},
    {Py_tp_repr, (void *)represent},
    {Py_tp_doc, (void *)PyDoc_STR(
                    "CKernel(function, user=0, *, keep=None, slot_aware=False)\n--\n\n"
                    "What a node does, in C: enum hearth_status kernel(struct hearth_context *, "
                    "void *user).\n\nMade from addresses (ctypes, cffi). `keep` is kept alive as "
                    "long as the kernel: the library or the user\ndata. It is called without the "
                    "GIL.")},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "hearth.CKernel",
    .basicsize = sizeof(struct hearthpy_c_kernel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyTypeObject *hearthpy_c_kernel_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
