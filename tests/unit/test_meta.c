/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata segments and the address tables: every kind of wrong pointer, pooling, payload look-up. Not
 * covered: 2^16 segments, and threads (stress). */
#include "core/meta.h"
#include "support.h"

#include <sys/mman.h>

static struct hearth__segment *acquire(enum hearth__segment_kind kind)
{
    struct hearth__segment *segment = hearth__segment_acquire(kind);
    cr_assert_not_null(segment);
    cr_assert_eq((uintptr_t)segment % HEARTH__GRANULE_BYTES, 0);
    cr_assert_eq(segment->kind, kind);
    return segment;
}

static const struct hearth_buf *pointer(uintptr_t address)
{
    return (const struct hearth_buf *)address;
}

static void assert_no_slot(uintptr_t address, const char *what)
{
    static struct hearth_allocator elsewhere;
    cr_assert_null(hearth__segment_of(pointer(address)), "%s is taken for a slot", what);
    cr_assert_not(hearth__slot_in(pointer(address), &elsewhere), "%s is taken for a slot", what);
    cr_assert_null(hearth_buf_owner(pointer(address)), "%s has an owner", what);
    cr_assert_eq(hearth_buf_generation(pointer(address)), 0, "%s has a generation", what);
}

Test(meta, garbage_is_no_slot)
{
    struct hearth_allocator arena = {NULL};
    struct hearth__segment *segment = acquire(HEARTH__SEGMENT_SLOTS);
    hearth__store_relaxed(&segment->arena, &arena);
    int local = 0;
    void *gone =
        mmap(NULL, 4 * HEARTH__GRANULE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(gone, MAP_FAILED);
    munmap(gone, 4 * HEARTH__GRANULE_BYTES);

    assert_no_slot(0, "NULL");
    assert_no_slot(1, "1");
    assert_no_slot(128, "the first page");
    assert_no_slot((uintptr_t)&local & ~(uintptr_t)127, "the stack");
    assert_no_slot((uintptr_t)&assert_no_slot & ~(uintptr_t)127, "code");
    assert_no_slot((uintptr_t) "text" & ~(uintptr_t)127, "a literal");
    assert_no_slot((uintptr_t)gone, "unmapped memory");
    assert_no_slot(((uintptr_t)1 << 47) - 128, "the end of user space");
    assert_no_slot((uintptr_t)1 << 47, "2^47");
    assert_no_slot(((uintptr_t)1 << 48) - 128, "below 2^48");
    assert_no_slot((uintptr_t)1 << 48, "2^48");
    assert_no_slot((uintptr_t)1 << 56, "2^56");
    assert_no_slot((uintptr_t)0xffff800000000000, "a kernel address");
    assert_no_slot((uintptr_t)segment + ((uintptr_t)1 << 48) + 128, "a slot with bit 48 set");
    assert_no_slot((uintptr_t)segment | (uintptr_t)1 << 63 | 128, "a slot with bit 63 set");
    assert_no_slot(UINTPTR_MAX, "the last byte");
    assert_no_slot(UINTPTR_MAX - 127, "the last slot");
}

Test(meta, only_slot_starts_are_slots)
{
    struct hearth_allocator arena = {NULL};
    struct hearth__segment *segment = acquire(HEARTH__SEGMENT_SLOTS);
    hearth__store_relaxed(&segment->arena, &arena);
    uintptr_t base = (uintptr_t)segment;
    for (uintptr_t offset = 0; offset < HEARTH__GRANULE_BYTES; offset++) {
        bool is_slot = offset % HEARTH__SLOT_BYTES == 0 && offset >= HEARTH__HEADER_BYTES;
        cr_assert_eq(hearth__segment_of(pointer(base + offset)), is_slot ? segment : NULL,
                     "offset %zu", (size_t)offset);
        cr_assert_eq(hearth__slot_in(pointer(base + offset), &arena), is_slot, "offset %zu",
                     (size_t)offset);
    }
    cr_assert_eq((uintptr_t)hearth__segment_slot(segment, 511), base + 511 * 128u);
}

Test(meta, header_and_core_are_no_slots)
{
    struct hearth__segment *segment = acquire(HEARTH__SEGMENT_EXEC);
    struct hearth_allocator *arena = hearth__segment_core(segment);
    hearth__store_relaxed(&segment->arena, arena);
    cr_assert_eq(hearth__core_segment(arena), segment);
    uintptr_t base = (uintptr_t)segment;
    for (uintptr_t offset = 0; offset < HEARTH__GRANULE_BYTES; offset += 64) {
        bool is_slot = offset % HEARTH__SLOT_BYTES == 0 && offset >= HEARTH__CORE_BYTES;
        cr_assert_eq(hearth__segment_of(pointer(base + offset)), is_slot ? segment : NULL);
        cr_assert_eq(hearth__slot_in(pointer(base + offset), arena), is_slot, "offset %zu",
                     (size_t)offset);
    }
}

Test(meta, segments_of_lists_have_no_slots)
{
    struct hearth__segment *segment = acquire(HEARTH__SEGMENT_BINS);
    for (uintptr_t offset = 0; offset < HEARTH__GRANULE_BYTES; offset += 128)
        cr_assert_null(hearth__segment_of(pointer((uintptr_t)segment + offset)));
}

Test(meta, slots_of_another_arena_are_foreign)
{
    struct hearth_allocator one = {NULL};
    struct hearth_allocator two = {NULL};
    struct hearth__segment *segment = acquire(HEARTH__SEGMENT_SLOTS);
    hearth__store_relaxed(&segment->arena, &one);
    struct hearth_buf *slot = hearth__segment_slot(segment, 1);
    cr_assert(hearth__slot_in(slot, &one));
    cr_assert_not(hearth__slot_in(slot, &two));
    cr_assert_eq(hearth_buf_owner(slot), &one);
    hearth__segment_release(segment);
    cr_assert_not(hearth__slot_in(slot, &one), "a pooled segment serves nobody");
    cr_assert_null(hearth_buf_owner(slot));
    cr_assert_eq(hearth__segment_of(slot), segment, "it stays findable");
}

Test(meta, pools_keep_kinds_and_generations)
{
    struct hearth__segment *made[HEARTH__SEGMENT_KINDS];
    uint32_t ids[HEARTH__SEGMENT_KINDS];
    uint32_t before = hearth__segment_count();
    for (unsigned kind = 0; kind < HEARTH__SEGMENT_KINDS; kind++) {
        made[kind] = acquire((enum hearth__segment_kind)kind);
        ids[kind] = made[kind]->id;
        if (kind != HEARTH__SEGMENT_BINS)
            hearth__store_relaxed(&hearth__segment_slot(made[kind], 300)->state,
                                  hearth__word(77 + kind, HEARTH__UNUSED));
    }
    cr_assert_eq(hearth__segment_count(), before + HEARTH__SEGMENT_KINDS);
    for (unsigned kind = 0; kind < HEARTH__SEGMENT_KINDS; kind++)
        hearth__segment_release(made[kind]);
    for (unsigned kind = HEARTH__SEGMENT_KINDS; kind-- > 0;) {
        struct hearth__segment *again = acquire((enum hearth__segment_kind)kind);
        cr_assert_eq(again, made[kind], "kind %u came from another pool", kind);
        cr_assert_eq(again->id, ids[kind]);
        if (kind != HEARTH__SEGMENT_BINS)
            cr_assert_eq(hearth__segment_slot(again, 300)->state,
                         hearth__word(77 + kind, HEARTH__UNUSED));
    }
    cr_assert_eq(hearth__segment_count(), before + HEARTH__SEGMENT_KINDS);
}

Test(meta, a_pool_holds_many)
{
    struct hearth__segment *made[20];
    for (size_t i = 0; i < COUNT_OF(made); i++)
        made[i] = acquire(HEARTH__SEGMENT_SLOTS);
    uint32_t count = hearth__segment_count();
    for (size_t i = 0; i < COUNT_OF(made); i++)
        hearth__segment_release(made[i]);
    for (size_t i = COUNT_OF(made); i-- > 0;)
        cr_assert_eq(acquire(HEARTH__SEGMENT_SLOTS), made[i]);
    cr_assert_eq(hearth__segment_count(), count);
    cr_assert_neq(acquire(HEARTH__SEGMENT_SLOTS), made[0]);
    cr_assert_eq(hearth__segment_count(), count + 1);
}

/* A slot that says its storage starts at `data`. */
static struct hearth_buf *slot_with(struct hearth__segment *segment, uint32_t n, void *data)
{
    struct hearth_buf *slot = hearth__segment_slot(segment, n);
    slot->index = segment->id * (uint32_t)HEARTH__SLOTS_PER_GRANULE + n;
    hearth__store_relaxed(&slot->data, data);
    return slot;
}

Test(meta, payloads_are_found_by_their_start_alone)
{
    struct hearth__segment *segment = acquire(HEARTH__SEGMENT_SLOTS);
    char *area =
        mmap(NULL, 4 * HEARTH__GRANULE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(area, MAP_FAILED);
    char *edge =
        (char *)(((uintptr_t)area + HEARTH__GRANULE_MASK) & ~(uintptr_t)HEARTH__GRANULE_MASK) +
        HEARTH__GRANULE_BYTES;
    char *places[] = {edge - 128, edge - 64, edge, edge + 64, edge + HEARTH__GRANULE_BYTES - 64};
    for (uint32_t i = 0; i < COUNT_OF(places); i++) {
        struct hearth_buf *slot = slot_with(segment, 10 + i, places[i]);
        cr_assert_null(hearth__payload_find(places[i]));
        assert_ok(hearth__payload_set(places[i], slot->index));
        cr_assert_eq(hearth__payload_find(places[i]), slot);
    }
    for (uint32_t i = 0; i < COUNT_OF(places); i++) {
        cr_assert_eq(hearth__payload_find(places[i]), hearth__segment_slot(segment, 10 + i));
        for (uintptr_t off = 1; off < 64; off++)
            cr_assert_null(hearth__payload_find(places[i] + off), "interior byte %zu", (size_t)off);
    }
    hearth__payload_clear(places[1]);
    cr_assert_null(hearth__payload_find(places[1]));
    cr_assert_not_null(hearth__payload_find(places[0]), "its neighbours stay");
    cr_assert_not_null(hearth__payload_find(places[2]));
    cr_assert_null(hearth__payload_find(edge + 128), "a place nobody set");
}

Test(meta, an_old_payload_word_is_not_believed)
{
    struct hearth__segment *segment = acquire(HEARTH__SEGMENT_SLOTS);
    static char storage[256] __attribute__((aligned(64)));
    struct hearth_buf *slot = slot_with(segment, 5, storage);
    assert_ok(hearth__payload_set(storage, slot->index));
    hearth__store_relaxed(&slot->data, storage + 64);
    cr_assert_null(hearth__payload_find(storage));
}

Test(meta, payloads_at_impossible_addresses)
{
    struct hearth__segment *segment = acquire(HEARTH__SEGMENT_SLOTS);
    assert_status(hearth__payload_set(hearth__segment_slot(segment, 3), 1), HEARTH_NO_MEMORY);
    assert_status(hearth__payload_set((void *)((uintptr_t)1 << 48), 1), HEARTH_NO_MEMORY);
    cr_assert_eq(hearth__segment_of(hearth__segment_slot(segment, 3)), segment,
                 "nothing was damaged");
    static const uintptr_t garbage[] = {0,
                                        64,
                                        (uintptr_t)1 << 47,
                                        (uintptr_t)1 << 48,
                                        (uintptr_t)1 << 63,
                                        UINTPTR_MAX,
                                        UINTPTR_MAX - 63};
    for (size_t i = 0; i < COUNT_OF(garbage); i++) {
        cr_assert_null(hearth__payload_find((const void *)garbage[i]));
        hearth__payload_clear((const void *)garbage[i]);
    }
    cr_assert_null(hearth__payload_find(hearth__segment_slot(segment, 3)));
}

Test(meta, arenas_recycle_their_segments, .timeout = 120)
{
    struct hearth_backing *backing = mmap_open();
    uint32_t after_first = 0;
    for (unsigned round = 0; round < 10000; round++) {
        struct hearth_exec *arena = exec_open(backing, 0, 0);
        struct hearth_buf *plain = exec_take(arena, 100);
        struct hearth_buf *aligned = exec_take_aligned(arena, 100, 4096);
        assert_ok(hearth_exec_free(arena, aligned));
        assert_ok(hearth_exec_free(arena, plain));
        assert_ok(hearth_exec_destroy(arena));
        if (round == 0)
            after_first = hearth__segment_count();
    }
    cr_assert_eq(after_first, 2, "a core and the aligned lists, not %u", after_first);
    cr_assert_eq(hearth__segment_count(), after_first);
    hearth_backing_unref(backing);
}
