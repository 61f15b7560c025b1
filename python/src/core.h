/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of hearth._core share. The module keeps to the limited API of CPython 3.11 and includes no NumPy
 * header, so one binary serves every later interpreter and every NumPy.
 *
 * Rules: no static PyObject (all is in the module's state); types are final heap types; whatever returns a lease is
 * plain C, takes no lock of Python's and works on any thread, also after the interpreter is gone; the GIL is given up
 * around calls that may wait (create, destroy, trim, tick, runs), never around an export.
 */
#ifndef HEARTH_PYTHON_CORE_H
#define HEARTH_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <hearth/allocator.h>
#include <hearth/exec.h>
#include <hearth/io.h>
#include <hearth/service.h>
#include <hearth/stats.h>
#include <hearth/status.h>
#include <hearth/tensor.h>
#include <hearth/trim.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most dimensions of a lease. */
#define HEARTHPY_RANK_MAX HEARTH_RANK_MAX

/* The exceptions, in the order of the state's table. */
enum hearthpy_error {
    HEARTHPY_ERROR,
    HEARTHPY_ERROR_INVALID,
    HEARTHPY_ERROR_NO_MEMORY,
    HEARTHPY_ERROR_CLOSED,
    HEARTHPY_ERROR_NOT_OWNER,
    HEARTHPY_ERROR_BUSY,
    HEARTHPY_ERROR_TIMEOUT,
    HEARTHPY_ERRORS
};

/* The module's state: types and exceptions, strong references. */
struct hearthpy_state {
    PyObject *errors[HEARTHPY_ERRORS];
    PyTypeObject *lease;
    PyTypeObject *execution_arena;
    PyTypeObject *io_arena;
    PyTypeObject *service;
    PyTypeObject *execution_stats, *io_stats, *service_stats, *trim_report; /* struct sequences */
    PyTypeObject *node, *c_kernel, *plan, *runtime, *run_stats, *task;
    PyObject *asarray; /* numpy.asarray; None: there is no NumPy; NULL: nobody asked yet */
};

/* The state of the module that a type of ours belongs to. */
static inline struct hearthpy_state *hearthpy_state_of(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

/* errors.c */

/* Raise what a status stands for: "what: text of the status". Returns NULL. */
PyObject *hearthpy_raise(const struct hearthpy_state *state, enum hearth_status status,
                         const char *what);
/* The same class and status with a text of the caller's, which names the remedy. Returns NULL. */
PyObject *hearthpy_fail(const struct hearthpy_state *state, enum hearth_status status,
                        const char *format, ...);
/* What to do about it, as the end of a text: "; ...", or "". */
const char *hearthpy_remedy(enum hearth_status status);
int hearthpy_errors_add(PyObject *module, struct hearthpy_state *state);

/* arguments.c */

/* Bytes or a count that may be None. `none` is what None means. -1 with an exception set: negative, no integer or
 * too large. */
int hearthpy_size(PyObject *value, size_t none, const char *name, size_t *size);
/* A limit as Python sees it: None for HEARTH_UNBOUNDED. */
PyObject *hearthpy_limit(size_t bytes);

/* dtype.c */

/* An element type in everybody's terms. */
struct hearthpy_dtype {
    const char *name;   /* NumPy's, where it has one */
    const char *format; /* struct's code; NULL: the buffer protocol cannot say it */
    enum hearth_dtype dtype;
    uint8_t dl_code, dl_bits;
    uint8_t itemsize; /* 0: smaller than a byte, which leases do not offer */
};

/* NULL for what this module does not offer (strings, 4 and 2 bits). */
const struct hearthpy_dtype *hearthpy_dtype_of(enum hearth_dtype dtype);
const struct hearthpy_dtype *hearthpy_dtype_of_dlpack(uint8_t code, uint8_t bits);
/* By struct's code, as a Py_buffer has it (NULL: bytes); NULL for what is unknown or not in native order. */
const struct hearthpy_dtype *hearthpy_dtype_of_format(const char *format);
/* From a name, a NumPy dtype or scalar type (its name attribute). NULL with an exception set. */
const struct hearthpy_dtype *hearthpy_dtype_parse(PyObject *value);

/* layout.c */

/* How a lease's bytes are seen. */
struct hearthpy_layout {
    const struct hearthpy_dtype *dtype;
    int ndim;
    Py_ssize_t shape[HEARTHPY_RANK_MAX];
    Py_ssize_t strides[HEARTHPY_RANK_MAX]; /* in bytes */
    size_t offset;                         /* of the first element, from the lease's data */
    bool readonly;
};

/* Shape from an int or a sequence, strides of C order; *bytes: of all elements. -1 with an exception set. */
int hearthpy_layout_make(const struct hearthpy_state *state, PyObject *shape, PyObject *dtype,
                         struct hearthpy_layout *layout, size_t *bytes);
/* The same from a tensor. */
int hearthpy_layout_of_tensor(const struct hearth_tensor *tensor, struct hearthpy_layout *layout);
/* Elements times itemsize. */
size_t hearthpy_layout_bytes(const struct hearthpy_layout *layout);
/* Whether the elements lie in C order without gaps. */
bool hearthpy_layout_is_contiguous(const struct hearthpy_layout *layout);
/* The same for Fortran's order. */
bool hearthpy_layout_is_fortran(const struct hearthpy_layout *layout);
/* The elements from `from`, the first one's place, to `to` in C order. */
void hearthpy_layout_copy(const struct hearthpy_layout *layout, const void *from, void *to);

/* lease.c, lease_origin.c, lease_view.c, lease_buffer.c */

/* A Lease object. `lease` is taken over in every case: released when the object cannot be made. */
PyObject *hearthpy_lease_new(const struct hearthpy_state *state, struct hearth_lease lease,
                             const struct hearthpy_layout *layout);
/* As that, on an execution buffer, taken over in every case: it goes home when the last share is gone. */
PyObject *hearthpy_lease_of_buf(const struct hearthpy_state *state, struct hearth_buf *buf,
                                const struct hearthpy_layout *layout);
/* The C part of that: a lease whose last release returns `buf` to its arena, from any thread. `buf` is untouched when
 * the answer is not OK. */
enum hearth_status hearthpy_adopt_buf(struct hearth_buf *buf, struct hearth_lease *lease);
/* A NumPy array on a Lease object, which is taken over in every case; the Lease itself where NumPy is missing or does
 * not know the type. */
PyObject *hearthpy_array_of_lease(const struct hearthpy_state *state, PyObject *lease);

/* What a Lease object holds; good while the object lives. false with an exception set when it was released. */
bool hearthpy_lease_get(PyObject *object, struct hearth_lease *lease,
                        struct hearthpy_layout *layout);
/* A Lease object is a run's output from now on. Whether it was before: then it is no other one's as well. */
bool hearthpy_lease_give(PyObject *object);
PyTypeObject *hearthpy_lease_type(PyObject *module);

/* A number for an arena, for people: the same in Lease.arena and in the arena's repr. An arena that is new (at an
 * address that may have been another one's) gets another one with `fresh`. 0 when memory ran out. */
unsigned long hearthpy_arena_number(const struct hearth_allocator *arena, bool fresh);

/* lease_dlpack.c, dlpack_import.c */
PyObject *hearthpy_lease_dlpack(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                PyObject *names);
PyObject *hearthpy_lease_dlpack_device(PyObject *self, PyObject *unused);
/* Lease what an object with __dlpack__ (or a capsule) describes. */
PyObject *hearthpy_from_dlpack(const struct hearthpy_state *state, struct hearth_io *io,
                               PyObject *source);

/* io_arena.c, execution_arena.c, service.c, stats.c */

/* Arena objects of a service, which is kept by them. */
PyObject *hearthpy_io_of_service(const struct hearthpy_state *state,
                                 struct hearth_service *service);
/* The calling thread's. */
PyObject *hearthpy_execution_of_service(const struct hearthpy_state *state,
                                        struct hearth_service *service);
/* What the objects hold, good while they live; NULL with an exception set when closed or of another type. */
struct hearth_io *hearthpy_io_get(const struct hearthpy_state *state, PyObject *object);
struct hearth_exec *hearthpy_execution_get(const struct hearthpy_state *state, PyObject *object);
struct hearth_service *hearthpy_service_get(const struct hearthpy_state *state, PyObject *object);
/* As hearthpy_execution_get, and the arena stays usable after the GIL is given up, until it is unpinned: close() takes
 * effect then. Both with the GIL; whoever pins keeps the object. */
struct hearth_exec *hearthpy_execution_pin(const struct hearthpy_state *state, PyObject *object);
void hearthpy_execution_unpin(PyObject *object);
/* By name; a reference, or NULL where both are None: the default. -1 with an exception set. */
int hearthpy_backing(const struct hearthpy_state *state, PyObject *name, PyObject *huge_pages,
                     struct hearth_backing **backing);

/* Whether the package was built with jemalloc: libhearth would call the question a misuse, and tell. */
bool hearthpy_has_jemalloc(void);

PyTypeObject *hearthpy_io_arena_type(PyObject *module);
PyTypeObject *hearthpy_execution_arena_type(PyObject *module);
PyTypeObject *hearthpy_service_type(PyObject *module);
int hearthpy_stats_add(PyObject *module, struct hearthpy_state *state);
PyObject *hearthpy_execution_stats(const struct hearthpy_state *state, struct hearth_exec *arena);
PyObject *hearthpy_io_stats(const struct hearthpy_state *state, struct hearth_io *io);
PyObject *hearthpy_service_stats(const struct hearthpy_state *state,
                                 const struct hearth_service *service);
PyObject *hearthpy_trim_report(const struct hearthpy_state *state,
                               const struct hearth_trim_report *report);
/* A named tuple's type, with _fields and _asdict(), added to the module under its name. */
PyTypeObject *hearthpy_tuple_type(PyObject *module, PyStructSequence_Desc *description);

/* plan.c, node.c, runtime.c: kernels, plans and runs. Adds its types to the module and the state. */
int hearthpy_runtime_add(PyObject *module, struct hearthpy_state *state);
/* Whether the calling thread is inside of a run: in a kernel. */
bool hearthpy_in_run(void);

#endif
