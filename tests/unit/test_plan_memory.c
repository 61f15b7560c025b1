/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of names, builders and plans refused in turn: the answer is NO_MEMORY, nothing
 * has changed, and nothing is left behind. The program is linked with --wrap, so that the library's
 * calls of the allocator come by here; those of Criterion, which is a shared library, do not.
 */
#include "runtime/names.h"
#include "support.h"

#include <hearth/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);

static size_t fail_at; /* 0: never; counts down to the one that is refused */
static long live;

static bool refused(void)
{
    return fail_at != 0 && --fail_at == 0;
}

static void *count(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return refused() ? NULL : count(__real_malloc(bytes));
}

void *__wrap_calloc(size_t number, size_t bytes)
{
    return refused() ? NULL : count(__real_calloc(number, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (refused())
        return NULL;
    return memory == NULL ? count(__real_realloc(NULL, bytes)) : __real_realloc(memory, bytes);
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

static enum hearth_status idle(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_OK;
}

static void name_of(size_t number, char name[16])
{
    (void)snprintf(name, 16, "v%zu", number);
}

Test(plan_memory, names)
{
    long before = live;
    for (size_t at = 1; at < 100; at++) {
        struct hearth__names names = {0};
        for (uint32_t i = 0; i < 40; i++) {
            char name[16];
            uint32_t number = HEARTH__NO_NAME;
            name_of(i, name);
            fail_at = at;
            enum hearth_status status = hearth__names_add(&names, name, &number);
            fail_at = 0;
            if (status != HEARTH_OK) {
                cr_assert_eq(status, HEARTH_NO_MEMORY);
                assert_size(number, HEARTH__NO_NAME);
                assert_size(names.count, i);
                assert_size(hearth__names_find(&names, name), HEARTH__NO_NAME);
                assert_ok(hearth__names_add(&names, name, &number));
            }
            assert_size(number, i);
        }
        for (uint32_t i = 0; i < 40; i++) {
            char name[16];
            name_of(i, name);
            assert_size(hearth__names_find(&names, name), i);
        }
        hearth__names_fini(&names);
        assert_size((size_t)live, (size_t)before);
    }
}

/* Sends the same call again without refusals when it was refused one: it must not have done
 * anything. */
#define TWICE(at, call)                                                                            \
    do {                                                                                           \
        fail_at = (at);                                                                            \
        enum hearth_status first_ = (call);                                                        \
        refusals += fail_at == 0;                                                                  \
        cr_assert_eq(first_, fail_at == 0 ? HEARTH_NO_MEMORY : HEARTH_OK);                         \
        fail_at = 0;                                                                               \
        if (first_ != HEARTH_OK)                                                                   \
            assert_ok(call);                                                                       \
    } while (0)

static struct hearth_plan *make(size_t at, struct hearth_plan *body, size_t *refused_calls)
{
    enum { NODES = 20 };
    size_t refusals = 0;
    struct hearth_plan_builder *builder = NULL;
    struct hearth_plan *plan = NULL;
    char message[64] = "";
    TWICE(at, hearth_plan_builder_create(&builder));
    TWICE(at, hearth_plan_builder_add_input(builder, "v0"));
    TWICE(at, hearth_plan_builder_add_output(builder, "v1"));
    for (size_t i = 0; i < NODES; i++) {
        char texts[2][16];
        const char *const input = texts[0];
        const char *const output = texts[1];
        size_t index = SIZE_MAX;
        struct hearth_node node = HEARTH_NODE_INIT;
        name_of(i, texts[0]);
        name_of(i + 1, texts[1]);
        node.name = "node";
        node.inputs = &input;
        node.input_count = 1;
        node.outputs = &output;
        node.output_count = 1;
        node.kernel = idle;
        node.bodies = &body;
        node.body_count = body != NULL;
        TWICE(at, hearth_plan_builder_add_node(builder, &node, &index));
        assert_size(index, i);
    }
    fail_at = at;
    enum hearth_status status = hearth_plan_builder_build(builder, &plan, message, sizeof message);
    refusals += fail_at == 0;
    cr_assert_eq(status, fail_at == 0 ? HEARTH_NO_MEMORY : HEARTH_OK);
    fail_at = 0;
    if (status != HEARTH_OK) {
        cr_assert_null(plan);
        cr_assert_str_eq(message, "no memory for the plan");
        assert_ok(hearth_plan_builder_build(builder, &plan, message, sizeof message));
        cr_assert_str_eq(message, "");
    }
    hearth_plan_builder_destroy(builder);
    assert_size(hearth_plan_node_count(plan), NODES);
    assert_size(hearth_plan_last_use(plan, "v1"), HEARTH_NODE_NONE);
    assert_size(hearth_plan_last_use(plan, "v2"), 2);
    *refused_calls = refusals;
    return plan;
}

Test(plan_memory, plans)
{
    long before = live;
    size_t none;
    struct hearth_plan *body = make(0x10000, NULL, &none);
    assert_size(none, 0);
    long with_body = live;
    cr_assert_gt(with_body, before);
    size_t refusals = 1;
    for (size_t at = 1; refusals != 0; at++) {
        hearth_plan_unref(make(at, body, &refusals));
        assert_size((size_t)live, (size_t)with_body);
        cr_assert(refusals != 0 || at > 20);
    }
    hearth_plan_unref(body);
    assert_size((size_t)live, (size_t)before);
}
