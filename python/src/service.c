/* SPDX-License-Identifier: Apache-2.0 */
/* Service: execution arenas of all threads and one I/O arena under common limits. */
#include "arena.h"

#include <structmember.h>

struct service {
    PyObject_HEAD PyObject *weak_references;
    struct hearth_service *service; /* a reference */
    PyObject *io; /* its IOArena once it was asked for, which refers to no Python object */
};

static struct service *cast(PyObject *self)
{
    return (struct service *)(void *)self;
}

static struct hearth_service *service_of(PyObject *self)
{
    return cast(self)->service;
}

static void unref(struct hearth_service *service)
{
    Py_BEGIN_ALLOW_THREADS
    hearth_service_unref(service);
    Py_END_ALLOW_THREADS
}

/* Its life. */

static PyObject *new_service(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    const struct hearthpy_state *state = PyType_GetModuleState(type);
    struct hearth_service_options options;
    struct hearth_service *service = NULL;
    enum hearth_status status;
    if (hearthpy_service_options(state, args, keywords, &options) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_service_create(&options, &service);
    hearth_backing_unref(options.exec_backing);
    hearth_backing_unref(options.io_backing);
    Py_END_ALLOW_THREADS
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "Service");
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = allocate(type, 0);
    if (self == NULL) {
        unref(service);
        return NULL;
    }
    cast(self)->service = service;
    (void)hearthpy_arena_number(hearth_io_allocator(hearth_service_io(service)), true);
    return self;
}

static void deallocate(PyObject *self)
{
    PyObject_ClearWeakRefs(self);
    Py_CLEAR(cast(self)->io);
    unref(service_of(self));
    hearthpy_object_free(self);
}

struct hearth_service *hearthpy_service_get(const struct hearthpy_state *state, PyObject *object)
{
    if (!PyObject_TypeCheck(object, state->service)) {
        PyErr_Format(PyExc_TypeError, "a Service is needed, not %R", (PyObject *)Py_TYPE(object));
        return NULL;
    }
    if (hearthpy_service_is_closed(service_of(object))) {
        (void)hearthpy_raise(state, HEARTH_CLOSED, "Service");
        return NULL;
    }
    return service_of(object);
}

/* Arenas. */

static PyObject *get_io(PyObject *self, void *unused)
{
    (void)unused;
    if (cast(self)->io == NULL)
        cast(self)->io = hearthpy_io_of_service(hearthpy_state_of(self), service_of(self));
    return Py_XNewRef(cast(self)->io);
}

static PyObject *get_execution(PyObject *self, void *unused)
{
    (void)unused;
    return hearthpy_execution_of_service(hearthpy_state_of(self), service_of(self));
}

/* Verbs. */

static PyObject *answer(PyObject *self, enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK)
        return hearthpy_raise(hearthpy_state_of(self), status, what);
    Py_RETURN_NONE;
}

static int parse_budget(const struct hearthpy_state *state, PyObject *value, uint64_t *ns)
{
    *ns = 0;
    if (!hearthpy_is_given(value))
        return 0;
    if (hearthpy_seconds(state, value, "budget", ns) != 0)
        return -1;
    if (*ns == 0)
        *ns = 1; /* 0 would be no bound */
    else if (*ns == UINT64_MAX)
        *ns = 0;
    return 0;
}

static PyObject *trim(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"goal", "budget", NULL};
    const struct hearthpy_state *state = hearthpy_state_of(self);
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    PyObject *goal_given = Py_None, *budget_given = NULL;
    enum hearth_status status;
    uint64_t budget;
    size_t goal;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$O:trim", names, &goal_given,
                                     &budget_given) ||
        hearthpy_cap_set(goal_given, "goal", &goal) != 0 ||
        parse_budget(state, budget_given, &budget) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_service_trim(service_of(self), goal, budget, &report);
    Py_END_ALLOW_THREADS
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "Service.trim");
    return hearthpy_trim_report(state, &report);
}

static PyObject *tick(PyObject *self, PyObject *unused)
{
    enum hearth_status status;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_service_tick(service_of(self));
    Py_END_ALLOW_THREADS
    return answer(self, status, "Service.tick");
}

static PyObject *end_run(PyObject *self, PyObject *unused)
{
    (void)unused;
    return answer(self, hearth_service_end_run(service_of(self)), "Service.end_run");
}

static PyObject *detach(PyObject *self, PyObject *unused)
{
    enum hearth_status status;
    (void)unused;
    if (hearthpy_in_run())
        return hearthpy_fail(hearthpy_state_of(self), HEARTH_BUSY,
                             "Service.detach: this thread is inside of a run, whose arenas it "
                             "needs; detach it when run() has returned");
    Py_BEGIN_ALLOW_THREADS
    status = hearth_service_detach(service_of(self));
    Py_END_ALLOW_THREADS
    return answer(self, status, "Service.detach");
}

static PyObject *stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    return hearthpy_service_stats(hearthpy_state_of(self), service_of(self));
}

static PyObject *close_service(PyObject *self, PyObject *unused)
{
    enum hearth_status status;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_service_close(service_of(self));
    /* What is retained has no use any more. */
    if (status == HEARTH_OK)
        (void)hearth_service_trim(service_of(self), HEARTH_UNBOUNDED, 0, NULL);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return hearthpy_service_get(hearthpy_state_of(self), self) == NULL ? NULL : Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *args)
{
    (void)args;
    return close_service(self, NULL);
}

/* For hearth._numpy_memory: the service itself, with a reference of the capsule's. */

static const char capsule_name[] = "hearth.service";

static void end_of_capsule(PyObject *capsule)
{
    unref(PyCapsule_GetPointer(capsule, capsule_name));
}

static PyObject *handle(PyObject *self, PyObject *unused)
{
    struct hearth_service *service = hearthpy_service_get(hearthpy_state_of(self), self);
    (void)unused;
    if (service == NULL)
        return NULL;
    PyObject *capsule = PyCapsule_New(service, capsule_name, end_of_capsule);
    if (capsule != NULL)
        hearth_service_ref(service);
    return capsule;
}

/* Figures. They go on being told after the close: what is out is still counted. */

struct figure {
    size_t (*read)(const struct hearth_service *service);
};

#define FIGURES(X)                                                                                 \
    X(live_bytes, "Logical bytes of live and leased buffers.")                                     \
    X(live_capacity, "Their capacity: what live_limit bounds.")                                    \
    X(retained_bytes, "Capacity of free buffers: what the ceiling bounds.")                        \
    X(footprint, "Storage obtained from the backings and not given back.")                         \
    X(thread_count, "Threads attached at present.")

#define FIGURE(name, text) static const struct figure name##_figure = {hearth_service_##name};
FIGURES(FIGURE)
#undef FIGURE

static PyObject *get_figure(PyObject *self, void *figure)
{
    return PyLong_FromSize_t(((const struct figure *)figure)->read(service_of(self)));
}

static PyObject *get_ceiling(PyObject *self, void *unused)
{
    (void)unused;
    return hearthpy_cap_get(hearth_service_ceiling(service_of(self)));
}

static int set_ceiling(PyObject *self, PyObject *value, void *unused)
{
    const struct hearthpy_state *state = hearthpy_state_of(self);
    struct hearth_service *service = service_of(self);
    enum hearth_status status;
    size_t bytes;
    (void)unused;
    if (hearthpy_cap_set(value, "ceiling", &bytes) != 0 ||
        hearthpy_service_get(state, self) == NULL)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_service_set_ceiling(service, bytes);
    Py_END_ALLOW_THREADS
    if (status == HEARTH_OK)
        return 0;
    (void)hearthpy_raise(state, status, "Service.ceiling");
    return -1;
}

static PyObject *get_backing(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(
        hearth_backing_name(hearth_service_backing(service_of(self), HEARTH_DOMAIN_IO)));
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(hearthpy_service_is_closed(service_of(self)));
}

static PyObject *represent(PyObject *self)
{
    const struct hearth_service *service = service_of(self);
    return PyUnicode_FromFormat("<hearth.Service%s: %zu bytes live, %zu retained; %zu threads>",
                                hearthpy_service_is_closed(service_of(self)) ? ", closed" : "",
                                hearth_service_live_bytes(service),
                                hearth_service_retained_bytes(service),
                                hearth_service_thread_count(service));
}

/* The type. */

static PyMethodDef methods[] = {
    {"trim", HEARTHPY_SLOW(trim),
     PyDoc_STR("trim($self, /, goal=None, *, budget=None)\n--\n\n"
               "Give retained storage of all threads back: `goal` bytes of it, within `budget` "
               "seconds.")},
    {"tick", tick, METH_NOARGS,
     PyDoc_STR(
         "tick($self, /)\n--\n\nOne slice, about a millisecond, of what the maintenance thread "
         "does. For event loops, and\nneeded with maintenance_thread=False.")},
    {"end_run", end_run, METH_NOARGS,
     PyDoc_STR(
         "end_run($self, /)\n--\n\nTell that the calling thread finished one run: the clock of "
         "age_runs.")},
    {"detach", detach, METH_NOARGS,
     PyDoc_STR(
         "detach($self, /)\n--\n\nGive up the calling thread's arenas now, instead of when it "
         "ends.")},
    {"stats", stats, METH_NOARGS, PyDoc_STR("stats($self, /)\n--\n\nThe figures.")},
    {"close", close_service, METH_NOARGS,
     PyDoc_STR(
         "close($self, /)\n--\n\nRefuse new requests, wake those that wait, and give back what "
         "is retained. What is out stays\nvalid, and is counted until it is back.")},
    {"_handle", handle, METH_NOARGS,
     PyDoc_STR("_handle($self, /)\n--\n\nA capsule of the service, for hearth._numpy_memory.")},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, PyDoc_STR("Closes the service.")},
    HEARTHPY_NO_REDUCE,
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"io", get_io, NULL, PyDoc_STR("The I/O arena. It keeps the service's memory."), NULL},
    {"execution", get_execution, NULL,
     PyDoc_STR(
         "The calling thread's execution arena: an ExecutionArena that is of use on this thread "
         "alone,\nand equal to the others that this thread gets here."),
     NULL},
#define FIGURE(name, text)                                                                         \
    {#name, get_figure, NULL, PyDoc_STR(text), (void *)(uintptr_t)&name##_figure},
    FIGURES(FIGURE)
#undef FIGURE
        {"ceiling", get_ceiling, set_ceiling,
         PyDoc_STR(
             "Most bytes retained in all arenas together; None: no bound, 0: retain nothing."),
         NULL},
    {"backing", get_backing, NULL, PyDoc_STR("Where storage comes from, such as \"mmap\"."), NULL},
    {"closed", get_closed, NULL, PyDoc_STR("Whether close() was called."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct service, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const char doc[] = PyDoc_STR(
    "Service(*, execution_limit=None, io_limit=None, ceiling=None, live_limit=None, "
    "exhaustion='grow', reuse_ratio=None, age_runs=None, age_seconds=None, store=None, "
    "scrub=False, maintenance_thread=True, huge_pages=None, backing=None)\n--\n\n"
    "Execution arenas of all threads and one I/O arena under common limits; idle storage "
    "goes back by\nitself.\n\n"
    "Limits are retained bytes: of each execution arena, of the I/O arena, of all together "
    "(ceiling).\nlive_limit bounds what is live. age_*: 0 means never.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)doc},
    {Py_tp_new, (void *)new_service},
    {Py_tp_dealloc, (void *)deallocate},
    {Py_tp_repr, (void *)represent},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec specification = {
    .name = "hearth.Service",
    .basicsize = sizeof(struct service),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyTypeObject *hearthpy_service_type(PyObject *module)
{
    return (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &specification, NULL);
}
