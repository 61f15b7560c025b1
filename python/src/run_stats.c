/* SPDX-License-Identifier: Apache-2.0 */
/* RunStats: the figures of a run. */
#include "runtime.h"

static PyStructSequence_Field fields[] = {
#define FIELD(name, unit, text) {#name, text " (" unit ")"},
    HEARTH_RUN_STATS_MAP(FIELD)
#undef FIELD
        {NULL, NULL},
};

static PyStructSequence_Desc description = {
    .name = "hearth.RunStats",
    .doc = "The figures of one run: one field for each line of HEARTH_RUN_STATS_MAP in session.h.",
    .fields = fields,
    .n_in_sequence = sizeof(fields) / sizeof(fields[0]) - 1,
};

PyTypeObject *hearthpy_run_stats_type(PyObject *module)
{
    return hearthpy_tuple_type(module, &description);
}

PyObject *hearthpy_run_stats(const struct hearthpy_state *state,
                             const struct hearth_run_stats *stats)
{
    PyObject *made = PyStructSequence_New(state->run_stats);
    Py_ssize_t at = 0;
    if (made == NULL)
        return NULL;
#define SET(name, unit, text)                                                                      \
    PyStructSequence_SetItem(made, at++, PyLong_FromUnsignedLongLong(stats->name));
    HEARTH_RUN_STATS_MAP(SET)
#undef SET
    if (PyErr_Occurred() != NULL)
        Py_CLEAR(made);
    return made;
}
