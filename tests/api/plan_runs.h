/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs about run plans share: scripts of what a run takes and returns, and a stage that plays
 * them. Every byte of every buffer has a pattern, which is compared when the buffer is returned; places are
 * compared when one is taken; figures and the accounting identity after each operation. */
#ifndef HEARTH_TESTS_API_PLAN_RUNS_H
#define HEARTH_TESTS_API_PLAN_RUNS_H

#include "support.h"

enum { SCRIPT_ACTS = 1024, SCRIPT_TAKES = SCRIPT_ACTS / 2, STAGE_PLACES = 1024 };

/* Take a buffer of `value` bytes, or return the one that was taken as number `value` of the run, from 0. */
struct act {
    bool take;
    size_t value;
};

/* Everything taken is returned, so that nothing is live at the end. */
struct script {
    size_t acts_count;
    size_t takes; /* requests */
    struct act acts[SCRIPT_ACTS];
};

/* `takes` buffers of 64 bytes to 64 KiB, multiples of 64 and all of different sizes, that live for up to eight
 * requests; each ninth to the end. Which ones, is in the seed. Something is always live. */
void script_net(struct script *script, size_t takes, unsigned seed);
/* `takes` buffers of `size` bytes, all of them live before the first one is returned; `step` more for each. */
void script_pile(struct script *script, size_t takes, size_t size, size_t step);
/* All sizes times numerator / denominator, rounded up to multiples of 64. */
struct script script_scaled(const struct script *script, size_t numerator, size_t denominator);
/* Request `number` asks for something else. */
struct script script_resized(const struct script *script, size_t number, size_t size);
/* One more before request `number`, returned with that one. */
struct script script_extra(const struct script *script, size_t number, size_t size);
/* Without request `number`. */
struct script script_missing(const struct script *script, size_t number);
/* Request `number` and the one after it change places. */
struct script script_swapped(const struct script *script, size_t number);
/* The first `takes` requests; what is live then is returned. */
struct script script_cut(const struct script *script, size_t takes);
/* `takes` more of `size` bytes, before the last buffer is returned. */
struct script script_longer(const struct script *script, size_t takes, size_t size);
/* Two in a row, without a moment between them that has nothing live. */
struct script script_twice(const struct script *script);
/* The same requests; each return comes up to `distance` requests later. */
struct script script_late(const struct script *script, size_t distance);
/* Bytes live at most. */
size_t script_peak(const struct script *script);

struct place {
    struct hearth_buf *buf; /* NULL: free */
    unsigned char *data;
    size_t size;
    size_t capacity;
    uint64_t word; /* the pattern */
};

/* An arena, and what is live in it. */
struct stage {
    struct hearth_exec *arena;
    struct memory *memory; /* NULL: the backing is not looked at */
    bool shared;           /* others return buffers as well: the peak is a bound */
    bool quick;            /* figures are compared at the end of runs alone */
    size_t live_count;
    size_t live_bytes;
    size_t live_capacity;
    size_t peak_bytes;
    uint64_t words;
    struct place places[STAGE_PLACES];
};

/* A new arena with plans on `memory` (NULL: the default backing); cap 0: none. */
void stage_open(struct stage *stage, struct memory *memory, size_t cap);
/* An arena made elsewhere, with nothing live. */
void stage_on(struct stage *stage, struct hearth_exec *arena, struct memory *memory);
/* Nothing is live: destroys the arena. */
void stage_close(struct stage *stage);

/* All figures are as they must be. */
void stage_check(const struct stage *stage);

/* The number of the place, for the calls below. */
unsigned stage_take(struct stage *stage, size_t size);
enum hearth_status stage_try(struct stage *stage, const struct hearth_request *request,
                             unsigned *index);
void stage_give(struct stage *stage, unsigned index);
/* Compares the pattern and forgets the buffer, which the caller returns in another way. */
struct hearth_buf *stage_hand_over(struct stage *stage, unsigned index);
/* The pattern is there. */
void stage_verify(const struct stage *stage, unsigned index);
void stage_resize(struct stage *stage, unsigned index, size_t size, bool keep);
struct hearth_buf *stage_buf(const struct stage *stage, unsigned index);

/* A run of a script that can be stopped and looked at. */
struct play {
    struct stage *stage;
    const struct script *script;
    size_t at;    /* act */
    size_t takes; /* so far */
    bool keeps[SCRIPT_TAKES];
    unsigned places[SCRIPT_TAKES];
};

void play_begin(struct play *play, struct stage *stage, const struct script *script);
/* Up to and including request `number`. */
void play_to(struct play *play, size_t number);
void play_end(struct play *play);
/* Whether request `number` is live. */
bool play_live(const struct play *play, size_t number);
/* From now on request `number` is the caller's, and not returned by the script. */
unsigned play_keep(struct play *play, size_t number);

/* A whole run; returns how many of its requests were served by a plan. That is counted when the run ends. */
size_t play_run(struct stage *stage, const struct script *script);
/* The same between run_begin and run_end. */
size_t play_told(struct stage *stage, const struct script *script, uint64_t key);
/* A run that must be served by its plan wholly, without a backing call. */
void play_served(struct stage *stage, const struct script *script);
/* The two runs that teach, and one that is served. */
void play_learn(struct stage *stage, const struct script *script);

/* The stage's footprint is at most 1.05 times so much, and page rounding of one slab. */
void expect_compact(const struct stage *stage, size_t peak);

#endif
