/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lease: export through DLPack.
 *
 * Each capsule has a box on the C heap with struct, shape and strides, and a reference of the lease that is its own, so
 * that many consumers may be there at a time. The deleter is plain C: it needs no interpreter.
 */
#include "dlpack.h"
#include "lease.h"

#include <stdlib.h>

enum {
    COPY_ALIGNMENT = 256,
    COPY_WITHOUT_GIL = 1 << 20 /* bytes: a shorter copy is over before another thread has the GIL */
};

struct box {
    union {
        struct dl_legacy legacy;
        struct dl_managed versioned;
    } managed; /* first: the capsule's pointer is the box's */
    struct hearth_lease lease;
    void *copy; /* what the tensor is on, instead of a lease */
    int64_t shape[HEARTHPY_RANK_MAX], strides[HEARTHPY_RANK_MAX];
};

static void box_delete(struct box *box)
{
    if (box->copy != NULL)
        free(box->copy);
    else
        (void)hearth_lease_release(box->lease);
    free(box);
}

static void delete_legacy(struct dl_legacy *self)
{
    box_delete((struct box *)self);
}

static void delete_versioned(struct dl_managed *self)
{
    box_delete((struct box *)self);
}

/* Of a capsule that nobody consumed; a consumed one has another name, and its tensor another owner. */
static void capsule_dies(PyObject *capsule)
{
    const char *name = PyCapsule_IsValid(capsule, DL_NAME)             ? DL_NAME
                       : PyCapsule_IsValid(capsule, DL_NAME_VERSIONED) ? DL_NAME_VERSIONED
                                                                       : NULL;
    if (name == NULL)
        return;
    /* As in the end of a Lease: a producer's deleter may be Python code. */
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    box_delete(PyCapsule_GetPointer(capsule, name));
    PyErr_Restore(kind, value, traceback);
}

struct request {
    PyObject *stream, *max_version, *dl_device, *copy;
};

static int parse_request(PyObject *const *args, Py_ssize_t count, PyObject *names,
                         struct request *request)
{
    Py_ssize_t keywords = names == NULL ? 0 : PyTuple_Size(names);
    if (count != 0) {
        PyErr_SetString(PyExc_TypeError,
                        "__dlpack__() takes keyword arguments only: stream=, max_version=, "
                        "dl_device=, copy=");
        return -1;
    }
    for (Py_ssize_t i = 0; i < keywords; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        PyObject **place =
            PyUnicode_CompareWithASCIIString(name, "max_version") == 0 ? &request->max_version
            : PyUnicode_CompareWithASCIIString(name, "dl_device") == 0 ? &request->dl_device
            : PyUnicode_CompareWithASCIIString(name, "copy") == 0      ? &request->copy
            : PyUnicode_CompareWithASCIIString(name, "stream") == 0    ? &request->stream
                                                                       : NULL;
        if (place == NULL) {
            PyErr_Format(PyExc_TypeError,
                         "__dlpack__() has no argument %R: it takes stream, max_version, dl_device "
                         "and copy",
                         name);
            return -1;
        }
        *place = args[i] == Py_None ? NULL : args[i];
    }
    return 0;
}

/* Two integers. -1 with an exception set. */
static int parse_pair(PyObject *pair, const char *name, long *first, long *second)
{
    PyObject *items = PySequence_Tuple(pair);
    if (items == NULL)
        return -1;
    int result = -1;
    if (PyTuple_Size(items) != 2) {
        PyErr_Format(PyExc_TypeError, "%s must be a pair of integers, not %R", name, pair);
    } else {
        *first = PyLong_AsLong(PyTuple_GetItem(items, 0));
        *second = PyErr_Occurred() == NULL ? PyLong_AsLong(PyTuple_GetItem(items, 1)) : -1;
        result = PyErr_Occurred() == NULL ? 0 : -1;
    }
    Py_DECREF(items);
    return result;
}

/* What the request says beside the version: copy or not. -1 with an exception set. */
static int check_request(const struct request *request, bool *copy)
{
    long device = DL_DEVICE_CPU, number = 0;
    if (request->stream != NULL) {
        PyErr_SetString(PyExc_BufferError, "memory of the CPU has no streams: pass stream=None");
        return -1;
    }
    if (request->dl_device != NULL &&
        parse_pair(request->dl_device, "dl_device", &device, &number) != 0)
        return -1;
    if (device != DL_DEVICE_CPU || number != 0) {
        PyErr_Format(PyExc_BufferError,
                     "a lease is on device (1, 0), the CPU, and cannot be exported to (%ld, %ld): "
                     "import it there and move it with your framework",
                     device, number);
        return -1;
    }
    if (request->copy != NULL && !PyBool_Check(request->copy)) {
        PyErr_Format(PyExc_TypeError, "copy must be True, False or None, not %R", request->copy);
        return -1;
    }
    *copy = request->copy == Py_True;
    return 0;
}

/* The elements of the lease in C order, in memory of the box. */
static bool box_copy(struct box *box, const struct hearthpy_lease *self)
{
    void *copy = NULL;
    size_t bytes = self->bytes == 0 ? 1 : self->bytes;
    if (posix_memalign(&copy, COPY_ALIGNMENT, bytes) != 0)
        return false;
    if (bytes < COPY_WITHOUT_GIL) {
        hearthpy_layout_copy(&self->layout, self->data, copy);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        hearthpy_layout_copy(&self->layout, self->data, copy);
        Py_END_ALLOW_THREADS;
    }
    box->copy = copy;
    return true;
}

static struct dl_tensor tensor_of(struct box *box, const struct hearthpy_lease *self)
{
    const struct hearthpy_layout *layout = &self->layout;
    int64_t stride = 1;
    for (int i = layout->ndim - 1; i >= 0; i--) {
        box->shape[i] = layout->shape[i];
        box->strides[i] = box->copy != NULL ? stride : layout->strides[i] / layout->dtype->itemsize;
        stride *= layout->shape[i] == 0 ? 1 : layout->shape[i];
    }
    return (struct dl_tensor){
        .data = self->bytes == 0    ? NULL
                : box->copy != NULL ? box->copy
                                    : self->data,
        .device_type = DL_DEVICE_CPU,
        .ndim = layout->ndim,
        .code = layout->dtype->dl_code,
        .bits = layout->dtype->dl_bits,
        .lanes = 1,
        .shape = box->shape,
        .strides = box->strides,
    };
}

/* NULL with an exception set. */
static struct box *make_box(struct hearthpy_lease *self, bool versioned, bool copy)
{
    struct box *box = calloc(1, sizeof *box);
    if (box == NULL || (copy && !box_copy(box, self))) {
        free(box);
        PyErr_NoMemory();
        return NULL;
    }
    enum hearth_status status = copy ? HEARTH_OK : hearth_lease_retain(self->lease);
    if (status != HEARTH_OK) {
        free(box);
        hearthpy_raise(hearthpy_state_of((PyObject *)self), status, "another share of the lease");
        return NULL;
    }
    box->lease = self->lease;
    if (versioned)
        box->managed.versioned = (struct dl_managed){
            .major = DL_MAJOR,
            .minor = DL_MINOR,
            .deleter = delete_versioned,
            .flags = copy                    ? DL_IS_COPIED
                     : self->layout.readonly ? DL_READ_ONLY
                                             : 0,
            .tensor = tensor_of(box, self),
        };
    else
        box->managed.legacy = (struct dl_legacy){
            .tensor = tensor_of(box, self),
            .deleter = delete_legacy,
        };
    return box;
}

PyObject *hearthpy_lease_dlpack(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                PyObject *names)
{
    struct hearthpy_lease *self = hearthpy_lease_of(object);
    struct request request = {NULL, NULL, NULL, NULL};
    long major = 0, minor = 0;
    bool copy = false;
    if (parse_request(args, count, names, &request) != 0 || check_request(&request, &copy) != 0 ||
        (request.max_version != NULL &&
         parse_pair(request.max_version, "max_version", &major, &minor) != 0) ||
        hearthpy_lease_refuses(self))
        return NULL;
    bool versioned = major >= DL_MAJOR;
    if (self->layout.readonly && !copy && !versioned) {
        PyErr_SetString(PyExc_BufferError,
                        "an unversioned DLPack capsule cannot say read-only: ask with "
                        "max_version=(1, 0), or with copy=True");
        return NULL;
    }
    struct box *box = make_box(self, versioned, copy);
    if (box == NULL)
        return NULL;
    PyObject *capsule = PyCapsule_New(box, versioned ? DL_NAME_VERSIONED : DL_NAME, capsule_dies);
    if (capsule == NULL)
        box_delete(box);
    return capsule;
}

PyObject *hearthpy_lease_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", DL_DEVICE_CPU, 0);
}
