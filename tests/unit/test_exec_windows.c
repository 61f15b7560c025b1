/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may happen while an operation has left the section for a backing call, or between the two steps of
 * a wrong return: interleavings that a review found, played out one step at a time.
 *
 * Not covered: the same under real concurrency; that is stress/.
 */
#include "concurrent/exec.h"

#include "support.h"

#include <stdlib.h>

/* A malloc backing that calls `during` once, in the middle of the next acquire. */
static struct {
    void (*during)(void);
} hook;

static enum hearth_status hooked_acquire(void *context, size_t bytes, size_t alignment,
                                         struct hearth_segment *segment)
{
    void (*during)(void) = hook.during;
    (void)context;
    hook.during = NULL;
    if (during != NULL)
        during();
    segment->base = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    segment->length = bytes;
    return segment->base == NULL ? HEARTH_NO_MEMORY : HEARTH_OK;
}

static void hooked_release(void *context, const struct hearth_segment *segment)
{
    (void)context;
    free(segment->base);
}

static struct hearth_exec *arena;
static struct hearth_buf *buf;
static enum hearth_status answer;

static struct hearth_exec *hooked_arena(void)
{
    static const struct hearth_backing_ops ops = {
        .size = sizeof ops, .acquire = hooked_acquire, .release = hooked_release};
    struct hearth_backing *backing;
    assert_ok(hearth_backing_create(&ops, NULL, &backing));
    struct hearth_exec *made = exec_open(backing, 0, 0);
    hearth_backing_unref(backing);
    return made;
}

static void start(void)
{
    misuse_record();
    arena = hooked_arena();
    buf = exec_take(arena, 1000);
}

static void return_elsewhere(void)
{
    free_elsewhere(arena, &buf, 1);
}

/* A wrong return of the buffer that is just being resized: the resize must not touch it any more. */
Test(exec_windows, a_resize_notices_that_its_buffer_was_returned, .init = start)
{
    hook.during = return_elsewhere;
    assert_status(hearth_buf_resize_keep(buf, 100 * KIB), HEARTH_STALE);
    assert_sound(arena);
    /* The storage that was obtained in vain is as good as any other. */
    struct hearth_buf *spare = exec_take(arena, 64 * KIB);
    assert_ok(hearth_exec_free(arena, spare));
    spare = exec_take(arena, 100 * KIB);
    cr_assert_geq(hearth_buf_generation(spare), 1);
    assert_size(hearth_exec_live_count(arena), 1);
    assert_ok(hearth_exec_free(arena, spare));
    assert_sound(arena);
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_size(hearth_exec_live_count(arena), 0);
    assert_size(hearth_exec_live_bytes(arena), 0);
    assert_size(hearth_exec_footprint(arena), 0);
    assert_ok(hearth_exec_set_retention_cap(arena, 1));
    assert_ok(hearth_exec_destroy(arena));
}

static void let_go(void)
{
    answer = hearth_exec_release_owner(arena);
}

/* Ownership cannot be given up in the middle of one's own operation. */
Test(exec_windows, release_owner_is_busy_inside_a_backing_call, .init = start)
{
    hook.during = let_go;
    struct hearth_buf *other = exec_take(arena, 5000);
    assert_status(answer, HEARTH_BUSY);
    assert_ok(hearth_exec_free(arena, other));
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_release_owner(arena));
    assert_ok(hearth_exec_trim(arena, NULL)); /* claims it again */
    assert_ok(hearth_exec_destroy(arena));
}

static void alloc_and_free(void)
{
    struct hearth_buf *inner = exec_take(arena, 3000);
    assert_ok(hearth_exec_free(arena, inner));
}

/* A callback may use the arena that is waiting for the backing. */
Test(exec_windows, a_callback_may_allocate_and_free, .init = start)
{
    hook.during = alloc_and_free;
    struct hearth_buf *other = exec_take(arena, 5000);
    assert_sound(arena);
    assert_ok(hearth_exec_free(arena, other));
    hook.during = alloc_and_free;
    assert_ok(hearth_buf_resize(buf, 64 * KIB));
    assert_sound(arena);
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_destroy(arena));
}

/* More than the slots beside a core, so that the last ones lie in a segment of their own. */
#define MANY 600

/* A wrong return stalls between claim and push while its slot's segment goes over to another arena; then
 * a right return there rides along with it. The slot lands in the wrong inbox and must be sent on. */
Test(exec_windows, a_stray_slot_goes_to_the_arena_that_it_serves)
{
    static struct hearth_buf *bufs[MANY];
    misuse_record();
    struct hearth_exec *first = hooked_arena();
    for (size_t i = 0; i < MANY; i++)
        bufs[i] = exec_take(first, 64);
    struct hearth_buf *slot = bufs[MANY - 1];
    uint64_t stale = hearth_buf_generation(slot);
    for (size_t i = 0; i < MANY; i++)
        assert_ok(hearth_exec_free(first, bufs[i]));
    assert_ok(hearth_exec_destroy(first));

    /* The wrong arena gets the core that the stalled thread knows; the right one gets the segment. */
    struct hearth_exec *wrong = hooked_arena();
    cr_assert_eq(wrong, first);
    struct hearth_exec *right = hooked_arena();
    bool found = false;
    for (size_t i = 0; i < MANY; i++) {
        bufs[i] = exec_take(right, 64);
        found |= bufs[i] == slot;
    }
    cr_assert(found, "the segment was recycled");

    cr_assert_eq(hearth__inbox_claim(slot, stale), HEARTH__CLAIM_PUSH);
    free_elsewhere(right, &slot, 1); /* rides along */
    cr_assert(hearth__inbox_push(&wrong->inbox, slot));
    struct hearth_buf *own = exec_take(wrong, 64); /* drains, and sends it on */
    cr_assert_neq(own, slot);
    assert_ok(hearth_exec_trim(right, NULL));
    assert_size(hearth_exec_live_count(right), MANY - 1);
    assert_size(hearth_exec_retained_count(right), 0);
    assert_sound(right);
    assert_sound(wrong);
    assert_ok(hearth_exec_free(wrong, own));
    assert_ok(hearth_exec_destroy(wrong));
    for (size_t i = 0; i < MANY; i++) {
        if (bufs[i] != slot)
            assert_ok(hearth_exec_free(right, bufs[i]));
    }
    assert_ok(hearth_exec_destroy(right));
}

/* A settled claim that has to be delivered again must not be, once a later generation was claimed: its slot
 * may be linked by then. */
Test(exec_windows, a_settled_claim_is_not_renewed_over_a_later_one, .init = start)
{
    uint64_t generation = hearth_buf_generation(buf);
    cr_assert_eq(hearth__inbox_claim(buf, generation), HEARTH__CLAIM_PUSH);
    assert_size(hearth__inbox_settle(buf).generation, generation);
    cr_assert_eq(hearth__inbox_claim(buf, generation + 1), HEARTH__CLAIM_PUSH);
    cr_assert_not(hearth__inbox_reclaim(buf, generation));
    assert_size(hearth__inbox_settle(buf).generation, generation + 1);
    cr_assert(hearth__inbox_reclaim(buf, generation + 1));
}

/* A signal handler between the two steps of giving up ownership finds the arena closed. */
Test(exec_windows, giving_up_ownership_closes_the_arena_first, .init = start)
{
    struct hearth_buf *none = NULL;
    arena->section.gate = HEARTH__OWNER_NONE; /* the first step */
    assert_status(hearth_exec_alloc(arena, 100, &none), HEARTH_BUSY);
    assert_ok(hearth_exec_free(arena, buf)); /* by way of the inbox */
    cr_assert_eq(arena->section.gate, HEARTH__OWNER_NONE);
    arena->owner = HEARTH__OWNER_NONE; /* the second */
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_size(hearth_exec_live_count(arena), 0);
    assert_ok(hearth_exec_destroy(arena));
}

static void return_slot(void *argument)
{
    (void)argument;
    answer = hearth_exec_free(arena, buf);
}

/* A push that was prepared on a head which was taken meanwhile must not succeed: the totals it was
 * prepared with are those of another chain. */
Test(exec_windows, a_push_does_not_outlive_the_head_it_saw, .init = start)
{
    uint64_t seen = arena->inbox.head;
    on_thread(return_slot, NULL);
    assert_ok(answer);
    struct hearth_buf *again = exec_take(arena, 1000); /* takes it in, and lends it again */
    cr_assert_eq(again, buf);
    uint64_t empty = arena->inbox.head;
    cr_assert_neq(empty, seen, "an inbox that was emptied is told from one that was never used");
    assert_ok(hearth_exec_free(arena, again));
    assert_ok(hearth_exec_destroy(arena));
}
