/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leak checks.
 *
 * Problem. Say which buffers were taken since some moment, by any thread, and are still out, without the plain
 * paths knowing anything of it.
 *
 * Picture. A check closes the plain paths of all arenas, so that each taking goes by a general path and is
 * recorded with its site and a serial number (core/sites.c). At its end it walks all slots there are:
 *
 *     live or leased, not waiting in an inbox, of an arena that the check is for,
 *     and the record of this generation has a serial later than the check's
 *
 * Closing. The count of checks, at which all arenas look, goes up, then a membarrier, then ATTENTION_METERED is raised in each arena
 * that the walk over the metadata segments finds. An arena or a cache that is made meanwhile makes itself
 * findable first and looks at the count afterwards: either the walk finds it, or it finds the check. The plain
 * paths stay closed after the check: nobody could say who else closed them.
 *
 * What other threads do at the two moments themselves counts or does not, as it happens.
 *
 * Progress. Takes no lock; the callback runs inside of nothing of ours.
 */
#include "concurrent/leak.h"

#include "concurrent/exec.h"
#include "concurrent/io.h"
#include "concurrent/membarrier.h"

#include "core/clock.h"
#include "core/misuse.h"

#include <stdio.h>
#include <stdlib.h>

#define SITE_BYTES 1024

struct hearth_leak_check {
    hearth__leak_filter *belongs;
    const void *context;
    struct hearth_service *service; /* held; NULL: none */
    uint64_t serial;                /* takings before it began */
};

const struct hearth__leak_service *hearth__leak_service;

/* The arena that a segment serves, if it is one of ours; its domain. */
static struct hearth_allocator *served_by(struct hearth__segment *segment,
                                          enum hearth_domain *domain)
{
    struct hearth_allocator *arena = hearth__load_acquire(&segment->arena);
    if (arena == NULL)
        return NULL;
    switch (hearth__core_segment(arena)->kind) {
    case HEARTH__SEGMENT_EXEC:
        *domain = HEARTH_DOMAIN_EXEC;
        return arena;
    case HEARTH__SEGMENT_IO:
        *domain = HEARTH_DOMAIN_IO;
        return arena;
    default:
        return NULL;
    }
}

static bool has_slots(const struct hearth__segment *segment)
{
    return segment->kind == HEARTH__SEGMENT_EXEC || segment->kind == HEARTH__SEGMENT_SLOTS ||
           segment->kind == HEARTH__SEGMENT_IO || segment->kind == HEARTH__SEGMENT_IO_SLOTS;
}

static void close_plain_paths(void)
{
    for (uint32_t id = 1; id <= hearth__segment_count(); id++) {
        struct hearth__segment *segment = hearth__segment_at(id);
        enum hearth_domain domain;
        if (segment == NULL ||
            (segment->kind != HEARTH__SEGMENT_EXEC && segment->kind != HEARTH__SEGMENT_IO))
            continue;
        struct hearth_allocator *arena = served_by(segment, &domain);
        if (arena == NULL)
            continue;
        if (domain == HEARTH_DOMAIN_EXEC)
            (void)hearth__fetch_or_release(&hearth__exec_of(arena)->section.attention,
                                           HEARTH__ATTENTION_METERED);
        else
            hearth__io_alert(hearth__io_of(arena), HEARTH__ATTENTION_METERED);
    }
}

enum hearth_status hearth__leak_begin(hearth__leak_filter *belongs, const void *context,
                                      struct hearth_leak_check **check)
{
    struct hearth_leak_check *made = malloc(sizeof *made);
    if (made == NULL)
        return HEARTH_NO_MEMORY;
    hearth__site_prepare();
    (void)hearth__fetch_add_relaxed(&hearth__debug_checks, 1);
    if (hearth__membarrier_ready())
        (void)hearth__membarrier();
    close_plain_paths();
    *made = (struct hearth_leak_check){
        .belongs = belongs,
        .context = context,
        .serial = hearth__site_serial(),
    };
    *check = made;
    return HEARTH_OK;
}

enum hearth_status hearth_leak_check_begin(struct hearth_service *service,
                                           struct hearth_leak_check **check)
{
    static const char call[] = "hearth_leak_check_begin";
    const struct hearth__leak_service *hooks = hearth__leak_service;
    if (check == NULL || (service != NULL && hooks == NULL))
        return hearth__misuse(HEARTH_INVALID, call, NULL, service);
    if (service == NULL)
        return hearth__leak_begin(NULL, NULL, check);
    enum hearth_status status = hooks->hold(service);
    if (status != HEARTH_OK)
        return status;
    status = hearth__leak_begin(hooks->belongs, service, check);
    if (status == HEARTH_OK)
        (*check)->service = service;
    else
        hooks->drop(service);
    return status;
}

/* Where the findings of one check go. */
struct listing {
    const struct hearth_leak_check *check;
    void (*fn)(void *context, const struct hearth_leak *leak);
    void *context;
    uint64_t now_ns;
    size_t count;
};

static void print_leak(const struct hearth_leak *leak, const char *site)
{
    fprintf(
        stderr,
        "hearth: leak: %zu bytes of the %s domain at %p, %u references, taken %.3f ms ago at %s\n",
        leak->bytes, leak->domain == HEARTH_DOMAIN_EXEC ? "execution" : "I/O",
        (const void *)leak->buf, leak->references, (double)leak->age_ns / 1e6, site);
}

static void list(struct listing *listing, const struct hearth_leak *leak,
                 const struct hearth__site *site)
{
    char text[SITE_BYTES];
    struct hearth_leak told = *leak;
    listing->count++;
    hearth__site_text(site, listing->fn == NULL ? " < " : "\n", text, sizeof text);
    told.site = text;
    if (listing->fn == NULL)
        print_leak(&told, text[0] == '\0' ? "an unknown site" : text);
    else
        listing->fn(listing->context, &told);
}

/* A returned buffer that its owner has not taken in is not out any more. */
static bool is_out(const struct hearth_buf *buf, uint64_t word, enum hearth_domain domain)
{
    enum hearth__state state = hearth__word_state(word);
    if (state == HEARTH__LEASED)
        return true;
    return state == HEARTH__LIVE && (domain == HEARTH_DOMAIN_IO ||
                                     !hearth__inbox_has_claim(buf, hearth__word_generation(word)));
}

/* The slot's number is that of its place: the one in the slot is its arena's to read. */
static void look_at(struct listing *listing, struct hearth__segment *segment, uint32_t n,
                    enum hearth_domain domain)
{
    const struct hearth_buf *buf = hearth__segment_slot(segment, n);
    uint32_t index = segment->id * (uint32_t)HEARTH__SLOTS_PER_GRANULE + n;
    struct hearth__site site;
    uint64_t word = hearth__load_acquire(&buf->state);
    if (!is_out(buf, word, domain) ||
        !hearth__site_find(index, hearth__word_generation(word), &site) ||
        site.serial <= listing->check->serial)
        return;
    const struct hearth_leak leak = {
        .size = sizeof leak,
        .buf = buf,
        .bytes = hearth__load_relaxed(&buf->size),
        .age_ns = listing->now_ns > site.time_ns ? listing->now_ns - site.time_ns : 0,
        .domain = domain,
        .references =
            hearth__word_state(word) == HEARTH__LEASED ? (uint32_t)hearth__word_count(word) : 0,
    };
    /* Else it was returned meanwhile. */
    if (hearth__word_generation(hearth__load_acquire(&buf->state)) == hearth__word_generation(word))
        list(listing, &leak, &site);
}

static void walk(struct listing *listing)
{
    const struct hearth_leak_check *check = listing->check;
    for (uint32_t id = 1; id <= hearth__segment_count(); id++) {
        struct hearth__segment *segment = hearth__segment_at(id);
        enum hearth_domain domain;
        if (segment == NULL || !has_slots(segment))
            continue;
        const struct hearth_allocator *arena = served_by(segment, &domain);
        if (arena == NULL || (check->belongs != NULL && !check->belongs(arena, check->context)))
            continue;
        for (uint32_t n = segment->first_slot; n < HEARTH__SLOTS_PER_GRANULE; n++)
            look_at(listing, segment, n, domain);
    }
}

enum hearth_status hearth_leak_check_end(struct hearth_leak_check *check,
                                         void (*fn)(void *context, const struct hearth_leak *leak),
                                         void *context, size_t *count)
{
    if (check == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_leak_check_end", NULL, NULL);
    struct listing listing = {
        .check = check,
        .fn = fn,
        .context = context,
        .now_ns = hearth__now_ns(),
    };
    (void)hearth__fetch_add_relaxed(&hearth__debug_checks, (uint32_t)-1);
    walk(&listing);
    if (check->service != NULL)
        hearth__leak_service->drop(check->service);
    free(check);
    if (count != NULL)
        *count = listing.count;
    return listing.count == 0 ? HEARTH_OK : HEARTH_BUSY;
}
