/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ages from a clock that only counts. An arena stamps each buffer with a counter when it is freed;
 * samples of {moment, counter} tell how old a stamp is at least. Moments are milliseconds or run
 * numbers, as long as they are the same throughout.
 *
 * Samples are a quarter of an age apart at least, so that the ring spans the age with room to spare.
 * With notes every `p` a buffer is found old at most 5/4 of the age, and one `p`, after its return.
 *
 *               note  before        'X': the caller excludes
 *     note       X      X
 *     before     X
 */
#ifndef HEARTH_CORE_AGES_H
#define HEARTH_CORE_AGES_H

#include <stdint.h>

/* Seven steps of a quarter each span one age and three quarters. */
#define HEARTH__AGES_SAMPLES 8u

/* An age that nothing reaches. */
#define HEARTH__AGE_NEVER UINT64_MAX

struct hearth__ages {
    struct {
        uint64_t at;
        uint64_t clock;
    } samples[HEARTH__AGES_SAMPLES];
    uint32_t count;  /* samples that are set */
    uint32_t newest; /* index of the last one */
};

/* Start without samples: nothing is known to be old. */
void hearth__ages_init(struct hearth__ages *ages);

/* Record that at `at` every stamp given so far was below `clock`, and every later one is not. A
 * quarter of `age` after the last sample at the earliest; does nothing before. An `at` or `clock`
 * that goes back is ignored. `age` may differ between calls: a longer one is answered for when enough
 * time has passed. */
void hearth__ages_note(struct hearth__ages *ages, uint64_t at, uint64_t clock, uint64_t age);

/* The greatest clock of which it is known that what is stamped below it was freed at least `age`
 * before `at`; 0: none. With an age of 0 that is the newest sample's. */
uint64_t hearth__ages_before(const struct hearth__ages *ages, uint64_t at, uint64_t age);

#endif
