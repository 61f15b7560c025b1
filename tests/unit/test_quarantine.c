/* SPDX-License-Identifier: Apache-2.0 */
/* Quarantine: order and bounds by itself, and inside both kinds of arena with all that has to empty it. */
#include "core/quarantine.h"

#include "concurrent/exec.h"
#include "concurrent/io.h"
#include "core/debug.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* As a user would who kept the pointer, past AddressSanitizer. */
__attribute__((no_sanitize("address"))) static void write_late(void *data, size_t at)
{
    ((volatile unsigned char *)data)[at] = 0x11;
}

static struct hearth_exec *arena;
static struct hearth_io *io;

static void open_exec(const char *conf, size_t slots, size_t cap)
{
    cr_assert_eq(setenv("HEARTH_CONF", conf, 1), 0);
    arena = exec_open(mmap_open(), slots, cap);
    misuse_record();
}

static void open_io(const char *conf, size_t slots, size_t cap)
{
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    cr_assert_eq(setenv("HEARTH_CONF", conf, 1), 0);
    options.backing = mmap_open();
    options.slots = slots;
    options.retention_cap = cap;
    assert_ok(hearth_io_create(&options, &io));
    misuse_record();
}

static struct hearth_buf *io_get(size_t size)
{
    struct hearth_buf *buf = NULL;
    assert_ok(hearth_io_alloc(io, size, &buf));
    return buf;
}

static void io_sound(void)
{
    const char *violated = hearth__io_check(io);
    cr_assert_null(violated, "%s", violated);
}

Test(quarantine, first_in_first_out)
{
    struct hearth__quarantine quarantine = {0};
    struct hearth__overwritten overwritten = {0};
    static unsigned char storage[3][128];
    static struct hearth_buf bufs[3];
    for (size_t i = 0; i < 3; i++) {
        memset(storage[i], HEARTH__POISON_RETURNED, 128);
        bufs[i].data = storage[i];
        bufs[i].weight = hearth__weight_of(1, 128);
        bufs[i].state = hearth__word(10 + i, HEARTH__FREE);
        hearth__quarantine_push(&quarantine, &bufs[i]);
    }
    assert_size(quarantine.count, 3);
    assert_size(quarantine.bytes, 384);
    write_late(storage[1], 127);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(hearth__quarantine_pop(&quarantine, &overwritten), &bufs[i]);
    cr_assert_null(hearth__quarantine_pop(&quarantine, &overwritten));
    assert_size(quarantine.count + quarantine.bytes, 0);
    cr_assert_eq(overwritten.buf, &bufs[1]);
    assert_size(overwritten.generation, 10);
    assert_size(overwritten.at, 127);
    assert_size(overwritten.more, 0);
    hearth__quarantine_push(&quarantine, &bufs[2]);
    cr_assert_eq(hearth__quarantine_pop(&quarantine, &overwritten), &bufs[2]);
#ifdef __SANITIZE_ADDRESS__
    for (size_t i = 0; i < 3; i++)
        hearth__debug_released(storage[i], 128);
#endif
}

Test(quarantine, exec_storage_waits_and_counts_as_retained)
{
    open_exec("debug:quarantine", 0, 0);
    struct hearth_buf *bufs[HEARTH__QUARANTINE_COUNT + 1];
    struct hearth_buf *first = exec_take(arena, 4096);
    const void *data = hearth_buf_data(first);
    assert_ok(hearth_exec_free(arena, first));
    assert_size(hearth_exec_retained_bytes(arena), 4096);
    cr_assert_neq(exec_take(arena, 4096), first, "not reused at once");
    assert_sound(arena);
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 4096);
    for (size_t i = 0; i < HEARTH__QUARANTINE_COUNT; i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    assert_sound(arena);
    assert_size(arena->quarantine.count, HEARTH__QUARANTINE_COUNT);
    struct hearth_buf *again = exec_take(arena, 4096);
    cr_assert_eq(hearth_buf_data(again), data, "the oldest came out");
    assert_size(misuse_seen.count, 0);
    size_t released = 0;
    assert_ok(hearth_exec_trim(arena, &released));
    assert_size(released, HEARTH__QUARANTINE_COUNT * 4096);
    assert_size(arena->quarantine.count, 0);
    assert_sound(arena);
}

Test(quarantine, exec_is_bounded_in_bytes)
{
    open_exec("debug:quarantine", 0, 0);
    struct hearth_buf *first = exec_take(arena, 40 * MIB);
    struct hearth_buf *second = exec_take(arena, 40 * MIB);
    assert_ok(hearth_exec_free(arena, first));
    assert_ok(hearth_exec_free(arena, second));
    assert_size(arena->quarantine.count, 1);
    cr_assert_eq(exec_take(arena, 40 * MIB), first);
}

Test(quarantine, exec_tells_of_a_late_write)
{
    open_exec("debug:quarantine+sites", 0, 0);
    struct hearth_buf *bufs[3];
    for (size_t i = 0; i < 3; i++)
        bufs[i] = exec_take(arena, 1000);
    void *data = hearth_buf_data(bufs[1]);
    for (size_t i = 0; i < 3; i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    write_late(data, 999);
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_size(misuse_seen.count, 1);
    cr_assert_eq(misuse_seen.status, HEARTH_STALE);
    cr_assert_eq(misuse_seen.slot, bufs[1]);
    cr_assert_eq(misuse_seen.arena, &arena->allocator);
    cr_assert_not_null(strstr(misuse_seen.detail, "written after it was returned"));
    cr_assert_not_null(strstr(misuse_seen.detail, "byte 999"), "%s", misuse_seen.detail);
    cr_assert_null(strstr(misuse_seen.detail, "unknown"), "%s", misuse_seen.detail);
    assert_size(arena->misuses, 1);
    assert_ok(hearth_exec_destroy(arena));
    assert_size(misuse_seen.count, 1);
}

Test(quarantine, exec_end_tells_too)
{
    open_exec("debug:quarantine", 0, 0);
    struct hearth_buf *bufs[2] = {exec_take(arena, 1000), exec_take(arena, 1000)};
    void *data[2] = {hearth_buf_data(bufs[0]), hearth_buf_data(bufs[1])};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(hearth_exec_free(arena, bufs[i]));
        write_late(data[i], 0);
    }
    assert_ok(hearth_exec_destroy(arena));
    assert_size(misuse_seen.count, 1);
    cr_assert_not_null(strstr(misuse_seen.detail, "1 more"), "%s", misuse_seen.detail);
    cr_assert_not_null(strstr(misuse_seen.detail, "debug:sites"), "%s", misuse_seen.detail);
}

Test(quarantine, exec_cap_empties_it)
{
    open_exec("debug:quarantine", 0, 2 * 4096);
    struct hearth_buf *bufs[4];
    for (size_t i = 0; i < 4; i++)
        bufs[i] = exec_take(arena, 4096);
    for (size_t i = 0; i < 4; i++) {
        assert_ok(hearth_exec_free(arena, bufs[i]));
        cr_assert(hearth_exec_retained_bytes(arena) <= 2 * 4096);
        assert_sound(arena);
    }
    assert_ok(hearth_exec_set_retention_cap(arena, 0));
    assert_size(hearth_exec_footprint(arena), 0);
    assert_ok(hearth_exec_free(arena, exec_take(arena, 100)));
    assert_size(hearth_exec_footprint(arena), 0);
    assert_sound(arena);
}

Test(quarantine, exec_slots_come_out_of_it)
{
    open_exec("debug:quarantine", 2, 0);
    for (size_t i = 0; i < 10; i++)
        assert_ok(hearth_exec_free(arena, exec_take(arena, 100 << i)));
    assert_sound(arena);
}

static void free_one(void *argument)
{
    struct hearth_buf *buf = argument;
    assert_ok(hearth_free(hearth_buf_owner(buf), buf));
}

static void visit(void *argument)
{
    bool busy;
    *(size_t *)argument = visit_all(arena, &busy);
    cr_assert_not(busy);
}

Test(quarantine, exec_returns_from_afar_and_visits)
{
    open_exec("debug:quarantine", 0, 0);
    struct hearth_buf *buf = exec_take(arena, 1000);
    void *data = hearth_buf_data(buf);
    on_thread(free_one, buf);
    (void)exec_take(arena, 64);
    assert_size(arena->quarantine.count, 1);
    write_late(data, 5);
    size_t released = 0;
    on_thread(visit, &released);
    assert_size(released, 4096);
    assert_size(arena->quarantine.count, 0);
    assert_size(misuse_seen.count, 0);
    (void)exec_take(arena, 64);
    assert_size(misuse_seen.count, 1);
    assert_sound(arena);
}

Test(quarantine, io_storage_waits_and_counts_as_retained)
{
    open_io("debug:quarantine", 0, 0);
    struct hearth_buf *bufs[HEARTH__QUARANTINE_COUNT + 1];
    struct hearth_buf *first = io_get(4096);
    assert_ok(hearth_io_free(io, first));
    assert_size(hearth_io_retained_bytes(io), 4096);
    cr_assert_neq(io_get(4096), first);
    io_sound();
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = io_get(4096);
    for (size_t i = 0; i < COUNT_OF(bufs) - 1; i++)
        assert_ok(hearth_io_free(io, bufs[i]));
    io_sound();
    cr_assert_eq(io_get(4096), first);
    size_t released = 0;
    assert_ok(hearth_io_trim(io, &released));
    assert_size(released, HEARTH__QUARANTINE_COUNT * 4096);
    assert_size(io->quarantine.count, 0);
    assert_size(misuse_seen.count, 0);
    io_sound();
}

Test(quarantine, io_tells_of_a_late_write)
{
    open_io("debug:quarantine+sites", 0, 0);
    struct hearth_lease lease;
    assert_ok(hearth_io_lease(io, 100 * KIB, &lease));
    void *data = hearth_lease_data(lease);
    assert_ok(hearth_lease_release(lease));
    write_late(data, 77);
    assert_ok(hearth_io_trim(io, NULL));
    assert_size(misuse_seen.count, 1);
    cr_assert_eq(misuse_seen.slot, lease.buf);
    cr_assert_not_null(strstr(misuse_seen.detail, "byte 77 "), "%s", misuse_seen.detail);
    cr_assert_null(strstr(misuse_seen.detail, "unknown"), "%s", misuse_seen.detail);
    io_sound();
    assert_ok(hearth_io_destroy(io));
}

Test(quarantine, io_cap_empties_it)
{
    open_io("debug:quarantine", 0, 2 * 4096);
    struct hearth_buf *bufs[4];
    for (size_t i = 0; i < 4; i++)
        bufs[i] = io_get(4096);
    for (size_t i = 0; i < 4; i++) {
        assert_ok(hearth_io_free(io, bufs[i]));
        cr_assert(hearth_io_retained_bytes(io) <= 2 * 4096);
        io_sound();
    }
    assert_size(hearth_io_retained_bytes(io), 2 * 4096);
    assert_ok(hearth_io_set_retention_cap(io, 0));
    assert_size(hearth_io_footprint(io), 0);
    io_sound();
}

Test(quarantine, io_slots_come_out_of_it)
{
    open_io("debug:quarantine", 2, 0);
    for (size_t i = 0; i < 10; i++)
        assert_ok(hearth_io_free(io, io_get((size_t)100 << i)));
    io_sound();
    assert_ok(hearth_io_destroy(io));
}

static void io_work(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < 2000; i++)
        assert_ok(hearth_io_free(io, io_get((size_t)64 << i % 12)));
}

static void io_exiting(void *argument)
{
    io_work(argument);
    hearth__io_thread.exiting = true; /* as in the last destructors: without a cache */
    io_work(argument);
    hearth__io_thread.exiting = false;
}

Test(quarantine, io_threads_share_it)
{
    open_io("debug:quarantine", 0, 0);
    on_thread(io_work, NULL);
    on_thread(io_exiting, NULL);
    io_work(NULL);
    assert_size(misuse_seen.count, 0);
    io_sound();
    assert_ok(hearth_io_destroy(io));
}

Test(quarantine, io_after_a_fork_in_somebodys_turn)
{
    open_io("debug:quarantine", 0, 0);
    assert_ok(hearth_io_free(io, io_get(4096)));
    io->detaining = 1;
    hearth__io_quarantine_after_fork(io);
    assert_size(io->lost_bytes, 4096);
    assert_size(io->quarantine.count, 0);
    assert_size(io->detaining, 0);
}
