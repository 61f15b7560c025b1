/* SPDX-License-Identifier: Apache-2.0 */
/* Thread tokens: stable in a thread, never used twice. */
#include "concurrent/thread.h"
#include "support.h"

static void note(void *argument)
{
    uint64_t *tokens = argument;
    tokens[0] = hearth__thread_token_peek();
    tokens[1] = hearth__thread_token();
    tokens[2] = hearth__thread_token_peek();
}

Test(thread, a_token_is_assigned_once)
{
    cr_assert_eq(hearth__thread_token_peek(), 0, "none before it is asked for");
    uint64_t token = hearth__thread_token();
    cr_assert_gt(token, HEARTH__OWNER_GONE);
    cr_assert_eq(hearth__thread_token(), token);
    cr_assert_eq(hearth__thread_token_peek(), token);
}

Test(thread, tokens_are_never_reused)
{
    uint64_t last = hearth__thread_token();
    for (unsigned i = 0; i < 200; i++) {
        uint64_t tokens[3] = {9, 9, 9};
        on_thread(note, tokens);
        cr_assert_eq(tokens[0], 0);
        cr_assert_gt(tokens[1], last, "also when the thread's memory is");
        cr_assert_eq(tokens[2], tokens[1]);
        last = tokens[1];
    }
}
