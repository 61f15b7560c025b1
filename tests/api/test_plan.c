/* SPDX-License-Identifier: Apache-2.0 */
/* Plans through the public header: order, roles, last uses, what may be reused in place, references.
 * Not covered: refusals (test_plan_refusals.c), random graphs (unit/test_plan_arrays.c), refused
 * allocations (unit/test_plan_memory.c), running a plan. */
#include "plan_support.h"

static void order(const char *expected)
{
    char text[256] = "";
    for (size_t i = 0; i < hearth_plan_node_count(plan); i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), i == 0 ? "%s" : " %s",
                       hearth_plan_node_name(plan, hearth_plan_node_at(plan, i)));
    cr_assert_str_eq(text, expected);
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_node_at(plan, hearth_plan_node_count(plan)));
}

TestSuite(plan, .init = start, .fini = finish);

Test(plan, of_nothing)
{
    build();
    EXPECT_SIZE(0, hearth_plan_node_count(plan));
    EXPECT_SIZE(0, hearth_plan_output_count(plan));
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_node_at(plan, 0));
}

Test(plan, an_ordered_graph_keeps_its_order)
{
    input("x");
    node("a", "x", "p");
    node("b", "x", "q");
    node("c", "q", "r");
    node("d", "p", "s");
    output("r");
    output("s");
    build();
    order("a b c d");
}

Test(plan, of_the_ready_nodes_the_first_added_comes_next)
{
    node("sum", "p q r", "s");
    node("r", "", "r");
    node("q", "p", "q");
    node("p", "", "p");
    node("free", "", "-");
    build();
    order("r p q sum free");
}

Test(plan, numbers_and_names)
{
    EXPECT_SIZE(0, node("same", "", "a"));
    EXPECT_SIZE(1, node(NULL, "", "b"));
    EXPECT_SIZE(2, node("same", "", "c"));
    output("c");
    output("a");
    build();
    EXPECT_SIZE(3, hearth_plan_node_count(plan));
    cr_assert_str_eq(hearth_plan_node_name(plan, 0), "same");
    cr_assert_str_eq(hearth_plan_node_name(plan, 1), "");
    cr_assert_str_eq(hearth_plan_node_name(plan, 3), "");
    EXPECT_SIZE(2, hearth_plan_output_count(plan));
    cr_assert_str_eq(hearth_plan_output_name(plan, 0), "c");
    cr_assert_str_eq(hearth_plan_output_name(plan, 1), "a");
    cr_assert_null(hearth_plan_output_name(plan, 2));
}

Test(plan, roles_by_slot)
{
    input("x");
    node("mixed", "x", "y - h");
    node("other", "h", "h2 z");
    output("z");
    output("y");
    build();
    cr_assert_eq(hearth_plan_role(plan, 0, 0), HEARTH_ROLE_IO);
    cr_assert_eq(hearth_plan_role(plan, 0, 1), HEARTH_ROLE_NONE);
    cr_assert_eq(hearth_plan_role(plan, 0, 2), HEARTH_ROLE_EXECUTION);
    cr_assert_eq(hearth_plan_role(plan, 0, 3), HEARTH_ROLE_NONE);
    cr_assert_eq(hearth_plan_role(plan, 1, 0), HEARTH_ROLE_EXECUTION);
    cr_assert_eq(hearth_plan_role(plan, 1, 1), HEARTH_ROLE_IO);
    cr_assert_eq(hearth_plan_role(plan, 2, 0), HEARTH_ROLE_NONE);
}

Test(plan, uses_and_last_uses)
{
    input("x");
    input("idle");
    node("a", "x", "p unused y");
    node("b", "p p x y", "q");
    node("c", "p q", "z");
    output("y");
    output("z");
    build();
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_producer(plan, "x"));
    EXPECT_SIZE(2, hearth_plan_use_count(plan, "x"));
    EXPECT_SIZE(1, hearth_plan_last_use(plan, "x"));
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_last_use(plan, "idle"));
    EXPECT_SIZE(0, hearth_plan_use_count(plan, "idle"));
    EXPECT_SIZE(0, hearth_plan_producer(plan, "p"));
    EXPECT_SIZE(2, hearth_plan_use_count(plan, "p"));
    EXPECT_SIZE(2, hearth_plan_last_use(plan, "p"));
    EXPECT_SIZE(0, hearth_plan_last_use(plan, "unused"));
    EXPECT_SIZE(0, hearth_plan_use_count(plan, "unused"));
    EXPECT_SIZE(1, hearth_plan_use_count(plan, "y"));
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_last_use(plan, "y"));
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_last_use(plan, "z"));
}

Test(plan, no_value_has_no_answers)
{
    node("a", "", "p");
    build();
    const char *const names[] = {"q", "", NULL};
    for (size_t i = 0; i < 3; i++) {
        EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_producer(plan, names[i]));
        EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_last_use(plan, names[i]));
        EXPECT_SIZE(0, hearth_plan_use_count(plan, names[i]));
    }
}

Test(plan, no_plan_has_no_answers)
{
    EXPECT_SIZE(0, hearth_plan_node_count(NULL));
    cr_assert_str_eq(hearth_plan_node_name(NULL, 0), "");
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_node_at(NULL, 0));
    EXPECT_SIZE(0, hearth_plan_output_count(NULL));
    cr_assert_null(hearth_plan_output_name(NULL, 0));
    cr_assert_eq(hearth_plan_role(NULL, 0, 0), HEARTH_ROLE_NONE);
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_producer(NULL, "a"));
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_last_use(NULL, "a"));
    EXPECT_SIZE(0, hearth_plan_use_count(NULL, "a"));
    cr_assert_not(hearth_plan_may_reuse(NULL, 0, 0, 0));
    hearth_plan_ref(NULL);
    hearth_plan_unref(NULL);
    hearth_plan_builder_destroy(NULL);
}

Test(plan, reuse_of_the_only_use)
{
    input("x");
    node("a", "x", "p");
    node("b", "p -", "q - y");
    node("c", "q q", "z");
    node("d", "y z", "w");
    output("y");
    build();
    cr_assert_not(hearth_plan_may_reuse(plan, 0, 0, 0), "an initial input stays");
    cr_assert(hearth_plan_may_reuse(plan, 1, 0, 0));
    cr_assert_not(hearth_plan_may_reuse(plan, 1, 0, 1), "the output is not used");
    cr_assert_not(hearth_plan_may_reuse(plan, 1, 0, 2), "the roles differ");
    cr_assert_not(hearth_plan_may_reuse(plan, 1, 0, 3));
    cr_assert_not(hearth_plan_may_reuse(plan, 1, 1, 0), "the input is not used");
    cr_assert_not(hearth_plan_may_reuse(plan, 1, 2, 0));
    cr_assert_not(hearth_plan_may_reuse(plan, 2, 0, 0), "it is in two slots");
    cr_assert_not(hearth_plan_may_reuse(plan, 2, 1, 0), "it is in two slots");
    cr_assert_not(hearth_plan_may_reuse(plan, 3, 0, 0), "a declared output stays");
    cr_assert(hearth_plan_may_reuse(plan, 3, 1, 0));
    cr_assert_not(hearth_plan_may_reuse(plan, 4, 0, 0));
}

/* A residual connection: the other user comes before the sum on every path. */
Test(plan, reuse_after_all_other_users)
{
    input("x");
    node("a", "x", "p");
    node("b", "p", "q");
    node("c", "q", "r");
    node("sum", "p r", "s");
    build();
    cr_assert(hearth_plan_may_reuse(plan, 3, 0, 0));
    cr_assert(hearth_plan_may_reuse(plan, 3, 1, 0));
    cr_assert_not(hearth_plan_may_reuse(plan, 1, 0, 0), "sum comes later");
}

Test(plan, no_reuse_beside_other_users)
{
    input("x");
    node("a", "x", "p");
    node("b", "p", "q");
    node("c", "p", "r");
    node("d", "q r", "s");
    build();
    EXPECT_SIZE(2, hearth_plan_last_use(plan, "p"));
    cr_assert_not(hearth_plan_may_reuse(plan, 1, 0, 0));
    cr_assert_not(hearth_plan_may_reuse(plan, 2, 0, 0), "b may run at the same time");
}

Test(plan, an_initial_input_may_be_a_declared_output)
{
    input("x");
    output("x");
    node("a", "x", "p");
    build();
    EXPECT_SIZE(1, hearth_plan_output_count(plan));
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_producer(plan, "x"));
    EXPECT_SIZE(HEARTH_NODE_NONE, hearth_plan_last_use(plan, "x"));
    EXPECT_SIZE(1, hearth_plan_use_count(plan, "x"));
    cr_assert_not(hearth_plan_may_reuse(plan, 0, 0, 0));
}

Test(plan, a_builder_builds_again)
{
    node("a", "x", "y");
    output("y");
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(builder, &plan, NULL, 0));
    input("x");
    build();
    struct hearth_plan *first = plan;
    node("b", "y", "z");
    build();
    EXPECT_SIZE(1, hearth_plan_node_count(first));
    EXPECT_SIZE(0, hearth_plan_use_count(first, "y"));
    EXPECT_SIZE(2, hearth_plan_node_count(plan));
    EXPECT_SIZE(1, hearth_plan_use_count(plan, "y"));
    hearth_plan_unref(first);
}

Test(plan, outlives_its_builder_and_texts)
{
    char name[] = "a";
    node(name, "", "x");
    output("x");
    name[0] = 'b';
    build();
    hearth_plan_ref(plan);
    hearth_plan_builder_destroy(builder);
    builder = NULL;
    hearth_plan_unref(plan);
    cr_assert_str_eq(hearth_plan_node_name(plan, 0), "a");
    cr_assert_str_eq(hearth_plan_output_name(plan, 0), "x");
}

/* Each plan is the body of the next and lives by that alone: recursion would exhaust the stack. */
Test(plan, bodies_are_referenced_however_deep)
{
    struct hearth_plan *body = NULL;
    for (int i = 0; i < 200000; i++) {
        struct hearth_plan *const bodies[] = {body, body};
        struct hearth_plan_builder *one;
        struct hearth_node added = HEARTH_NODE_INIT;
        added.kernel = idle;
        added.bodies = bodies;
        added.body_count = body == NULL ? 0 : 2;
        EXPECT(HEARTH_OK, hearth_plan_builder_create(&one));
        EXPECT(HEARTH_OK, hearth_plan_builder_add_node(one, &added, NULL));
        EXPECT(HEARTH_OK, hearth_plan_builder_build(one, &plan, NULL, 0));
        hearth_plan_unref(body);
        hearth_plan_builder_destroy(one);
        body = plan;
    }
    EXPECT_SIZE(1, hearth_plan_node_count(plan));
}
