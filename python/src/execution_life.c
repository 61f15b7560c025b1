/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an ExecutionArena.
 *
 * Alone it is a struct hearth_exec that close() detaches, from any thread: what is out stays valid. No other call may
 * run on it then, and the GIL alone does not see to that, as trims, large zeros and runs give it up. So whoever does
 * pins the arena, and it is detached when it is closed and nobody pins it.
 *
 * Of a service it stands for "this thread's arena", and keeps the service but no struct hearth_exec: that may go to
 * another thread when its own one ends or detaches. The thread is remembered by a name that is never used again, and
 * the struct is asked for anew in each call.
 */
#include "execution_arena.h"

static PyObject *make(PyTypeObject *type, struct hearth_exec *arena)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = allocate(type, 0);
    if (self != NULL)
        execution_arena_of(self)->arena = arena;
    return self;
}

static void detach(struct hearth_exec *arena)
{
    Py_BEGIN_ALLOW_THREADS(void)
    hearth_exec_detach(arena, NULL);
    Py_END_ALLOW_THREADS
}

PyObject *hearthpy_execution_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"capacity", "retention_limit", "reuse_ratio", "store", "backing", NULL};
    const struct hearthpy_state *state = PyType_GetModuleState(type);
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    PyObject *capacity = NULL, *retention = NULL, *ratio = NULL, *store = NULL, *backing = NULL;
    struct hearth_exec *arena = NULL;
    enum hearth_status status;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$OOOO:ExecutionArena", names, &capacity,
                                     &retention, &ratio, &store, &backing) ||
        hearthpy_positive(state, capacity, "capacity", &options.slots) != 0 ||
        hearthpy_cap(retention, "retention_limit", &options.retention_cap) != 0 ||
        hearthpy_reuse_ratio(state, ratio, &options.reuse_ratio) != 0 ||
        hearthpy_store(state, store, &options.store) != 0 ||
        hearthpy_backing(state, backing, NULL, &options.backing) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = hearth_exec_create(&options, &arena);
    hearth_backing_unref(options.backing);
    Py_END_ALLOW_THREADS
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "ExecutionArena");
    PyObject *self = make(type, arena);
    if (self == NULL) {
        detach(arena);
        return NULL;
    }
    hearthpy_execution_owned(execution_arena_of(self));
    (void)hearthpy_arena_number(hearth_exec_allocator(arena), true);
    return self;
}

PyObject *hearthpy_execution_of_service(const struct hearthpy_state *state,
                                        struct hearth_service *service)
{
    struct hearth_exec *arena;
    uint64_t thread = hearth_service_waiter(service);
    enum hearth_status status =
        thread == 0 ? HEARTH_NO_MEMORY : hearth_service_exec(service, &arena);
    if (status != HEARTH_OK)
        return hearthpy_raise(state, status, "Service.execution");
    PyObject *self = make(state->execution_arena, NULL);
    if (self != NULL) {
        hearth_service_ref(service);
        execution_arena_of(self)->service = service;
        execution_arena_of(self)->thread = thread;
    }
    return self;
}

void hearthpy_execution_settle(struct execution_arena *self)
{
    struct hearth_exec *arena = self->arena;
    if (arena == NULL || !self->closed || self->pins > 0)
        return;
    self->arena = NULL;
    detach(arena);
}

void hearthpy_execution_dealloc(PyObject *object)
{
    struct execution_arena *self = execution_arena_of(object);
    PyObject_ClearWeakRefs(object);
    self->closed = true;
    hearthpy_execution_settle(self);
    if (self->service != NULL) {
        Py_BEGIN_ALLOW_THREADS
        hearth_service_unref(self->service);
        Py_END_ALLOW_THREADS
    }
    hearthpy_object_free(object);
}

/* Of a service, its thread alone could give the struct away, and is in here as long as the call goes on. */
struct hearth_exec *hearthpy_execution_resolve(const struct hearthpy_state *state,
                                               const struct execution_arena *self, const char *what)
{
    struct hearth_exec *arena = self->arena;
    enum hearth_status status = HEARTH_OK;
    if (self->closed)
        status = HEARTH_CLOSED;
    else if (self->service != NULL && hearth_service_waiter(self->service) != self->thread)
        (void)hearthpy_fail(state, HEARTH_NOT_OWNER,
                            "%s: this ExecutionArena is the one that a service has for another "
                            "thread; ask Service.execution on this thread",
                            what);
    else if (self->service != NULL)
        status = hearth_service_exec(self->service, &arena);
    if (status == HEARTH_OK)
        return arena;
    (void)hearthpy_raise(state, status, what);
    return NULL;
}

/* Known without a call that libhearth would count, and tell as a misuse. */
static bool is_another_threads(const struct execution_arena *self)
{
    return self->service == NULL && self->thread != 0 &&
           self->thread != hearth_service_waiter(NULL);
}

struct hearth_exec *hearthpy_execution_enter(const struct hearthpy_state *state, PyObject *object,
                                             const char *what)
{
    struct execution_arena *self = execution_arena_of(object);
    struct hearth_exec *arena = hearthpy_execution_resolve(state, self, what);
    if (arena == NULL)
        return NULL;
    if (is_another_threads(self)) {
        (void)hearthpy_raise(state, HEARTH_NOT_OWNER, what);
        return NULL;
    }
    self->pins++;
    return arena;
}

void hearthpy_execution_owned(struct execution_arena *self)
{
    if (self->service == NULL)
        self->thread = hearth_service_waiter(NULL);
}

void hearthpy_execution_unpin(PyObject *object)
{
    execution_arena_of(object)->pins--;
    hearthpy_execution_settle(execution_arena_of(object));
}

static bool is_arena(const struct hearthpy_state *state, PyObject *object)
{
    if (PyObject_TypeCheck(object, state->execution_arena))
        return true;
    PyErr_Format(PyExc_TypeError, "an ExecutionArena is needed, not %R",
                 (PyObject *)Py_TYPE(object));
    return false;
}

struct hearth_exec *hearthpy_execution_get(const struct hearthpy_state *state, PyObject *object)
{
    return is_arena(state, object)
               ? hearthpy_execution_resolve(state, execution_arena_of(object), "ExecutionArena")
               : NULL;
}

struct hearth_exec *hearthpy_execution_pin(const struct hearthpy_state *state, PyObject *object)
{
    return is_arena(state, object) ? hearthpy_execution_enter(state, object, "ExecutionArena")
                                   : NULL;
}
