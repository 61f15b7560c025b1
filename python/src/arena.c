/* SPDX-License-Identifier: Apache-2.0 */
/* What the two arenas and the service have in common. */
#include "arena.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

/* Arguments of empty() and zeros(). */

enum { SHAPE, DTYPE, ALIGNMENT, TIMEOUT, ARGUMENTS };

static const char *const argument_names[ARGUMENTS] = {"shape", "dtype", "alignment", "timeout"};

/* Where a keyword belongs; ARGUMENTS for one that there is not. */
static int place_of(PyObject *name, bool may_wait)
{
    int place = 0;
    while (place < ARGUMENTS && PyUnicode_CompareWithASCIIString(name, argument_names[place]) != 0)
        place++;
    return place == TIMEOUT && !may_wait ? ARGUMENTS : place;
}

static int sort_arguments(const struct hearthpy_call *call, PyObject *const *args, Py_ssize_t count,
                          PyObject *names, PyObject *sorted[ARGUMENTS])
{
    if (count > ALIGNMENT) {
        PyErr_Format(PyExc_TypeError,
                     "%s takes shape and dtype by place, not %zd values; give the rest by name",
                     call->name, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        sorted[i] = args[i];
    Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int place = place_of(name, call->may_wait);
        if (place == ARGUMENTS || sorted[place] != NULL) {
            PyErr_Format(PyExc_TypeError,
                         place == ARGUMENTS
                             ? "%s has no argument %R; it takes shape, dtype, alignment%s"
                             : "%s got %R twice%.0s",
                         call->name, name, call->may_wait ? ", timeout" : "");
            return -1;
        }
        sorted[place] = args[count + i];
    }
    if (sorted[SHAPE] == NULL) {
        PyErr_Format(PyExc_TypeError, "%s needs a shape: an integer or a sequence of integers",
                     call->name);
        return -1;
    }
    return 0;
}

static int parse_alignment(const struct hearthpy_state *state, PyObject *value, size_t *alignment)
{
    if (value == NULL)
        return 0;
    if (hearthpy_size(value, 0, "alignment", alignment) != 0)
        return -1;
    if (*alignment <= HEARTH_ALIGNMENT_MAX && (*alignment & (*alignment - 1)) == 0)
        return 0;
    (void)hearthpy_fail(state, HEARTH_INVALID,
                        "alignment must be a power of two up to %zu, or 0 for %zu, and is %zu",
                        HEARTH_ALIGNMENT_MAX, HEARTH_ALIGNMENT, *alignment);
    return -1;
}

static int parse_timeout(const struct hearthpy_state *state, PyObject *value,
                         struct hearthpy_asked *asked)
{
    uint64_t ns;
    if (value == NULL || value == Py_None)
        return 0;
    if (hearthpy_seconds(state, value, "timeout", &ns) != 0)
        return -1;
    uint64_t now = hearthpy_now_ns();
    asked->waits = true;
    asked->deadline = ns >= UINT64_MAX - now ? UINT64_MAX : now + ns;
    return 0;
}

int hearthpy_asked_parse(const struct hearthpy_state *state, const struct hearthpy_call *call,
                         PyObject *const *args, Py_ssize_t count, PyObject *names,
                         struct hearthpy_asked *asked)
{
    PyObject *sorted[ARGUMENTS] = {NULL};
    asked->request = (struct hearth_request)HEARTH_REQUEST_INIT;
    asked->request.zero = call->zero;
    asked->waits = false;
    if (sort_arguments(call, args, count, names, sorted) != 0 ||
        hearthpy_layout_make(state, sorted[SHAPE], sorted[DTYPE], &asked->layout,
                             &asked->request.size) != 0 ||
        parse_alignment(state, sorted[ALIGNMENT], &asked->request.alignment) != 0)
        return -1;
    return parse_timeout(state, sorted[TIMEOUT], asked);
}

PyObject *hearthpy_raise_asked(const struct hearthpy_state *state, enum hearth_status status,
                               const struct hearthpy_call *call, const struct hearthpy_asked *asked)
{
    char what[96];
    (void)snprintf(what, sizeof what, "%s of %zu bytes", call->name, asked->request.size);
    return hearthpy_raise(state, status, what);
}

/* Time. */

uint64_t hearthpy_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int hearthpy_seconds(const struct hearthpy_state *state, PyObject *value, const char *name,
                     uint64_t *ns)
{
    double seconds = PyFloat_AsDouble(value);
    if (seconds == -1.0 && PyErr_Occurred() != NULL) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s must be a number of seconds or None, not %R", name,
                         (PyObject *)Py_TYPE(value));
        return -1;
    }
    if (isnan(seconds) || seconds < 0) {
        (void)hearthpy_fail(state, HEARTH_INVALID,
                            "%s must be a number of seconds that is not negative, and is %R", name,
                            value);
        return -1;
    }
    double exact = ceil(seconds * 1e9);
    *ns = exact >= 18e18 ? UINT64_MAX : (uint64_t)exact;
    return 0;
}

/* Options. */

bool hearthpy_is_given(PyObject *value)
{
    return value != NULL && value != Py_None;
}

/* A bool is an integer to Python, but here it is a slip. */
int hearthpy_count(PyObject *value, const char *name, size_t *size)
{
    if (value != NULL && PyBool_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be an integer or None, not a bool", name);
        return -1;
    }
    return hearthpy_size(value, 0, name, size);
}

int hearthpy_positive(const struct hearthpy_state *state, PyObject *value, const char *name,
                      size_t *size)
{
    if (hearthpy_count(value, name, size) != 0)
        return -1;
    if (*size > 0 || !hearthpy_is_given(value))
        return 0;
    (void)hearthpy_fail(state, HEARTH_INVALID, "%s must be at least 1, or None for the default",
                        name);
    return -1;
}

int hearthpy_cap(PyObject *value, const char *name, size_t *bytes)
{
    if (hearthpy_count(value, name, bytes) != 0)
        return -1;
    if (*bytes == 0 && hearthpy_is_given(value))
        *bytes = HEARTH_RETAIN_NOTHING;
    return 0;
}

int hearthpy_cap_set(PyObject *value, const char *name, size_t *bytes)
{
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "%s cannot be deleted; set it to None to lift the bound",
                     name);
        return -1;
    }
    *bytes = HEARTH_UNBOUNDED;
    return hearthpy_is_given(value) ? hearthpy_count(value, name, bytes) : 0;
}

PyObject *hearthpy_cap_get(size_t bytes)
{
    return hearthpy_limit(bytes == HEARTH_RETAIN_NOTHING ? 0 : bytes);
}

int hearthpy_number(const struct hearthpy_state *state, PyObject *value, const char *name,
                    uint32_t most, uint32_t *number)
{
    size_t size;
    if (hearthpy_count(value, name, &size) != 0)
        return -1;
    *number = (uint32_t)size;
    if (!hearthpy_is_given(value) || (size >= 1 && size <= most))
        return 0;
    (void)hearthpy_fail(state, HEARTH_INVALID, "%s must be from 1 to %u, or None, and is %R", name,
                        most, value);
    return -1;
}

static PyObject *list_of(const char *const *words, uint32_t count)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *word = PyUnicode_FromFormat("\"%s\"", words[i]);
        if (word == NULL || PyList_Append(list, word) != 0)
            Py_CLEAR(list);
        Py_XDECREF(word);
    }
    PyObject *comma = list == NULL ? NULL : PyUnicode_FromString(", ");
    PyObject *text = comma == NULL ? NULL : PyUnicode_Join(comma, list);
    Py_XDECREF(comma);
    Py_XDECREF(list);
    return text;
}

int hearthpy_choice(const struct hearthpy_state *state, PyObject *value, const char *name,
                    const char *const *words, uint32_t count, uint32_t first, uint32_t *index)
{
    *index = 0;
    if (!hearthpy_is_given(value))
        return 0;
    for (uint32_t i = 0; PyUnicode_Check(value) && i < count; i++) {
        if (PyUnicode_CompareWithASCIIString(value, words[i]) == 0) {
            *index = first + i;
            return 0;
        }
    }
    PyObject *list = list_of(words, count);
    if (list != NULL && PyUnicode_Check(value))
        (void)hearthpy_fail(state, HEARTH_INVALID, "%s must be one of %U, and is %R", name, list,
                            value);
    else if (list != NULL)
        PyErr_Format(PyExc_TypeError, "%s must be one of %U, not %R", name, list,
                     (PyObject *)Py_TYPE(value));
    Py_XDECREF(list);
    return -1;
}

int hearthpy_store(const struct hearthpy_state *state, PyObject *value, uint32_t *store)
{
    static const char *const words[] = {"lists", "spans", "plans"};
    return hearthpy_choice(state, value, "store", words, 3, HEARTH_EXEC_STORE_LISTS, store);
}

int hearthpy_reuse_ratio(const struct hearthpy_state *state, PyObject *value, uint32_t *ratio)
{
    return hearthpy_number(state, value, "reuse_ratio", 1024, ratio);
}

/* Objects. */

void hearthpy_object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

Py_hash_t hearthpy_pointer_hash(const void *pointer)
{
    uintptr_t bits = (uintptr_t)pointer;
    /* The low bits are the same in all of them. */
    Py_hash_t hash = (Py_hash_t)((bits >> 4) | (bits << (8 * sizeof bits - 4)));
    return hash == -1 ? -2 : hash;
}

PyObject *hearthpy_no_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyErr_Format(
        PyExc_TypeError,
        "%R cannot be pickled or copied: it is memory of this process; make another one where "
        "it is needed, and send arrays",
        self);
    return NULL;
}

bool hearthpy_service_is_closed(struct hearth_service *service)
{
    /* No leases at all: an answer without an effect. */
    struct hearth_request request = HEARTH_REQUEST_INIT;
    struct hearth_lease none;
    return hearth_service_lease_bulk(service, &request, 0, &none) == HEARTH_CLOSED;
}
