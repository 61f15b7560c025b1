/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include "bay.h"
#include "kernel.h"

#include <hearth/context.h>
#include <hearth/exec.h>
#include <hearth/io.h>
#include <hearth/service.h>
#include <hearth/session.h>
#include <hearth/status.h>

#include <string.h>

/* Whether the call worked; it may be refused only where the world is tight. */
static bool worked(const struct driver *self, enum hearth_status status, const char *what)
{
    if (status == HEARTH_OK)
        return true;
    if (status != HEARTH_NO_MEMORY || !self->world->tight)
        stress_violation("%s was answered %s", what, hearth_status_name(status));
    return false;
}

static struct hearth_allocator *io_of(const struct driver *self)
{
    return hearth_io_allocator(hearth_service_io(self->world->service));
}

static struct hearth_allocator *exec_of(const struct driver *self)
{
    struct hearth_exec *exec = NULL;
    stress_must(hearth_service_exec(self->world->service, &exec), "attach");
    return hearth_exec_allocator(exec);
}

static bool put_input(struct driver *self, struct place *place, uint32_t value, bool io)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    size_t bytes = graph_bytes(&self->run, place->graph, value);
    struct hearth_shape shape = stamp_shape(bytes);
    if (!worked(self,
                hearth_tensor_make(io ? io_of(self) : exec_of(self), HEARTH_DTYPE_UINT64, &shape, 0,
                                   &tensor),
                "an input"))
        return false;
    stamp_fill(hearth_tensor_data(&tensor), bytes, self->run.stamps[value]);
    bool put =
        worked(self, hearth_context_put(place->context, place->graph->values[value].name, &tensor),
               "a put");
    (void)hearth_tensor_reset(&tensor);
    return put;
}

static bool stage_input(struct driver *self, struct place *place, uint32_t value, bool copied)
{
    struct hearth_tensor *tensor = NULL;
    size_t bytes = graph_bytes(&self->run, place->graph, value);
    struct hearth_shape shape = stamp_shape(bytes);
    if (!worked(self,
                hearth_context_stage(place->context, place->graph->values[value].name,
                                     HEARTH_DTYPE_UINT64, &shape,
                                     copied ? self->inputs[value] : NULL, bytes, &tensor),
                "a staged input"))
        return false;
    if (!copied)
        stamp_fill(hearth_tensor_data(tensor), bytes, self->run.stamps[value]);
    return true;
}

static bool give_input(struct driver *self, struct place *place, uint32_t value)
{
    uint64_t draw = stress_next(&self->random);
    size_t bytes = graph_bytes(&self->run, place->graph, value);
    struct hearth_shape shape = stamp_shape(bytes);
    stamp_fill(self->inputs[value], bytes, self->run.stamps[value]);
    if (draw % 8 < 3)
        return worked(self,
                      hearth_context_borrow(place->context, place->graph->values[value].name,
                                            self->inputs[value], bytes, HEARTH_DTYPE_UINT64,
                                            &shape),
                      "a borrow");
    if (draw % 8 < 6)
        return stage_input(self, place, value, draw % 2 == 0);
    return put_input(self, place, value, draw % 2 == 0);
}

static bool bind_output(struct driver *self, struct place *place, uint32_t i, bool borrowed)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_shape shape = stamp_shape(VALUE_BYTES_MOST);
    enum hearth_status status;
    if (borrowed)
        status = hearth_tensor_borrow(place->memory[i], VALUE_BYTES_MOST, HEARTH_DTYPE_UINT64,
                                      &shape, &tensor);
    else
        status = hearth_tensor_make(io_of(self), HEARTH_DTYPE_UINT64, &shape, 0, &tensor);
    if (!worked(self, status, "a tensor to bind"))
        return false;
    const void *data = hearth_tensor_data(&tensor);
    const char *name = place->graph->values[place->graph->declared[i]].name;
    bool bound = worked(self, hearth_context_bind_output(place->context, name, &tensor),
                        "binding an output");
    place->bound[i] = bound ? data : NULL;
    (void)hearth_tensor_reset(&tensor);
    return bound;
}

bool inputs_give(struct driver *self, struct place *place)
{
    const struct graph *graph = place->graph;
    struct hearth_shape one = stamp_shape(sizeof(uint64_t));
    self->run_address = &self->run;
    if (!worked(self,
                hearth_context_borrow(place->context, graph->values[0].name, &self->run_address,
                                      sizeof(struct run *), HEARTH_DTYPE_UINT64, &one),
                "borrowing the run"))
        return false;
    for (uint32_t value = 1; value < graph->initial_count; value++)
        if (!give_input(self, place, value))
            return false;
    for (uint32_t i = 0; i < graph->declared_count; i++) {
        const struct graph_value *value = &graph->values[graph->declared[i]];
        uint64_t draw = stress_next(&self->random);
        if (place->bound[i] == NULL && value->bindable && !value->loop && draw % 12 == 0 &&
            !bind_output(self, place, i, draw % 24 == 0))
            return false;
    }
    return true;
}

void outputs_check(const struct driver *self, struct place *place)
{
    const struct graph *graph = place->graph;
    for (uint32_t i = 0; i < graph->declared_count; i++) {
        const struct graph_value *value = &graph->values[graph->declared[i]];
        const struct hearth_tensor *tensor = NULL;
        place->stamps[i] = 0;
        if (hearth_context_get(place->context, value->name, &tensor) != HEARTH_OK) {
            stress_violation("there is no output %s after the run", value->name);
            continue;
        }
        place->stamps[i] = self->run.stamps[graph->declared[i]];
        size_t bytes = hearth_tensor_size(tensor);
        if (bytes < sizeof(uint64_t) ||
            (!value->loop && bytes != graph_bytes(&self->run, graph, graph->declared[i])))
            stress_violation("output %s has %zu bytes", value->name, bytes);
        else if (!stamp_filled(hearth_tensor_data(tensor), bytes, place->stamps[i]))
            stress_violation("output %s is not what a serial run makes", value->name);
        if (place->bound[i] != NULL && hearth_tensor_data(tensor) != place->bound[i])
            stress_violation("output %s is not where it was bound", value->name);
        /* Borrowed from memory that the next run writes to. */
        if (hearth_tensor_owner(tensor) == HEARTH_OWNER_BORROWED)
            place->stamps[i] = 0;
    }
}

void outputs_check_left(const struct place *place)
{
    for (uint32_t i = 0; i < place->graph->declared_count; i++) {
        const char *name = place->graph->values[place->graph->declared[i]].name;
        const struct hearth_tensor *tensor = NULL;
        if (place->stamps[i] == 0)
            continue;
        if (hearth_context_get(place->context, name, &tensor) != HEARTH_OK ||
            !stamp_filled(hearth_tensor_data(tensor), hearth_tensor_size(tensor), place->stamps[i]))
            stress_violation("output %s did not stay what it was between two runs", name);
    }
}

static void keep_lease(struct driver *self, struct place *place, uint32_t i,
                       struct hearth_lease lease)
{
    struct bay_lease kept = {lease, self->run.stamps[place->graph->declared[i]], self->world};
    if (place->bound[i] != NULL && place->memory[i] != place->bound[i] &&
        hearth_lease_data(lease) != place->bound[i])
        stress_violation("a bound output was exported as something else");
    place->bound[i] = NULL;
    place->stamps[i] = 0;
    self->leases++;
    bay_put(&kept);
}

/* Storage of another thread's arena can stay where it is only here. */
static bool may_not_own(const struct place *place, enum hearth_status status)
{
    return place->kind == PLACE_FOREIGN && status == HEARTH_NOT_OWNER;
}

static void export_one(struct driver *self, struct place *place, uint32_t i, bool look)
{
    const char *name = place->graph->values[place->graph->declared[i]].name;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    enum hearth_status status =
        hearth_context_export(place->context, name, &lease, look ? &tensor : NULL);
    if (may_not_own(place, status) || !worked(self, status, "an export"))
        return;
    if (look && (hearth_tensor_data(&tensor) != hearth_lease_data(lease) ||
                 hearth_tensor_size(&tensor) != hearth_lease_size(lease)))
        stress_violation("an export shows another tensor");
    (void)hearth_tensor_reset(&tensor);
    keep_lease(self, place, i, lease);
}

static void take_one(struct driver *self, struct place *place, uint32_t i)
{
    const char *name = place->graph->values[place->graph->declared[i]].name;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    if (!worked(self, hearth_context_take(place->context, name, &tensor), "a take"))
        return;
    bool handle = hearth_tensor_owner(&tensor) == HEARTH_OWNER_HANDLE;
    if (!handle)
        place->bound[i] = NULL;
    place->stamps[i] = 0;
    if (handle && place->kind != PLACE_FOREIGN &&
        worked(self, hearth_tensor_export(&tensor, hearth_service_io(self->world->service), &lease),
               "the export of a tensor"))
        keep_lease(self, place, i, lease);
    place->bound[i] = NULL;
    (void)hearth_tensor_reset(&tensor);
}

void outputs_clear(struct place *place)
{
    stress_must(hearth_context_clear(place->context), "clear");
    memset(place->bound, 0, sizeof place->bound);
    memset(place->stamps, 0, sizeof place->stamps);
}

/* Whether the outputs are dealt with. */
static bool export_all(struct driver *self, struct place *place)
{
    struct hearth_lease leases[GRAPH_DECLARED_MOST];
    uint32_t count = place->graph->declared_count;
    enum hearth_status status =
        hearth_session_export_outputs(self->run.session, place->context, leases, count);
    if (may_not_own(place, status) || !worked(self, status, "exporting all")) {
        outputs_clear(place);
        return true;
    }
    for (uint32_t i = 0; i < count; i++)
        keep_lease(self, place, i, leases[i]);
    return true;
}

void outputs_use(struct driver *self, struct place *place)
{
    uint64_t draw = stress_next(&self->random);
    if (draw % 4 == 0 && export_all(self, place))
        return;
    for (uint32_t i = 0; i < place->graph->declared_count; i++) {
        const struct graph_value *value = &place->graph->values[place->graph->declared[i]];
        draw = stress_next(&self->random);
        if (draw % 8 < 3) {
            export_one(self, place, i, draw % 2 == 0);
        } else if (draw % 8 == 3) {
            take_one(self, place, i);
        } else if (draw % 8 == 4 && place->bound[i] == NULL) {
            (void)worked(self, hearth_context_remove(place->context, value->name), "a remove");
            place->stamps[i] = 0;
        }
    }
}
