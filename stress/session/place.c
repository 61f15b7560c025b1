/* SPDX-License-Identifier: Apache-2.0 */
/* A driver's contexts: of all kinds, from their creation to what they hold at the end. */
#include "driver.h"
#include "inputs.h"

#include <hearth/context.h>
#include <hearth/exec.h>
#include <hearth/service.h>
#include <hearth/status.h>

#include <stdlib.h>
#include <string.h>

static void see_event(void *user, const struct hearth_event *event)
{
    struct place_events *events = user;
    if (event->kind == HEARTH_EVENT_NODE_BEGIN)
        (void)atomic_fetch_add_explicit(&events->begins, 1, memory_order_relaxed);
    else if (event->kind == HEARTH_EVENT_NODE_END)
        (void)atomic_fetch_add_explicit(&events->ends, 1, memory_order_relaxed);
    if (event->size != sizeof *event || event->execution_peak_bytes >> 40 != 0 ||
        event->io_peak_bytes >> 40 != 0 || event->execution_live_bytes >> 40 != 0 ||
        event->io_live_bytes >> 40 != 0)
        stress_violation("an event has impossible figures");
}

void place_open(struct driver *self, struct place *place)
{
    struct hearth_context_options options = HEARTH_CONTEXT_OPTIONS_INIT;
    place->graph = self->world->graphs[stress_next(&self->random) % WORLD_GRAPHS];
    place->kind = (enum place_kind)(stress_next(&self->random) % PLACE_KINDS);
    place->handler = (struct hearth_event_handler){see_event, &place->events};
    options.plan = place->graph->plan;
    if (place->kind == PLACE_EVENTS)
        options.events = &place->handler;
    if (place->kind == PLACE_FOREIGN)
        options.flags = HEARTH_CONTEXT_FOREIGN;
    if (place->kind == PLACE_OWN) {
        stress_must(hearth_exec_create(NULL, &place->own), "arena");
        options.execution = hearth_exec_allocator(place->own);
        options.arena = hearth_service_io(self->world->service);
    }
    stress_must(hearth_context_create(&options, &place->context), "context");
    for (uint32_t i = 0; i < GRAPH_DECLARED_MOST; i++) {
        place->memory[i] = malloc(VALUE_BYTES_MOST);
        if (place->memory[i] == NULL)
            abort();
    }
}

void place_free(struct place *place)
{
    for (uint32_t i = 0; i < GRAPH_DECLARED_MOST; i++)
        free(place->memory[i]);
}

/* Its arena is the driver's own, and ends with it. */
void place_leave(struct driver *self, struct place *place)
{
    if (place->kind == PLACE_OWN || stress_next(&self->random) % 2 == 0)
        outputs_clear(place);
    bool bound = false;
    for (uint32_t i = 0; i < GRAPH_DECLARED_MOST; i++)
        bound |= place->bound[i] != NULL;
    if (bound) /* a bound output is not among the values before the run */
        outputs_clear(place);
    if (place->own == NULL)
        return;
    enum hearth_status status = hearth_exec_destroy(place->own);
    if (status != HEARTH_OK)
        stress_violation("the arena of a cleared context was answered %s",
                         hearth_status_name(status));
}

void place_renew(struct driver *self, struct place *place)
{
    place_leave(self, place);
    stress_must(hearth_context_destroy(place->context), "the end of a context");
    place_free(place);
    memset(place, 0, sizeof *place);
    place_open(self, place);
}

void place_count(const struct place *place, size_t *bytes, size_t *capacity)
{
    const char *names[GRAPH_VALUES_MOST];
    size_t count = 0;
    stress_must(hearth_context_names(place->context, names, GRAPH_VALUES_MOST, &count), "names");
    for (size_t i = 0; i < count; i++) {
        const struct hearth_tensor *tensor = NULL;
        stress_must(hearth_context_get(place->context, names[i], &tensor), "get");
        if (hearth_tensor_allocator(tensor) == NULL)
            continue;
        *bytes += hearth_tensor_size(tensor);
        *capacity += hearth_tensor_capacity(tensor);
    }
}
