/* SPDX-License-Identifier: Apache-2.0 */
/* ExecutionArena, an arena of one thread: its methods and its type. */
#include "execution_arena.h"

#include <structmember.h>

/* Buffers. */

static PyObject *take(PyObject *self, const struct hearthpy_call *call, PyObject *const *args,
                      Py_ssize_t count, PyObject *names)
{
    const struct hearthpy_state *state = hearthpy_state_of(self);
    struct hearth_buf *buf = NULL;
    struct hearthpy_asked asked;
    enum hearth_status status;
    if (hearthpy_asked_parse(state, call, args, count, names, &asked) != 0)
        return NULL;
    struct hearth_exec *arena = hearthpy_execution_enter(state, self, call->name);
    if (arena == NULL)
        return NULL;
    if (call->zero && asked.request.size >= HEARTHPY_ZERO_ALONE) {
        Py_BEGIN_ALLOW_THREADS
        status = hearth_exec_alloc_ex(arena, &asked.request, &buf);
        Py_END_ALLOW_THREADS
    } else {
        status = hearth_exec_alloc_ex(arena, &asked.request, &buf);
    }
    PyObject *lease = NULL;
    if (status == HEARTH_OK) {
        hearthpy_execution_owned(execution_arena_of(self));
        lease = hearthpy_lease_of_buf(state, buf, &asked.layout);
    } else {
        (void)hearthpy_raise_asked(state, status, call, &asked);
    }
    hearthpy_execution_unpin(self);
    return lease;
}

static PyObject *empty(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct hearthpy_call call = {"ExecutionArena.empty", false, false};
    return take(self, &call, args, count, names);
}

static PyObject *zeros(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    static const struct hearthpy_call call = {"ExecutionArena.zeros", true, false};
    return take(self, &call, args, count, names);
}

/* Verbs. */

/* None, or what the status stands for. Takes the pin away. */
static PyObject *answer(PyObject *self, enum hearth_status status, const char *what)
{
    hearthpy_execution_unpin(self);
    if (status != HEARTH_OK)
        return hearthpy_raise(hearthpy_state_of(self), status, what);
    hearthpy_execution_owned(execution_arena_of(self));
    Py_RETURN_NONE;
}

static PyObject *trim(PyObject *self, PyObject *unused)
{
    static const char what[] = "ExecutionArena.trim";
    struct hearth_exec *arena = hearthpy_execution_enter(hearthpy_state_of(self), self, what);
    size_t released = 0;
    enum hearth_status status;
    (void)unused;
    if (arena == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_exec_trim(arena, &released);
    Py_END_ALLOW_THREADS
    PyObject *none = answer(self, status, what);
    if (none == NULL)
        return NULL;
    Py_DECREF(none);
    return PyLong_FromSize_t(released);
}

static PyObject *reset_peak(PyObject *self, PyObject *unused)
{
    static const char what[] = "ExecutionArena.reset_peak";
    struct hearth_exec *arena = hearthpy_execution_enter(hearthpy_state_of(self), self, what);
    (void)unused;
    return arena == NULL ? NULL : answer(self, hearth_exec_reset_peak(arena), what);
}

static PyObject *stats(PyObject *self, PyObject *unused)
{
    const struct hearthpy_state *state = hearthpy_state_of(self);
    struct hearth_exec *arena =
        hearthpy_execution_resolve(state, execution_arena_of(self), "ExecutionArena.stats");
    (void)unused;
    return arena == NULL ? NULL : hearthpy_execution_stats(state, arena);
}

static PyObject *run_begin(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char what[] = "ExecutionArena.run_begin";
    static char *names[] = {"key", NULL};
    PyObject *given = NULL;
    enum hearth_status status;
    size_t key;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:run_begin", names, &given) ||
        hearthpy_size(given, 0, "key", &key) != 0)
        return NULL;
    struct hearth_exec *arena = hearthpy_execution_enter(hearthpy_state_of(self), self, what);
    if (arena == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_exec_run_begin(arena, key);
    Py_END_ALLOW_THREADS
    return answer(self, status, what);
}

static PyObject *run_end(PyObject *self, PyObject *unused)
{
    static const char what[] = "ExecutionArena.run_end";
    struct hearth_exec *arena = hearthpy_execution_enter(hearthpy_state_of(self), self, what);
    enum hearth_status status;
    (void)unused;
    if (arena == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_exec_run_end(arena);
    Py_END_ALLOW_THREADS
    return answer(self, status, what);
}

/* Whether it may be closed and handed on by itself. */
static bool is_its_own(PyObject *self)
{
    if (execution_arena_of(self)->service == NULL)
        return true;
    (void)hearthpy_fail(hearthpy_state_of(self), HEARTH_INVALID,
                        "this ExecutionArena is its service's and stays with its thread; "
                        "Service.detach() gives it up, Service.close() closes it");
    return false;
}

static PyObject *release_owner(PyObject *self, PyObject *unused)
{
    static const char what[] = "ExecutionArena.release_owner";
    (void)unused;
    if (!is_its_own(self))
        return NULL;
    struct hearth_exec *arena = hearthpy_execution_enter(hearthpy_state_of(self), self, what);
    PyObject *none = arena == NULL ? NULL : answer(self, hearth_exec_release_owner(arena), what);
    if (none != NULL)
        execution_arena_of(self)->thread = 0;
    return none;
}

static PyObject *close_arena(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_its_own(self))
        return NULL;
    execution_arena_of(self)->closed = true;
    hearthpy_execution_settle(execution_arena_of(self));
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_its_own(self) || hearthpy_execution_get(hearthpy_state_of(self), self) == NULL)
        return NULL;
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args)
{
    (void)args;
    return close_arena(self, NULL);
}

/* Figures. */

struct figure {
    const char *name;
    size_t (*read)(const struct hearth_exec *arena);
};

#define FIGURES(X)                                                                                 \
    X(capacity, slots, "Most buffers with storage at a time.")                                     \
    X(live_count, live_count, "Buffers handed out and not returned.")                              \
    X(live_bytes, live_bytes, "Logical bytes of live buffers.")                                    \
    X(live_capacity, live_capacity, "Capacity of live buffers.")                                   \
    X(peak_bytes, peak_bytes, "Largest live_bytes since the last reset.")                          \
    X(retained_count, retained_count, "Free buffers that kept their storage.")                     \
    X(retained_bytes, retained_bytes, "Capacity of free buffers.")                                 \
    X(pending_count, pending_count, "Returned by other threads, not yet taken in by the owner.")   \
    X(pending_bytes, pending_bytes, "Capacity of pending buffers.")                                \
    X(footprint, footprint, "Storage obtained from the backing and not given back.")

#define FIGURE(name, function, text)                                                               \
    static const struct figure name##_figure = {"ExecutionArena." #name, hearth_exec_##function};
FIGURES(FIGURE)
#undef FIGURE

static PyObject *get_figure(PyObject *self, void *closure)
{
    const struct figure *figure = closure;
    const struct hearth_exec *arena =
        hearthpy_execution_resolve(hearthpy_state_of(self), execution_arena_of(self), figure->name);
    return arena == NULL ? NULL : PyLong_FromSize_t(figure->read(arena));
}

static const char limit_name[] = "ExecutionArena.retention_limit";

static PyObject *get_retention_limit(PyObject *self, void *unused)
{
    const struct hearth_exec *arena =
        hearthpy_execution_resolve(hearthpy_state_of(self), execution_arena_of(self), limit_name);
    (void)unused;
    return arena == NULL ? NULL : hearthpy_cap_get(hearth_exec_retention_cap(arena));
}

static int set_retention_limit(PyObject *self, PyObject *value, void *unused)
{
    enum hearth_status status;
    size_t bytes;
    (void)unused;
    if (hearthpy_cap_set(value, "retention_limit", &bytes) != 0)
        return -1;
    struct hearth_exec *arena = hearthpy_execution_enter(hearthpy_state_of(self), self, limit_name);
    if (arena == NULL)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_exec_set_retention_cap(arena, bytes);
    Py_END_ALLOW_THREADS
    PyObject *none = answer(self, status, limit_name);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    const struct execution_arena *arena = execution_arena_of(self);
    (void)unused;
    return PyBool_FromLong(arena->closed ||
                           (arena->service != NULL && hearthpy_service_is_closed(arena->service)));
}

/* Python's own. */

static PyObject *represent(PyObject *object)
{
    const struct execution_arena *self = execution_arena_of(object);
    struct hearth_exec *arena = self->arena;
    if (self->service != NULL)
        return PyUnicode_FromFormat(
            "<hearth.ExecutionArena of a service, for %s thread%s>",
            hearth_service_waiter(self->service) == self->thread ? "this" : "another",
            hearthpy_service_is_closed(self->service) ? ", closed" : "");
    if (self->closed)
        return PyUnicode_FromString("<hearth.ExecutionArena, closed>");
    return PyUnicode_FromFormat(
        "<hearth.ExecutionArena: %zu live of %zu bytes; %zu retained of %zu "
        "bytes; %zu pending of %zu bytes; execution-%lu>",
        hearth_exec_live_count(arena), hearth_exec_live_bytes(arena),
        hearth_exec_retained_count(arena), hearth_exec_retained_bytes(arena),
        hearth_exec_pending_count(arena), hearth_exec_pending_bytes(arena),
        hearthpy_arena_number(hearth_exec_allocator(arena), false));
}

/* Each use of Service.execution makes an object. */
static PyObject *compare(PyObject *self, PyObject *other, int operation)
{
    if (Py_TYPE(self) != Py_TYPE(other) || (operation != Py_EQ && operation != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    bool same =
        self == other || (execution_arena_of(self)->service != NULL &&
                          execution_arena_of(self)->service == execution_arena_of(other)->service &&
                          execution_arena_of(self)->thread == execution_arena_of(other)->thread);
    return PyBool_FromLong(same == (operation == Py_EQ));
}

static Py_hash_t hash(PyObject *self)
{
    const struct hearth_service *service = execution_arena_of(self)->service;
    return hearthpy_pointer_hash(service == NULL ? (const void *)self : service);
}

static PyMethodDef methods[] = {
    {"empty", HEARTHPY_FAST(empty),
     PyDoc_STR("empty($self, /, shape, dtype='uint8', *, alignment=0)\n--\n\n"
               "Take a buffer with unspecified content.")},
    {"zeros", HEARTHPY_FAST(zeros),
     PyDoc_STR("zeros($self, /, shape, dtype='uint8', *, alignment=0)\n--\n\n"
               "As empty(), and every element is zero.")},
    {"trim", trim, METH_NOARGS,
     PyDoc_STR("trim($self, /)\n--\n\nGive all retained storage back. Returns its bytes.")},
    {"reset_peak", reset_peak, METH_NOARGS,
     PyDoc_STR("reset_peak($self, /)\n--\n\nSet peak_bytes to the present live_bytes.")},
    {"stats", stats, METH_NOARGS, PyDoc_STR("stats($self, /)\n--\n\nAll figures, read together.")},
    {"run_begin", HEARTHPY_SLOW(run_begin),
     PyDoc_STR(
         "run_begin($self, /, key=0)\n--\n\nTell that a run begins: for store=\"plans\". `key` "
         "tells runs apart that begin alike.")},
    {"run_end", run_end, METH_NOARGS, PyDoc_STR("run_end($self, /)\n--\n\nTell that a run ended.")},
    {"release_owner", release_owner, METH_NOARGS,
     PyDoc_STR(
         "release_owner($self, /)\n--\n\nLet the next thread that uses it own it. Not for the "
         "arena of a service.")},
    {"close", close_arena, METH_NOARGS,
     PyDoc_STR(
         "close($self, /)\n--\n\nGive back what is retained. What is still out stays valid, and "
         "goes back when it is dropped.\nAny thread may close it; where another one is inside a "
         "call, it takes effect when that returns.\nNot for the arena of a service.")},
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
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct execution_arena, weak_references), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

static const char doc[] = PyDoc_STR(
    "ExecutionArena(capacity=None, *, retention_limit=None, reuse_ratio=None, store=None, "
    "backing=None)\n--\n\n"
    "An arena of one thread, for buffers that die inside a run.\n\n"
    "The thread that makes it owns it. Another thread gets NotOwnerError from everything but "
    "reading\nfigures and close(), and may drop what it got from here. Each lease of it keeps its "
    "buffer; when\nthe last share is gone the buffer is free for the owner's next request of that "
    "size, with its\npages warm.\n\n"
    "One from Service.execution stands for the arena that the service has for the thread that "
    "asked:\nevery use on another thread is a NotOwnerError, figures included, also when its own "
    "thread is gone.\nThose of the same thread are equal.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)doc},
    {Py_tp_new, (void *)hearthpy_execution_new},
    {Py_tp_dealloc, (void *)hearthpy_execution_dealloc},
    {Py_tp_repr, (void *)represent},
    {Py_tp_richcompare, (void *)compare},
    {Py_tp_hash, (void *)hash},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec specification = {
    .name = "hearth.ExecutionArena",
    .basicsize = sizeof(struct execution_arena),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyTypeObject *hearthpy_execution_arena_type(PyObject *module)
{
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &specification, NULL);
}
