/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's section: gate, mark and look; re-entry. Visits are not built yet. */
#include "concurrent/section.h"
#include "support.h"

#define MINE (HEARTH__TOKEN_FIRST + 1)
#define ANOTHERS (HEARTH__TOKEN_FIRST + 2)

static struct hearth__section section;

static void start(void)
{
    hearth__section_init(&section, MINE);
}

Test(section, the_plain_path_opens_to_one_token, .init = start)
{
    cr_assert_not(hearth__section_busy(&section));
    cr_assert_not(hearth__section_enter_plain(&section, ANOTHERS));
    cr_assert_not(hearth__section_enter_plain(&section, 0), "a thread without a token");
    cr_assert_not(hearth__section_busy(&section), "a refusal leaves no mark");
    cr_assert(hearth__section_enter_plain(&section, MINE));
    cr_assert(hearth__section_busy(&section));
    hearth__section_leave(&section, MINE);
    cr_assert_not(hearth__section_busy(&section));
    cr_assert(hearth__section_enter_plain(&section, MINE));
}

Test(section, re_entry_is_refused, .init = start)
{
    cr_assert(hearth__section_enter_plain(&section, MINE));
    cr_assert_not(hearth__section_enter_plain(&section, MINE));
    cr_assert(hearth__section_busy(&section), "the refusal leaves the mark of who is inside");
    hearth__section_leave(&section, MINE);
    cr_assert(hearth__section_enter_plain(&section, MINE));
}

Test(section, attention_closes_the_plain_path, .init = start)
{
    hearth__store_relaxed(&section.attention, HEARTH__ATTENTION_INBOX);
    cr_assert_not(hearth__section_enter_plain(&section, MINE));
    cr_assert_not(hearth__section_busy(&section), "the mark is cleared at once");
    cr_assert_eq(section.attention, HEARTH__ATTENTION_INBOX, "whoever looks lowers it");
    hearth__store_relaxed(&section.attention, 0);
    cr_assert(hearth__section_enter_plain(&section, MINE));
}

Test(section, the_gate_shows_whose_it_is, .init = start)
{
    hearth__section_leave(&section, HEARTH__OWNER_NONE);
    cr_assert_not(hearth__section_busy(&section));
    cr_assert_not(hearth__section_enter_plain(&section, MINE));
    hearth__section_resume(&section);
    cr_assert(hearth__section_busy(&section), "the general path enters all the same");
    hearth__section_leave(&section, ANOTHERS);
    cr_assert_not(hearth__section_enter_plain(&section, MINE));
    cr_assert(hearth__section_enter_plain(&section, ANOTHERS));
}
