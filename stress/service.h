/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stress programs of services share: parcels (anything that can be taken from a service, with its
 * payload's mark), boxes through which threads give them to each other, and the figures of a service.
 */
#ifndef HEARTH_STRESS_SERVICE_H
#define HEARTH_STRESS_SERVICE_H

#include "harness.h"

#include <hearth/exec.h>
#include <hearth/service.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A violation unless OK. */
void stress_expect(enum hearth_status status, const char *what);

/* Whether HEARTH_CONF asks for spans: between what is live some storage is neither live nor retained, and a segment
 * that goes may have more than was retained of it. */
bool stress_has_spans(void);

/* Long enough for the next visiting pass. */
void stress_nap(void);

enum stress_kind { STRESS_NOTHING, STRESS_EXEC, STRESS_BARE, STRESS_LEASE };

struct stress_parcel {
    enum stress_kind kind;
    struct hearth_buf *buf;
    struct hearth_lease lease; /* STRESS_LEASE */
    struct hearth_exec *exec;  /* STRESS_EXEC: where it came from */
    struct hearth_io *io;      /* STRESS_BARE */
    size_t size;
    size_t capacity;
    uint64_t tag; /* whose payload it is: no two of a run have the same */
};

/* Take one of some kind that `draw` decides: from `exec`, which the calling thread owns, or the I/O arena,
 * or from the one into the other; NULL: never from an execution arena. Its payload is marked. Nothing was
 * taken unless OK. */
enum hearth_status stress_parcel_take(struct hearth_service *service, struct hearth_exec *exec,
                                      const struct hearth_request *request, uint64_t draw,
                                      struct stress_parcel *parcel);

/* The payload is still its holder's. */
void stress_parcel_check(const struct stress_parcel *parcel);

/* Return it one way or the other, from any thread; the service may be gone. Nothing for an empty one. */
void stress_parcel_return(struct stress_parcel *parcel, uint64_t draw);

/* Resize an execution buffer of the calling thread's arena. Unchanged unless OK. */
enum hearth_status stress_parcel_resize(struct stress_parcel *parcel, size_t size, bool keep);

/* Put it into a box; what lay there, if anything, is in *parcel then. */
void stress_post(struct stress_parcel *parcel, uint64_t draw);

/* Return what lies in the boxes, while nobody posts. */
void stress_clear_boxes(void);

/* Add up sizes and capacities of `count` parcels; and of what lies in the boxes, while nobody posts. */
void stress_count(const struct stress_parcel *parcels, unsigned count, size_t *bytes,
                  size_t *capacity);
void stress_count_boxes(size_t *bytes, size_t *capacity);

/* Create a service, both domains on one backing that watches; NULL: on backings of the default kind. */
struct hearth_service *stress_service_open(struct stress_lender *lender,
                                           struct hearth_service_options options);

/* No figure is below zero or above what can be. */
void stress_service_look(const struct hearth_service *service, size_t threads, size_t bytes);

/* Trim with a report that is looked at. `alone`: nobody else, no maintenance thread either, uses the
 * service, so that the report has to add up. */
struct hearth_trim_report stress_service_trim(struct hearth_service *service, size_t goal,
                                              uint64_t budget_ns, bool alone);

/* No thread is inside a call: trim until nothing is retained. What `live` bytes of capacity do not explain
 * is pending, and that is what is left. Returns the bytes pending. */
size_t stress_service_quiet(struct hearth_service *service, size_t live, bool alone);

/* Nobody works and nothing is out: the figures say so, and trim finds everything. */
void stress_service_home(struct hearth_service *service, bool alone);

/* Wait for a backing to end, which a thread of the library's may still have to see to. */
void stress_lender_ended(struct stress_lender *lender);

#endif
