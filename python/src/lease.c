/* SPDX-License-Identifier: Apache-2.0 */
/* The type Lease: its objects, their properties. */
#include "lease.h"

#include <structmember.h>

#include <string.h>

/* The last release of foreign storage calls its producer, who may run Python code. */
static void let_go(struct hearth_lease lease)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    (void)hearth_lease_release(lease);
    PyErr_Restore(kind, value, traceback);
}

static void dealloc(PyObject *object)
{
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    PyTypeObject *type = Py_TYPE(object);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs(object);
    let_go(self->lease);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* By the slot, which is this module's alone: it needs no state, and holds for every interpreter's type. */
static bool is_lease(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)dealloc;
}

PyObject *hearthpy_lease_new(const struct hearthpy_state *state, struct hearth_lease lease,
                             const struct hearthpy_layout *layout)
{
    PyTypeObject *type = state->lease;
    PyObject *object = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (object == NULL) {
        let_go(lease);
        return NULL;
    }
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    char *data = hearth_lease_data(lease);
    self->lease = lease;
    self->layout = *layout;
    self->data = data == NULL ? NULL : data + layout->offset;
    self->bytes = hearthpy_layout_bytes(layout);
    self->c_order = hearthpy_layout_is_contiguous(layout);
    self->f_order = hearthpy_layout_is_fortran(layout);
    return object;
}

PyObject *hearthpy_lease_share(struct hearthpy_lease *self, const struct hearthpy_layout *layout)
{
    const struct hearthpy_state *state = hearthpy_state_of((PyObject *)self);
    enum hearth_status status = hearth_lease_retain(self->lease);
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "another share of the lease");
    PyObject *made = hearthpy_lease_new(state, self->lease, layout);
    if (made != NULL && atomic_load_explicit(&self->given, memory_order_relaxed))
        (void)hearthpy_lease_give(made);
    return made;
}

bool hearthpy_lease_give(PyObject *object)
{
    return atomic_exchange_explicit(&hearthpy_lease_of(object)->given, true, memory_order_relaxed);
}

bool hearthpy_lease_refuses(struct hearthpy_lease *self)
{
    if (!hearthpy_lease_is_released(self))
        return false;
    hearthpy_fail(hearthpy_state_of((PyObject *)self), HEARTH_CLOSED,
                  "the lease was released: use what was made of it before, or take a new one from "
                  "the arena");
    return true;
}

bool hearthpy_lease_get(PyObject *object, struct hearth_lease *lease,
                        struct hearthpy_layout *layout)
{
    if (!is_lease(object)) {
        PyErr_Format(PyExc_TypeError, "a hearth.Lease is needed, not %R",
                     (PyObject *)Py_TYPE(object));
        return false;
    }
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    if (hearthpy_lease_refuses(self))
        return false;
    *lease = self->lease;
    *layout = self->layout;
    return true;
}

/* Properties */

static PyObject *tuple_of(const Py_ssize_t *values, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; i < count && tuple != NULL; i++) {
        PyObject *value = PyLong_FromSsize_t(values[i]);
        if (value == NULL || PyTuple_SetItem(tuple, i, value) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *unused)
{
    const struct hearthpy_layout *layout = &hearthpy_lease_of(self)->layout;
    (void)unused;
    return tuple_of(layout->shape, layout->ndim);
}

static PyObject *get_strides(PyObject *self, void *unused)
{
    const struct hearthpy_layout *layout = &hearthpy_lease_of(self)->layout;
    (void)unused;
    return tuple_of(layout->strides, layout->ndim);
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(hearthpy_lease_of(self)->layout.ndim);
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(hearthpy_lease_of(self)->layout.dtype->name);
}

static PyObject *get_itemsize(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(hearthpy_lease_of(self)->layout.dtype->itemsize);
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(hearthpy_lease_of(self)->bytes);
}

static PyObject *get_readonly(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(hearthpy_lease_of(self)->layout.readonly);
}

static PyObject *get_generation(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(hearthpy_lease_of(self)->lease.generation);
}

static PyObject *get_address(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(hearthpy_lease_of(self)->data);
}

static PyObject *get_exports(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSsize_t(
        atomic_load_explicit(&hearthpy_lease_of(self)->exports, memory_order_relaxed));
}

static PyObject *get_released(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(hearthpy_lease_is_released(hearthpy_lease_of(self)));
}

static Py_ssize_t length(PyObject *self)
{
    const struct hearthpy_layout *layout = &hearthpy_lease_of(self)->layout;
    if (layout->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "a scalar lease has no len(): use nbytes or shape");
        return -1;
    }
    return layout->shape[0];
}

static PyObject *repr(PyObject *self)
{
    struct hearthpy_lease *lease = hearthpy_lease_of(self);
    PyObject *shape = get_shape(self, NULL);
    PyObject *arena = shape == NULL ? NULL : hearthpy_lease_arena(self, NULL);
    PyObject *text = NULL;
    if (arena != NULL)
        text = PyUnicode_FromFormat(
            "<hearth.Lease of %zu bytes, %s%S, arena %U, generation %llu%s%s>", lease->bytes,
            lease->layout.dtype->name, shape, arena, (unsigned long long)lease->lease.generation,
            lease->layout.readonly ? ", read-only" : "",
            hearthpy_lease_is_released(lease) ? ", released" : "");
    Py_XDECREF(shape);
    Py_XDECREF(arena);
    return text;
}

/* Methods */

static PyObject *release(PyObject *self, PyObject *unused)
{
    (void)unused;
    atomic_store_explicit(&hearthpy_lease_of(self)->released, true, memory_order_relaxed);
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return hearthpy_lease_refuses(hearthpy_lease_of(self)) ? NULL : Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *unused)
{
    return release(self, unused);
}

static PyObject *refuse_pickle(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    PyErr_SetString(PyExc_TypeError,
                    "a Lease is a right to memory of this process and can be neither pickled nor "
                    "copied: use view() for another lease on the same bytes, tobytes() or "
                    "numpy().copy() for a copy of them");
    return NULL;
}

#define KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"numpy", KEYWORDS(hearthpy_lease_numpy), METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("numpy($self, /, *, readonly=None)\n--\n\nA NumPy array on the same bytes that owns "
               "a share of the lease.")},
    {"view", KEYWORDS(hearthpy_lease_view), METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("view($self, /, dtype=None, shape=None, *, offset=0, readonly=None)\n--\n\nAnother "
               "lease on the same buffer, without a copy.")},
    {"release", release, METH_NOARGS,
     PyDoc_STR("release($self, /)\n--\n\nLet go early: new exports are refused, what was exported "
               "before stays valid.")},
    {"tobytes", hearthpy_lease_tobytes, METH_NOARGS,
     PyDoc_STR("tobytes($self, /)\n--\n\nA copy of the elements, in C order.")},
    {"__array__", KEYWORDS(hearthpy_lease_array), METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("__array__($self, /, dtype=None, *, copy=None)\n--\n\nFor NumPy, where the buffer "
               "protocol was refused: it says why.")},
    {"__buffer__", hearthpy_lease_buffer, METH_O,
     PyDoc_STR("__buffer__($self, flags, /)\n--\n\nA memoryview of the bytes.")},
    {"__dlpack__", KEYWORDS(hearthpy_lease_dlpack), METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n"
               "--\n\nA DLPack capsule; versioned when max_version is (1, 0) or later.")},
    {"__dlpack_device__", hearthpy_lease_dlpack_device, METH_NOARGS,
     PyDoc_STR("__dlpack_device__($self, /)\n--\n\n(1, 0): memory of the CPU.")},
    {"__enter__", enter, METH_NOARGS, PyDoc_STR("__enter__($self, /)\n--\n\nThe lease itself.")},
    {"__exit__", leave, METH_VARARGS,
     PyDoc_STR("__exit__($self, kind, value, traceback, /)\n--\n\nReleases the lease.")},
    {"__reduce__", refuse_pickle, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, PyDoc_STR("Elements in each dimension."), NULL},
    {"strides", get_strides, NULL,
     PyDoc_STR("Bytes from one element to the next, for each dimension."), NULL},
    {"ndim", get_ndim, NULL, PyDoc_STR("Dimensions."), NULL},
    {"dtype", get_dtype, NULL, PyDoc_STR("The element type's name, such as \"float32\"."), NULL},
    {"itemsize", get_itemsize, NULL, PyDoc_STR("Bytes of one element."), NULL},
    {"nbytes", get_nbytes, NULL, PyDoc_STR("Bytes of all elements."), NULL},
    {"readonly", get_readonly, NULL, PyDoc_STR("Whether arrays of it are read-only."), NULL},
    {"generation", get_generation, NULL,
     PyDoc_STR("Tells this use of the buffer from earlier and later ones."), NULL},
    {"arena", hearthpy_lease_arena, NULL,
     PyDoc_STR("The arena's kind and number, such as \"io-3\"."), NULL},
    {"address", get_address, NULL,
     PyDoc_STR("Where the bytes are. Only good while the lease is held."), NULL},
    {"exports", get_exports, NULL, PyDoc_STR("Buffer-protocol views that look at it now."), NULL},
    {"released", get_released, NULL, PyDoc_STR("Whether it was let go of."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct hearthpy_lease, weak_references), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     (void *)PyDoc_STR("A counted right to a buffer, seen as an array: shape, element type, "
                       "strides. Made by arenas.")},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_repr, (void *)repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {Py_mp_length, (void *)length},
    {Py_bf_getbuffer, (void *)hearthpy_lease_get_buffer},
    {Py_bf_releasebuffer, (void *)hearthpy_lease_release_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "hearth.Lease",
    .basicsize = sizeof(struct hearthpy_lease),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

PyTypeObject *hearthpy_lease_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
