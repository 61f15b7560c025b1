/* SPDX-License-Identifier: Apache-2.0 */
/* IOArena: one arena for all threads, alone or that of a service, which it then keeps. */
#include "arena.h"

#include <structmember.h>

struct io_arena {
    PyObject_HEAD PyObject *weak_references;
    struct hearth_io *io;
    struct hearth_service
        *service; /* a reference; NULL: the arena is its own, and `io` the reference */
    bool closed;  /* of one that is its own */
};

static struct io_arena *cast(PyObject *self)
{
    return (struct io_arena *)(void *)self;
}

static PyObject *make(PyTypeObject *type, struct hearth_io *io, struct hearth_service *service)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = allocate(type, 0);
    if (self == NULL)
        return NULL;
    cast(self)->io = io;
    cast(self)->service = service;
    return self;
}

static void unref(struct hearth_io *io, struct hearth_service *service)
{
    /* The last reference may wait for a grace period. */
    Py_BEGIN_ALLOW_THREADS
    if (service != NULL)
        hearth_service_unref(service);
    else
        hearth_io_unref(io);
    Py_END_ALLOW_THREADS
}

static PyObject *new_arena(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"capacity",    "retention_limit", "live_limit",
                            "reuse_ratio", "backing",         NULL};
    const struct hearthpy_state *state = PyType_GetModuleState(type);
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    PyObject *capacity = NULL, *retention = NULL, *live = NULL, *ratio = NULL, *backing = NULL;
    struct hearth_io *io = NULL;
    enum hearth_status status;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$OOOO:IOArena", names, &capacity,
                                     &retention, &live, &ratio, &backing) ||
        hearthpy_positive(state, capacity, "capacity", &options.slots) != 0 ||
        hearthpy_cap(retention, "retention_limit", &options.retention_cap) != 0 ||
        hearthpy_positive(state, live, "live_limit", &options.live_limit) != 0 ||
        hearthpy_reuse_ratio(state, ratio, &options.reuse_ratio) != 0 ||
        hearthpy_backing(state, backing, NULL, &options.backing) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_io_create(&options, &io);
    hearth_backing_unref(options.backing);
    Py_END_ALLOW_THREADS
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "IOArena");
    PyObject *self = make(type, io, NULL);
    if (self == NULL)
        unref(io, NULL);
    else
        (void)hearthpy_arena_number(hearth_io_allocator(io), true);
    return self;
}

static void deallocate(PyObject *self)
{
    PyObject_ClearWeakRefs(self);
    unref(cast(self)->io, cast(self)->service);
    hearthpy_object_free(self);
}

PyObject *hearthpy_io_of_service(const struct hearthpy_state *state, struct hearth_service *service)
{
    PyObject *self = make(state->io_arena, hearth_service_io(service), service);
    if (self != NULL)
        hearth_service_ref(service);
    return self;
}

static bool is_closed(const struct io_arena *self)
{
    return self->service == NULL ? self->closed : hearthpy_service_is_closed(self->service);
}

struct hearth_io *hearthpy_io_get(const struct hearthpy_state *state, PyObject *object)
{
    if (!PyObject_TypeCheck(object, state->io_arena)) {
        PyErr_Format(PyExc_TypeError, "an IOArena is needed, not %R", (PyObject *)Py_TYPE(object));
        return NULL;
    }
    if (is_closed(cast(object))) {
        (void)hearthpy_raise(state, HEARTH_CLOSED, "IOArena");
        return NULL;
    }
    return cast(object)->io;
}

/* Leasing. */

static PyObject *take(PyObject *self, const struct hearthpy_call *call, PyObject *const *args,
                      Py_ssize_t count, PyObject *names)
{
    const struct hearthpy_state *state = hearthpy_state_of(self);
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct hearthpy_asked asked;
    bool raised = false;
    if (hearthpy_asked_parse(state, call, args, count, names, &asked) != 0)
        return NULL;
    enum hearth_status status =
        hearthpy_io_lease(cast(self)->io, cast(self)->service != NULL, &asked, &lease, &raised);
    if (status == HEARTH_OK)
        return hearthpy_lease_new(state, lease, &asked.layout);
    return raised ? NULL : hearthpy_raise_asked(state, status, call, &asked);
}

static PyObject *empty(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct hearthpy_call call = {"IOArena.empty", false, true};
    return take(self, &call, args, count, names);
}

static PyObject *zeros(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct hearthpy_call call = {"IOArena.zeros", true, true};
    return take(self, &call, args, count, names);
}

static PyObject *from_dlpack(PyObject *self, PyObject *source)
{
    const struct hearthpy_state *state = hearthpy_state_of(self);
    struct hearth_io *io = hearthpy_io_get(state, self);
    return io == NULL ? NULL : hearthpy_from_dlpack(state, io, source);
}

/* Verbs. */

static PyObject *trim(PyObject *self, PyObject *unused)
{
    size_t released = 0;
    enum hearth_status status;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_io_trim(cast(self)->io, &released);
    Py_END_ALLOW_THREADS
    return status == HEARTH_OK ? PyLong_FromSize_t(released)
                               : hearthpy_raise(hearthpy_state_of(self), status, "IOArena.trim");
}

static PyObject *reset_peak(PyObject *self, PyObject *unused)
{
    enum hearth_status status = hearth_io_reset_peak(cast(self)->io);
    (void)unused;
    if (status != HEARTH_OK)
        return hearthpy_raise(hearthpy_state_of(self), status, "IOArena.reset_peak");
    Py_RETURN_NONE;
}

static PyObject *stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    return hearthpy_io_stats(hearthpy_state_of(self), cast(self)->io);
}

/* Whether it may be closed by itself. */
static bool is_its_own(PyObject *self)
{
    if (cast(self)->service == NULL)
        return true;
    (void)hearthpy_fail(hearthpy_state_of(self), HEARTH_INVALID,
                        "this IOArena is its service's, and is closed by Service.close()");
    return false;
}

static PyObject *close_arena(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_its_own(self))
        return NULL;
    if (!cast(self)->closed) {
        cast(self)->closed = true;
        (void)hearth_io_close(cast(self)->io);
        /* What is retained has no use any more. */
        Py_BEGIN_ALLOW_THREADS(void)
        hearth_io_trim(cast(self)->io, NULL);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_its_own(self) || hearthpy_io_get(hearthpy_state_of(self), self) == NULL)
        return NULL;
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args)
{
    (void)args;
    return close_arena(self, NULL);
}

/* Figures. They go on being told after the close: what is out is still counted. */

struct figure {
    size_t (*read)(const struct hearth_io *io);
};

#define FIGURES(X)                                                                                 \
    X(capacity, slots, "Most buffers with storage at a time.")                                     \
    X(live_count, live_count, "Buffers handed out and not returned.")                              \
    X(owned_count, owned_count, "Live buffers that are not leased.")                               \
    X(leased_count, leased_count, "Live buffers held through leases, adopted ones included.")      \
    X(live_bytes, live_bytes, "Logical bytes of live buffers.")                                    \
    X(leased_bytes, leased_bytes, "Logical bytes of leased buffers.")                              \
    X(live_capacity, live_capacity, "Capacity of live buffers: what live_limit bounds.")           \
    X(peak_bytes, peak_bytes, "Largest live_bytes since the last reset.")                          \
    X(retained_count, retained_count, "Free buffers that kept their storage.")                     \
    X(retained_bytes, retained_bytes, "Capacity of free buffers.")                                 \
    X(pending_count, pending_count, "Buffers returned and not yet reusable.")                      \
    X(pending_bytes, pending_bytes, "Capacity of pending buffers.")                                \
    X(footprint, footprint, "Storage obtained from the backing and not given back.")

#define FIGURE(name, function, text)                                                               \
    static const struct figure name##_figure = {hearth_io_##function};
FIGURES(FIGURE)
#undef FIGURE

static PyObject *get_figure(PyObject *self, void *figure)
{
    return PyLong_FromSize_t(((const struct figure *)figure)->read(cast(self)->io));
}

static PyObject *get_retention_limit(PyObject *self, void *unused)
{
    (void)unused;
    return hearthpy_cap_get(hearth_io_retention_cap(cast(self)->io));
}

static int set_retention_limit(PyObject *self, PyObject *value, void *unused)
{
    const struct hearthpy_state *state = hearthpy_state_of(self);
    enum hearth_status status;
    size_t bytes;
    (void)unused;
    if (hearthpy_cap_set(value, "retention_limit", &bytes) != 0 ||
        hearthpy_io_get(state, self) == NULL)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_io_set_retention_cap(cast(self)->io, bytes);
    Py_END_ALLOW_THREADS
    if (status == HEARTH_OK)
        return 0;
    (void)hearthpy_raise(state, status, "IOArena.retention_limit");
    return -1;
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(is_closed(cast(self)));
}

/* Python's own. */

static PyObject *represent(PyObject *self)
{
    struct hearth_io *io = cast(self)->io;
    return PyUnicode_FromFormat("<hearth.IOArena%s%s: %zu live of %zu bytes, %zu of them leased; "
                                "%zu retained of %zu bytes; io-%lu>",
                                cast(self)->service == NULL ? "" : " of a service",
                                is_closed(cast(self)) ? ", closed" : "", hearth_io_live_count(io),
                                hearth_io_live_bytes(io), hearth_io_leased_count(io),
                                hearth_io_retained_count(io), hearth_io_retained_bytes(io),
                                hearthpy_arena_number(hearth_io_allocator(io), false));
}

/* A service's arena may have several objects. */
static PyObject *compare(PyObject *self, PyObject *other, int operation)
{
    if (Py_TYPE(self) != Py_TYPE(other) || (operation != Py_EQ && operation != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    bool same = cast(self)->io == cast(other)->io;
    return PyBool_FromLong(same == (operation == Py_EQ));
}

static Py_hash_t hash(PyObject *self)
{
    return hearthpy_pointer_hash(cast(self)->io);
}

static PyMethodDef methods[] = {
    {"empty", HEARTHPY_FAST(empty),
     PyDoc_STR(
         "empty($self, /, shape, dtype='uint8', *, alignment=0, timeout=None)\n--\n\n"
         "Lease a buffer with unspecified content. `timeout` in seconds is for a service that "
         "waits\nwhen it is exhausted; None: do not wait.")},
    {"zeros", HEARTHPY_FAST(zeros),
     PyDoc_STR("zeros($self, /, shape, dtype='uint8', *, alignment=0, timeout=None)\n--\n\n"
               "As empty(), and every element is zero.")},
    {"from_dlpack", from_dlpack, METH_O,
     PyDoc_STR("from_dlpack($self, source, /)\n--\n\n"
               "Lease somebody else's memory without a copy: any object with __dlpack__, or a "
               "capsule. The\nproducer's deleter is called once, when the last share of the lease "
               "is gone. CPU memory only.")},
    {"trim", trim, METH_NOARGS,
     PyDoc_STR("trim($self, /)\n--\n\nGive all retained storage back. Returns its bytes.")},
    {"reset_peak", reset_peak, METH_NOARGS,
     PyDoc_STR("reset_peak($self, /)\n--\n\nSet peak_bytes to the present live_bytes.")},
    {"stats", stats, METH_NOARGS, PyDoc_STR("stats($self, /)\n--\n\nAll figures, read together.")},
    {"close", close_arena, METH_NOARGS,
     PyDoc_STR(
         "close($self, /)\n--\n\nRefuse new leases, and give back what is retained. What is "
         "out stays valid, and is counted\nuntil it is back. Not for the arena of a service.")},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, PyDoc_STR("Closes the arena.")},
    HEARTHPY_NO_REDUCE,
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
#define FIGURE(name, function, text)                                                               \
    {#name, get_figure, NULL, PyDoc_STR(text), (void *)(uintptr_t)&name##_figure},
    FIGURES(FIGURE)
#undef FIGURE
        {"retention_limit", get_retention_limit, set_retention_limit,
         PyDoc_STR(
             "Most bytes retained in free buffers; None: no bound, 0: retain nothing. Setting it "
             "gives\nback at once what is above."),
         NULL},
    {"closed", get_closed, NULL, PyDoc_STR("Whether the arena, or its service, was closed."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct io_arena, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const char doc[] = PyDoc_STR(
    "IOArena(capacity=None, *, retention_limit=None, live_limit=None, reuse_ratio=None, "
    "backing=None)\n--\n\n"
    "The arena for buffers that leave: any thread takes from it and returns to it, without "
    "a lock.\n\n"
    "`capacity` is how many buffers it may have, `retention_limit` the bytes it keeps for "
    "reuse,\n`live_limit` the bytes that may be out at a time. Its figures are also told "
    "after close().\nThe objects of one service's arena are equal.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)doc},
    {Py_tp_new, (void *)new_arena},
    {Py_tp_dealloc, (void *)deallocate},
    {Py_tp_repr, (void *)represent},
    {Py_tp_richcompare, (void *)compare},
    {Py_tp_hash, (void *)hash},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec specification = {
    .name = "hearth.IOArena",
    .basicsize = sizeof(struct io_arena),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyTypeObject *hearthpy_io_arena_type(PyObject *module)
{
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &specification, NULL);
}
