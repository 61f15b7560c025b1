/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of run_support.h: the allocator that counts, the session on a service, values. */
#include "run_support.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

static struct counting *counting_of(struct hearth_allocator *self)
{
    return (struct counting *)(void *)self;
}

static enum hearth_status counting_alloc(struct hearth_allocator *self,
                                         const struct hearth_request *request,
                                         struct hearth_buf **buf)
{
    struct counting *counting = counting_of(self);
    if (counting->fail_at && --counting->fail_at == 0)
        return HEARTH_NO_MEMORY;
    enum hearth_status status = counting->inner->ops->alloc(counting->inner, request, buf);
    counting->allocs += status == HEARTH_OK;
    return status;
}

static enum hearth_status counting_free(struct hearth_allocator *self, struct hearth_buf *buf)
{
    enum hearth_status status = hearth_free(counting_of(self)->inner, buf);
    counting_of(self)->frees += status == HEARTH_OK;
    return status;
}

static enum hearth_status counting_free_exact(struct hearth_allocator *self, struct hearth_buf *buf,
                                              uint64_t generation)
{
    struct hearth_allocator *inner = counting_of(self)->inner;
    enum hearth_status status = inner->ops->free_exact(inner, buf, generation);
    counting_of(self)->frees += status == HEARTH_OK;
    return status;
}

static enum hearth_status counting_resize(struct hearth_allocator *self, struct hearth_buf *buf,
                                          size_t size, bool keep)
{
    return hearth_resize(counting_of(self)->inner, buf, size, keep);
}

static size_t counting_live(const struct hearth_allocator *self)
{
    return hearth_live_bytes(((const struct counting *)(const void *)self)->inner);
}

static size_t counting_peak(const struct hearth_allocator *self)
{
    return hearth_peak_bytes(((const struct counting *)(const void *)self)->inner);
}

static enum hearth_status counting_reset_peak(struct hearth_allocator *self)
{
    return hearth_reset_peak(counting_of(self)->inner);
}

static enum hearth_status counting_release(struct hearth_allocator *self, struct hearth_buf *buf,
                                           uint64_t generation)
{
    struct hearth_allocator *inner = counting_of(self)->inner;
    return inner->ops->release ? inner->ops->release(inner, buf, generation) : HEARTH_FOREIGN;
}

struct hearth_allocator *counting_open(struct counting *counting, struct hearth_allocator *inner)
{
    *counting = (struct counting){.inner = inner,
                                  .ops = {.size = sizeof(struct hearth_allocator_ops),
                                          .kind = "counting",
                                          .alloc = counting_alloc,
                                          .free = counting_free,
                                          .free_exact = counting_free_exact,
                                          .resize = counting_resize,
                                          .live_bytes = counting_live,
                                          .peak_bytes = counting_peak,
                                          .reset_peak = counting_reset_peak,
                                          .release = counting_release}};
    counting->allocator.ops = &counting->ops;
    return &counting->allocator;
}

struct hearth_context *context_of(struct hearth_plan *plan, struct hearth_context_options options)
{
    struct hearth_context *context = NULL;
    options.plan = plan;
    EXPECT(HEARTH_OK, hearth_context_create(&options, &context));
    cr_assert_not_null(context);
    return context;
}

struct hearth_session *session_of(struct hearth_plan *plan, struct hearth_service *service)
{
    struct hearth_session_options options = HEARTH_SESSION_OPTIONS_INIT;
    struct hearth_session *session = NULL;
    options.plan = plan;
    options.service = service;
    EXPECT(HEARTH_OK, hearth_session_create(&options, &session));
    cr_assert_not_null(session);
    return session;
}

void run_open_with(struct run *run, struct hearth_plan *plan, struct hearth_service_options service,
                   struct hearth_context_options context)
{
    service.age_ms = HEARTH_AGE_NEVER;
    service.age_runs = HEARTH_AGE_NEVER;
    rig_open(&run->rig, service);
    log_open(&run->log);
    if (context.events == NULL)
        context.events = &run->log.handler;
    run->plan = plan;
    run->context = context_of(plan, context);
    run->session = session_of(plan, run->rig.service);
}

void run_open(struct run *run, struct hearth_plan *plan)
{
    run_open_with(run, plan, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER),
                  CONTEXT_OPTIONS(.flags = 0));
}

void run_close(struct run *run)
{
    EXPECT(HEARTH_OK, hearth_context_destroy(run->context));
    EXPECT(HEARTH_OK, hearth_session_destroy(run->session));
    hearth_plan_unref(run->plan);
    EXPECT_SIZE(0, hearth_service_live_bytes(run->rig.service));
    rig_identity(&run->rig);
    hearth_service_unref(run->rig.service);
    /* Threads of a pool may be about to find that there is nothing left to do. */
    for (unsigned i = 0; i < 300 && bank_bytes(&run->rig.bank); i++)
        io_pause(10);
    bank_close(&run->rig.bank);
}

struct hearth_run_stats run_expecting(struct run *run, enum hearth_status expected)
{
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    enum hearth_status status = hearth_session_run(run->session, run->context, &stats);
    cr_assert_eq(status, expected, "the run answers %s instead of %s: %s",
                 hearth_status_name(status), hearth_status_name(expected),
                 hearth_session_error(run->context));
    return stats;
}

struct hearth_run_stats run_once(struct run *run)
{
    return run_expecting(run, HEARTH_OK);
}

void lend_input(struct hearth_context *context, const char *name, const uint32_t *data,
                size_t count)
{
    struct hearth_shape shape = shape_of(count);
    EXPECT(HEARTH_OK, hearth_context_borrow(context, name, data, count * sizeof *data,
                                            HEARTH_DTYPE_UINT32, &shape));
}

void lend_ramp(struct hearth_context *context, const char *name)
{
    lend_input(context, name, ramp, ELEMENTS);
}

const struct hearth_tensor *value_of(const struct hearth_context *context, const char *name)
{
    const struct hearth_tensor *tensor = NULL;
    enum hearth_status status = hearth_context_get(context, name, &tensor);
    cr_assert_eq(status, HEARTH_OK, "%s: %s", name, hearth_status_name(status));
    cr_assert_not_null(tensor);
    return tensor;
}

bool has_value(const struct hearth_context *context, const char *name)
{
    const struct hearth_tensor *tensor = NULL;
    enum hearth_status status = hearth_context_get(context, name, &tensor);
    cr_assert_eq(tensor != NULL, status == HEARTH_OK);
    return status == HEARTH_OK;
}

void make_u32(struct hearth_allocator *allocator, size_t count, uint32_t fill,
              struct hearth_tensor *tensor)
{
    struct hearth_shape shape = shape_of(count);
    EXPECT(HEARTH_OK, hearth_tensor_make(allocator, HEARTH_DTYPE_UINT32, &shape, 0, tensor));
    uint32_t *data = hearth_tensor_data(tensor);
    for (size_t i = 0; i < count; i++)
        data[i] = fill;
}

void expect_u32(const void *data, size_t bytes, size_t count, uint32_t first, uint32_t step)
{
    EXPECT_SIZE(count * sizeof(uint32_t), bytes);
    const uint32_t *values = data;
    for (size_t i = 0; i < count; i++) {
        uint32_t wanted = first + (uint32_t)i * step;
        cr_assert_eq(values[i], wanted, "element %zu is %u instead of %u", i, values[i], wanted);
    }
}

void expect_value(const struct hearth_context *context, const char *name, size_t count,
                  uint32_t first, uint32_t step)
{
    const struct hearth_tensor *tensor = value_of(context, name);
    cr_assert_eq(hearth_tensor_dtype(tensor), HEARTH_DTYPE_UINT32);
    expect_u32(hearth_tensor_data(tensor), hearth_tensor_size(tensor), count, first, step);
}

void expect_names(const struct hearth_context *context, const char *names)
{
    char text[512];
    size_t wanted = 0;
    snprintf(text, sizeof text, "%s", names);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        cr_assert(has_value(context, word), "%s has no value", word);
        wanted++;
    }
    EXPECT_SIZE(wanted, hearth_context_count(context));
}

struct hearth_lease export_of(struct hearth_context *context, const char *name)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_context_export(context, name, &lease, NULL));
    cr_assert(hearth_lease_valid(lease));
    cr_assert(!has_value(context, name));
    return lease;
}

size_t heap_bytes(void)
{
    return mallinfo2().uordblks;
}

struct op layer_ops[LAYER_NODES];

struct hearth_plan *layers(void)
{
    static char names[LAYER_NODES][3][24];
    struct row rows[LAYER_NODES];
    for (unsigned i = 0; i < LAYER_NODES; i++) {
        unsigned layer = i / LAYER_WIDTH, left = i % LAYER_WIDTH, right = (i + 1) % LAYER_WIDTH;
        snprintf(names[i][0], sizeof names[i][0], "node%u", i);
        if (layer == 0)
            snprintf(names[i][1], sizeof names[i][1], "x");
        else
            snprintf(names[i][1], sizeof names[i][1], "v%u v%u", (layer - 1) * LAYER_WIDTH + left,
                     (layer - 1) * LAYER_WIDTH + right);
        snprintf(names[i][2], sizeof names[i][2], "v%u", i);
        layer_ops[i].temporary = 64 * i;
        rows[i] = (struct row)OP(names[i][0], names[i][1], names[i][2], &layer_ops[i]);
    }
    return plan_of("x", "v12 v13 v14 v15 v5", rows, LAYER_NODES);
}

/* Every value of layer n is the same function of x: f(x) = 2 f(x) + 1, from x + 1. */
void expect_layers(struct run *run)
{
    for (unsigned i = 12; i < 16; i++) {
        char name[8];
        snprintf(name, sizeof name, "v%u", i);
        expect_value(run->context, name, ELEMENTS, 15, 8);
    }
    expect_value(run->context, "v5", ELEMENTS, 3, 2);
    EXPECT_SIZE(6, hearth_context_count(run->context));
    EXPECT_SIZE(5 * sizeof ramp, hearth_io_live_bytes(run->rig.io));
    EXPECT_SIZE(5 * sizeof ramp, hearth_service_live_bytes(run->rig.service));
}
