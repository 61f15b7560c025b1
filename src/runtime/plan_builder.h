/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a plan comes to be. A builder keeps records of what it was given; building goes through them
 * in stages, each in a file of its own:
 *
 *     plan_values.c   numbers for names, producers, declared outputs; refusals that name a value
 *     plan_order.c    who waits for whom, the serial order, cycles
 *     plan_uses.c     roles, uses, deaths
 *     plan_last.c     which inputs an output may take over
 */
#ifndef HEARTH_RUNTIME_PLAN_BUILDER_H
#define HEARTH_RUNTIME_PLAN_BUILDER_H

#include "runtime/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A node as it was given, in one allocation with its texts. */
struct hearth__node_record {
    struct hearth_node node; /* its pointers lead into `slots` and behind; names are never NULL */
    size_t used_outputs;
    size_t name_bytes; /* with the NUL; 0 for no name */
    const char *slots[];
};

struct hearth_plan_builder {
    struct hearth__names inputs;  /* initial inputs by number */
    struct hearth__names outputs; /* declared outputs by number */
    struct hearth__node_record **records;
    size_t count; /* nodes */
    size_t room;  /* of records */
    /* Sums over the nodes. */
    size_t input_slots;
    size_t output_slots;
    size_t used_outputs;
    size_t body_count;
    size_t name_bytes;
};

/* One line of text in a buffer that may be too short, or absent. */
struct hearth__message {
    char *text;
    size_t bytes;
    size_t used; /* without the NUL */
};

void hearth__message_add(struct hearth__message *message, const char *text);
void hearth__message_value(struct hearth__message *message, const char *value);
/* By name, or by number where there is none. */
void hearth__message_node(struct hearth__message *message,
                          const struct hearth_plan_builder *builder, size_t node);

/* A build in progress: the plan as far as it is known, and room for the stages. */
struct hearth__build {
    const struct hearth_plan_builder *builder;
    struct hearth_plan *plan;
    struct hearth__message message;
    void *scratch;
    /* By node. */
    uint32_t *node_mark;
    uint32_t *left; /* nodes it still waits for */
    uint32_t *heap;
    uint64_t *reached; /* by step */
    /* By value. */
    uint32_t *value_mark;
    uint32_t *first_step; /* of its users */
    uint8_t *question;    /* plan_last.c: 1 and up within a sweep */
};

/* Each stage returns OK, or INVALID and has written the message. */
enum hearth_status hearth__plan_number_values(struct hearth__build *build);
enum hearth_status hearth__plan_order(struct hearth__build *build);
/* These cannot fail. */
void hearth__plan_find_uses(struct hearth__build *build);
void hearth__plan_find_deaths(struct hearth__build *build);
void hearth__plan_find_last(struct hearth__build *build);

/* Turns the counts of ranges into a layout: each `first` is the sum of the counts before it, and
 * counts are 0, to be filled again. `field` is a member of struct hearth__plan_node. */
#define HEARTH__LAY_OUT(plan, field)                                                               \
    do {                                                                                           \
        uint32_t first_ = 0;                                                                       \
        for (size_t i_ = 0; i_ < (plan)->node_count; i_++) {                                       \
            struct hearth__range *range_ = &(plan)->nodes[i_].field;                               \
            range_->first = first_;                                                                \
            first_ += range_->count;                                                               \
            range_->count = 0;                                                                     \
        }                                                                                          \
    } while (0)

#endif
