/* SPDX-License-Identifier: Apache-2.0 */
/* Backings by name. */
#include "arena.h"

#include <hearth/backing.h>

#include <string.h>

enum { JEMALLOC, MMAP, KINDS };

static const char *const kinds[KINDS] = {"jemalloc", "mmap"};

/* The kind that a NULL in an arena's options would mean. */
static int default_kind(const struct hearthpy_state *state, uint32_t *kind)
{
    struct hearth_backing *backing = NULL;
    enum hearth_status status = hearth_backing_default(&backing);
    if (status != HEARTH_OK) {
        (void)hearthpy_raise(state, status, "the default backing");
        return -1;
    }
    *kind = strcmp(hearth_backing_name(backing), kinds[JEMALLOC]) == 0 ? JEMALLOC : MMAP;
    return 0;
}

static int parse_huge_pages(PyObject *value, uint32_t *mode)
{
    *mode = HEARTH_HUGE_PAGES_DEFAULT;
    if (value == NULL || value == Py_None)
        return 0;
    if (!PyBool_Check(value)) {
        PyErr_Format(PyExc_TypeError, "huge_pages must be True, False or None, not %R",
                     (PyObject *)Py_TYPE(value));
        return -1;
    }
    *mode = value == Py_True ? HEARTH_HUGE_PAGES_ON : HEARTH_HUGE_PAGES_OFF;
    return 0;
}

bool hearthpy_has_jemalloc(void)
{
#ifdef HEARTHPY_JEMALLOC
    return true;
#else
    return false;
#endif
}

int hearthpy_backing(const struct hearthpy_state *state, PyObject *name, PyObject *huge_pages,
                     struct hearth_backing **backing)
{
    struct hearth_backing_options options = HEARTH_BACKING_OPTIONS_INIT;
    bool named = name != NULL && name != Py_None;
    uint32_t kind;
    *backing = NULL;
    if (hearthpy_choice(state, name, "backing", kinds, KINDS, 0, &kind) != 0 ||
        parse_huge_pages(huge_pages, &options.huge_pages) != 0)
        return -1;
    if (!named && options.huge_pages == HEARTH_HUGE_PAGES_DEFAULT)
        return 0;
    if (!named && default_kind(state, &kind) != 0)
        return -1;
    if (kind == JEMALLOC && !hearthpy_has_jemalloc()) {
        (void)hearthpy_fail(state, HEARTH_INVALID,
                            "backing \"jemalloc\" is not in this build; backings() tells what is");
        return -1;
    }
    enum hearth_status status = kind == JEMALLOC ? hearth_backing_create_jemalloc(&options, backing)
                                                 : hearth_backing_create_mmap(&options, backing);
    if (status == HEARTH_OK)
        return 0;
    (void)hearthpy_raise(state, status, kinds[kind]);
    return -1;
}
