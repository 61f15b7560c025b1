/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debugging at run time: patterns and shadow.
 *
 * Shadow is what AddressSanitizer and valgrind know about memory: which of it may be read and written. A
 * buffer that is out shows its capacity, one that came home nothing. Sanitized builds know at compile
 * time; for valgrind a request is made that only memcheck answers, so that its other tools (callgrind)
 * see the library as it is.
 */
#include "core/debug.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define SHADOW_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHADOW_ASAN 1
#endif
#endif

#ifdef SHADOW_ASAN
#include <sanitizer/asan_interface.h>
#endif

#if defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define SHADOW_MEMCHECK 1
#endif
#endif

_Atomic(uint32_t) hearth__debug_checks;

static bool under_memcheck(void)
{
#ifdef SHADOW_MEMCHECK
    static _Atomic(uint32_t) answer; /* 0: not asked yet */
    uint32_t known = hearth__load_relaxed(&answer);
    if (known == 0) {
        int probe = 0;
        known = RUNNING_ON_VALGRIND && VALGRIND_MAKE_MEM_DEFINED(&probe, sizeof probe) != 0 ? 2 : 1;
        hearth__store_relaxed(&answer, known);
    }
    return known == 2;
#else
    return false;
#endif
}

uint32_t hearth__debug_ambient(void)
{
#ifdef SHADOW_ASAN
    return HEARTH__DEBUG_SHADOW;
#else
    return under_memcheck() ? HEARTH__DEBUG_SHADOW : 0;
#endif
}

/* Accessible; `defined` also for memcheck's question whether the value is one. */
static void shadow_open(void *data, size_t bytes, bool defined)
{
#ifdef SHADOW_ASAN
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
#ifdef SHADOW_MEMCHECK
    if (under_memcheck() && defined)
        (void)VALGRIND_MAKE_MEM_DEFINED(data, bytes);
    else if (under_memcheck())
        (void)VALGRIND_MAKE_MEM_UNDEFINED(data, bytes);
#endif
    (void)data;
    (void)bytes;
    (void)defined;
}

static void shadow_close(void *data, size_t bytes)
{
#ifdef SHADOW_ASAN
    ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
#ifdef SHADOW_MEMCHECK
    if (under_memcheck())
        (void)VALGRIND_MAKE_MEM_NOACCESS(data, bytes);
#endif
    (void)data;
    (void)bytes;
}

/* Accessible, and with a pattern from `from` on, where the values are not known. */
static void hand_out(uint32_t flags, struct hearth_buf *buf, size_t from)
{
    char *data = hearth__load_relaxed(&buf->data);
    size_t capacity = hearth__buf_capacity(buf);
    bool shadow = (flags & HEARTH__DEBUG_SHADOW) != 0;
    if (shadow)
        shadow_open(data, capacity, true);
    if ((flags & HEARTH__DEBUG_POISON) != 0)
        memset(data + from, HEARTH__POISON_FRESH, capacity - from);
    if (shadow)
        shadow_open(data + from, capacity - from, false);
}

void hearth__debug_taken(uint32_t flags, struct hearth_buf *buf, size_t size, bool zero)
{
    if (flags == 0)
        return;
    hand_out(flags, buf, zero ? size : 0);
    if ((flags & HEARTH__DEBUG_SITES) != 0)
        hearth__site_record(buf);
}

void hearth__debug_moved(uint32_t flags, struct hearth_buf *spare)
{
    if (flags != 0)
        hand_out(flags, spare, 0);
}

void hearth__debug_returned(uint32_t flags, struct hearth_buf *buf)
{
    char *data = hearth__load_relaxed(&buf->data);
    size_t capacity = hearth__buf_capacity(buf);
    buf->flags &= (uint8_t)~HEARTH__BUF_ZERO;
    if ((flags & (HEARTH__DEBUG_POISON | HEARTH__DEBUG_QUARANTINE)) != 0) {
        if ((flags & HEARTH__DEBUG_SHADOW) != 0)
            shadow_open(data, capacity, false);
        memset(data, HEARTH__POISON_RETURNED, capacity);
    }
    if ((flags & HEARTH__DEBUG_SHADOW) != 0)
        shadow_close(data, capacity);
}

void hearth__debug_released(void *data, size_t bytes)
{
    /* Defined, whatever was in there: a backing that lends it again as zero does not write it. */
    if (hearth__debug_ambient() != 0)
        shadow_open(data, bytes, true);
}

bool hearth__debug_intact(const struct hearth_buf *buf, size_t *at)
{
    unsigned char *data = hearth__load_relaxed(&buf->data);
    size_t capacity = hearth__buf_capacity(buf);
    bool shadow = hearth__debug_ambient() != 0;
    if (shadow)
        shadow_open(data, capacity, true);
    size_t i = 0;
    /* All bytes are the first one if each is its neighbour. */
    if (data[0] != HEARTH__POISON_RETURNED || memcmp(data, data + 1, capacity - 1) != 0)
        while (i < capacity && data[i] == HEARTH__POISON_RETURNED)
            i++;
    else
        i = capacity;
    if (shadow)
        shadow_close(data, capacity);
    *at = i;
    return i == capacity;
}
