/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on what others export through DLPack.
 *
 * The capsule is renamed before the arena adopts the memory, and gets its name back when the arena refuses: until the
 * lease is there the capsule owns the tensor, from then on the lease does, whose last release calls the deleter. So it
 * is called once whatever fails.
 */
#include "core.h"
#include "dlpack.h"

#include <string.h>

/* A capsule's tensor. */
struct source {
    void *managed; /* struct dl_legacy or dl_managed */
    const struct dl_tensor *tensor;
    const char *name, *used;
    void (*release)(void *data, size_t size, void *managed);
    bool readonly;
};

static void release_legacy(void *data, size_t size, void *managed)
{
    struct dl_legacy *self = managed;
    (void)data;
    (void)size;
    if (self->deleter != NULL)
        self->deleter(self);
}

static void release_versioned(void *data, size_t size, void *managed)
{
    struct dl_managed *self = managed;
    (void)data;
    (void)size;
    if (self->deleter != NULL)
        self->deleter(self);
}

static int refuse(const char *text)
{
    PyErr_SetString(PyExc_BufferError, text);
    return -1;
}

/* What the capsule holds. -1 with an exception set. */
static int open_capsule(const struct hearthpy_state *state, PyObject *capsule,
                        struct source *source)
{
    if (PyCapsule_IsValid(capsule, DL_NAME_VERSIONED)) {
        struct dl_managed *managed = PyCapsule_GetPointer(capsule, DL_NAME_VERSIONED);
        if (managed->major != DL_MAJOR) {
            PyErr_Format(PyExc_BufferError,
                         "the capsule is of DLPack %u.%u, and hearth reads 1.x and unversioned "
                         "ones: ask the producer with max_version=(1, 0)",
                         (unsigned)managed->major, (unsigned)managed->minor);
            return -1;
        }
        *source = (struct source){managed,           &managed->tensor,
                                  DL_NAME_VERSIONED, DL_NAME_VERSIONED_USED,
                                  release_versioned, (managed->flags & DL_READ_ONLY) != 0};
        return 0;
    }
    if (PyCapsule_IsValid(capsule, DL_NAME)) {
        struct dl_legacy *managed = PyCapsule_GetPointer(capsule, DL_NAME);
        *source = (struct source){managed,      &managed->tensor, DL_NAME,
                                  DL_NAME_USED, release_legacy,   false};
        return 0;
    }
    if (PyCapsule_IsValid(capsule, DL_NAME_USED) ||
        PyCapsule_IsValid(capsule, DL_NAME_VERSIONED_USED))
        hearthpy_fail(state, HEARTH_INVALID,
                      "the DLPack capsule was consumed already: ask its producer for a new one");
    else
        PyErr_Format(PyExc_TypeError,
                     "%R is no DLPack capsule: pass an object with __dlpack__, or what that "
                     "returns",
                     capsule);
    return -1;
}

/* The memory from the first byte in use to the last one. */
struct extent {
    Py_ssize_t below; /* bytes before the first element */
    Py_ssize_t above; /* bytes from the first element on */
};

/* What one dimension adds to it. False: more than can be. */
static bool stretch(struct extent *extent, Py_ssize_t length, Py_ssize_t stride)
{
    Py_ssize_t reach;
    if (length <= 1)
        return true;
    if (__builtin_mul_overflow(length - 1, stride, &reach))
        return false;
    return stride < 0 ? !__builtin_sub_overflow(extent->below, reach, &extent->below)
                      : !__builtin_add_overflow(extent->above, reach, &extent->above);
}

/* Shape and strides in bytes. Where there is nothing to step over, the strides are those of C order whatever the
 * producer says. False: more than can be, or a negative dimension. */
static bool set_dimensions(const struct dl_tensor *tensor, struct hearthpy_layout *layout,
                           struct extent *extent)
{
    Py_ssize_t itemsize = layout->dtype->itemsize;
    Py_ssize_t packed = itemsize;
    bool empty = false;
    layout->ndim = tensor->ndim;
    for (int i = layout->ndim - 1; i >= 0; i--) {
        Py_ssize_t length = tensor->shape[i];
        if (length < 0)
            return false;
        layout->shape[i] = length;
        layout->strides[i] = packed;
        empty = empty || length == 0;
        if (length != 0 && __builtin_mul_overflow(packed, length, &packed))
            return false;
    }
    *extent = (struct extent){0, empty ? 0 : itemsize};
    for (int i = 0; i < layout->ndim && !empty; i++) {
        if (tensor->strides != NULL && layout->shape[i] > 1 &&
            __builtin_mul_overflow((Py_ssize_t)tensor->strides[i], itemsize, &layout->strides[i]))
            return false;
        if (!stretch(extent, layout->shape[i], layout->strides[i]))
            return false;
    }
    return true;
}

/* -1 with an exception set. */
static int describe(const struct source *source, struct hearthpy_layout *layout,
                    struct extent *extent)
{
    const struct dl_tensor *tensor = source->tensor;
    if (tensor->device_type != DL_DEVICE_CPU)
        return refuse("the DLPack tensor is not in the CPU's memory: copy it to the CPU first");
    if (tensor->ndim < 0 || tensor->ndim > HEARTHPY_RANK_MAX) {
        PyErr_Format(PyExc_BufferError,
                     "the DLPack tensor has %d dimensions and a lease at most %d: join some of "
                     "them",
                     (int)tensor->ndim, HEARTHPY_RANK_MAX);
        return -1;
    }
    if (tensor->ndim > 0 && tensor->shape == NULL)
        return refuse("the DLPack tensor has dimensions but no shape: its producer is at fault");
    layout->dtype = hearthpy_dtype_of_dlpack(tensor->code, tensor->bits);
    if (layout->dtype == NULL || tensor->lanes != 1) {
        PyErr_Format(
            PyExc_BufferError,
            "the DLPack element type (code %d, %d bits, %d lanes) is none that a lease can "
            "have: export a view of it as bytes (uint8)",
            tensor->code, tensor->bits, tensor->lanes);
        return -1;
    }
    if (!set_dimensions(tensor, layout, extent))
        return refuse("the DLPack tensor's shape and strides are not those of memory: its producer "
                      "is at fault");
    if (extent->above != 0 && tensor->data == NULL)
        return refuse("the DLPack tensor has elements but no memory: its producer is at fault");
    layout->offset = (size_t)extent->below;
    layout->readonly = source->readonly;
    return 0;
}

/* Where the memory starts, and its size. The address of an empty tensor is nobody's business. -1 with an exception
 * set. */
static int place(const struct dl_tensor *tensor, const struct extent *extent, void **base,
                 size_t *size)
{
    uintptr_t first, end;
    *base = NULL;
    *size = (size_t)extent->below + (size_t)extent->above;
    if (extent->above == 0)
        return 0;
    if (__builtin_add_overflow((uintptr_t)tensor->data, tensor->byte_offset, &first) ||
        __builtin_add_overflow(first, (uintptr_t)extent->above, &end) ||
        first <= (uintptr_t)extent->below)
        return refuse("the DLPack tensor's memory has no such addresses: its producer is at fault");
    *base = (char *)tensor->data + tensor->byte_offset - extent->below;
    return 0;
}

static PyObject *adopt(const struct hearthpy_state *state, struct hearth_io *io, PyObject *capsule)
{
    struct source source;
    struct hearthpy_layout layout;
    struct extent extent;
    struct hearth_lease lease;
    void *base;
    size_t size;
    if (open_capsule(state, capsule, &source) != 0 || describe(&source, &layout, &extent) != 0 ||
        place(source.tensor, &extent, &base, &size) != 0)
        return NULL;
    if (PyCapsule_SetName(capsule, source.used) != 0)
        return NULL;
    enum hearth_status status =
        hearth_io_adopt(io, base, size, source.release, source.managed, &lease);
    if (status != HEARTH_OK) {
        (void)PyCapsule_SetName(capsule, source.name);
        return hearthpy_raise(state, status, "from_dlpack()");
    }
    return hearthpy_lease_new(state, lease, &layout);
}

/* Whether the object says that its memory is the CPU's; one that does not say is judged by its tensor. -1 with an
 * exception set. */
static int check_device(PyObject *object)
{
    PyObject *ask = PyObject_GetAttrString(object, "__dlpack_device__");
    if (ask == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    PyObject *device = PyObject_CallNoArgs(ask);
    PyObject *type = device == NULL ? NULL : PySequence_GetItem(device, 0);
    long number = type == NULL ? -1 : PyLong_AsLong(type);
    Py_DECREF(ask);
    Py_XDECREF(device);
    Py_XDECREF(type);
    if (PyErr_Occurred() != NULL)
        return -1;
    return number == DL_DEVICE_CPU
               ? 0
               : refuse("the object is not in the CPU's memory: copy it to the CPU first");
}

/* The capsule of an object: a versioned one where the producer knows that. */
static PyObject *capsule_of(PyObject *object)
{
    PyObject *ask = PyObject_GetAttrString(object, "__dlpack__");
    if (ask == NULL) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Format(PyExc_TypeError,
                         "%R has no __dlpack__: pass a tensor or an array, or a DLPack capsule",
                         (PyObject *)Py_TYPE(object));
        return NULL;
    }
    PyObject *capsule = NULL;
    PyObject *none = PyTuple_New(0);
    PyObject *version = Py_BuildValue("{s:(ii)}", "max_version", DL_MAJOR, 0);
    if (check_device(object) == 0 && none != NULL && version != NULL) {
        capsule = PyObject_Call(ask, none, version);
        /* Those that are older than the argument. */
        if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            capsule = PyObject_CallNoArgs(ask);
        }
    }
    Py_DECREF(ask);
    Py_XDECREF(none);
    Py_XDECREF(version);
    if (capsule != NULL && !PyCapsule_CheckExact(capsule)) {
        PyErr_Format(PyExc_TypeError, "__dlpack__() of %R returned no capsule but %R",
                     (PyObject *)Py_TYPE(object), (PyObject *)Py_TYPE(capsule));
        Py_CLEAR(capsule);
    }
    return capsule;
}

PyObject *hearthpy_from_dlpack(const struct hearthpy_state *state, struct hearth_io *io,
                               PyObject *source)
{
    PyObject *capsule = PyCapsule_CheckExact(source) ? Py_NewRef(source) : capsule_of(source);
    if (capsule == NULL)
        return NULL;
    PyObject *lease = adopt(state, io, capsule);
    Py_DECREF(capsule);
    return lease;
}
