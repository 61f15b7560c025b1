/* SPDX-License-Identifier: Apache-2.0 */
/* What a builder refuses, and the line that says why. Not covered: refused allocations
 * (unit/test_plan_memory.c), more nodes than 32 bits can number. */
#include "plan_support.h"

static void refuse(const char *expected)
{
    struct hearth_plan *untouched = (struct hearth_plan *)&builder;
    memset(message, 'x', sizeof message);
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(builder, &untouched, message, sizeof message));
    cr_assert_str_eq(message, expected);
    cr_assert_eq(untouched, (struct hearth_plan *)&builder);
}

TestSuite(plan_refusals, .init = start, .fini = finish);

Test(plan_refusals, two_producers)
{
    node("a", "", "p x");
    node("b", "p", "q x");
    refuse("value \"x\" has two producers: node \"a\" and node \"b\"");
}

Test(plan_refusals, an_initial_input_is_a_producer)
{
    node("a", "", "x");
    input("x");
    refuse("value \"x\" has two producers: the initial input and node \"a\"");
}

Test(plan_refusals, two_slots_of_one_node)
{
    node("a", "", "x y x");
    refuse("value \"x\" has two producers: two output slots of node \"a\"");
}

Test(plan_refusals, nodes_without_a_name_have_a_number)
{
    node(NULL, "", "x");
    node("", "", "x");
    refuse("value \"x\" has two producers: node 0 and node 1");
}

Test(plan_refusals, missing_input)
{
    input("x");
    node("a", "x - y", "z");
    refuse("node \"a\" needs value \"y\", which nothing produces: add a node or an initial input "
           "that does");
}

Test(plan_refusals, declared_output_without_producer)
{
    node("a", "", "x");
    output("x");
    output("y");
    refuse(
        "the declared outputs have value \"y\", which nothing produces: add a node or an initial "
        "input that does");
}

Test(plan_refusals, own_output_as_input)
{
    node("a", "y", "x y");
    refuse("cycle: node \"a\" needs value \"y\", which is its own output");
}

Test(plan_refusals, cycle)
{
    input("x");
    node("before", "x", "p");
    node("after", "r", "s");
    node("a", "p r", "q");
    node("b", "q", "r");
    refuse("cycle: node \"b\" needs value \"q\", which is made from an output of the node");
}

Test(plan_refusals, messages_are_cut)
{
    node("a", "value", "z");
    char expected[] = "node \"a\" needs value";
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(builder, &plan, message, sizeof expected));
    cr_assert_str_eq(message, expected);
    message[0] = 'x';
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(builder, &plan, message, 1));
    cr_assert_str_eq(message, "");
    message[0] = 'x';
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(builder, &plan, message, 0));
    cr_assert_eq(message[0], 'x');
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(builder, &plan, NULL, 100));
}

Test(plan_refusals, messages_are_one_line_of_whole_characters)
{
    node("a\nb", "\xE2\x82\xAC", "z");
    char expected[] = "node \"a?b\" needs value \"";
    for (size_t more = 0; more < 3; more++) {
        EXPECT(HEARTH_INVALID,
               hearth_plan_builder_build(builder, &plan, message, sizeof expected + more));
        cr_assert_str_eq(message, expected);
    }
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(builder, &plan, message, sizeof expected + 3));
    cr_assert_str_eq(message, "node \"a?b\" needs value \"\xE2\x82\xAC");
}

Test(plan_refusals, impossible_arguments)
{
    EXPECT(HEARTH_INVALID, hearth_plan_builder_create(NULL));
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_input(NULL, "x"));
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_input(builder, NULL));
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_input(builder, ""));
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_output(NULL, "x"));
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_output(builder, NULL));
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_output(builder, ""));
    input("x");
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_input(builder, "x"));
    output("x");
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_output(builder, "x"));
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(NULL, &plan, message, sizeof message));
    cr_assert_neq(message[0], '\0');
    EXPECT(HEARTH_INVALID, hearth_plan_builder_build(builder, NULL, message, sizeof message));
    cr_assert_neq(message[0], '\0');
}

Test(plan_refusals, impossible_nodes)
{
    const char *const names[] = {NULL};
    struct hearth_plan *const bodies[] = {NULL};
    struct hearth_node good = HEARTH_NODE_INIT;
    good.kernel = idle;
    size_t index = 77;
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_node(NULL, &good, &index));
    EXPECT(HEARTH_INVALID, hearth_plan_builder_add_node(builder, NULL, &index));
    for (int i = 0; i < 9; i++) {
        struct hearth_node bad = good;
        bad.inputs = names;
        bad.outputs = names;
        bad.kernel = i == 0 ? NULL : idle;
        bad.size += i == 1;
        bad.size -= i == 2;
        bad.flags = i == 3 ? 2 : HEARTH_NODE_SLOT_AWARE;
        bad.reserved = i == 4;
        bad.input_count = i == 5;
        bad.inputs = i == 5 ? NULL : names;
        bad.output_count = i == 6;
        bad.outputs = i == 6 ? NULL : names;
        bad.body_count = i >= 7;
        bad.bodies = i == 7 ? NULL : bodies;
        EXPECT(HEARTH_INVALID, hearth_plan_builder_add_node(builder, &bad, &index));
    }
    EXPECT_SIZE(77, index);
    good.inputs = names;
    good.input_count = 1;
    good.outputs = names;
    good.output_count = 1;
    good.flags = HEARTH_NODE_SLOT_AWARE;
    EXPECT(HEARTH_OK, hearth_plan_builder_add_node(builder, &good, NULL));
    build();
    EXPECT_SIZE(1, hearth_plan_node_count(plan));
    cr_assert_eq(hearth_plan_role(plan, 0, 0), HEARTH_ROLE_NONE);
}
