/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demand: how many buffers of each size one thread may have out at the same time, in any order of execution.
 *
 * Two values of a plan can use one buffer, one after the other, in every order, if all users of the first come
 * before the producer of the second on some path: then the first is dead before the second is made, wherever and
 * whenever their nodes run. That is a partial order, and the values of one size class that can be live together
 * are an antichain of it. By Dilworth's theorem ("A decomposition theorem for partially ordered sets", Annals of
 * Mathematics 51, 1950) the largest antichain has as many values as the smallest cover of chains; a greedy cover
 * is enough here, since it is never smaller: as many buffers as it has chains serve any order.
 *
 * Cost: a bit for each pair of nodes, a pass over the edges, and for each value a look at the chains of its class.
 */
#include "runtime/demand.h"

#include <stdlib.h>
#include <string.h>

enum hearth_status hearth__demand_init(struct hearth__demand *demand,
                                       const struct hearth_plan *plan)
{
    demand->values = calloc(plan->value_count + 1, sizeof(*demand->values));
    demand->workspaces =
        calloc(plan->node_count * HEARTH__WORKSPACES_LEARNED + 1, sizeof(*demand->workspaces));
    if (demand->values != NULL && demand->workspaces != NULL)
        return HEARTH_OK;
    hearth__demand_fini(demand);
    return HEARTH_NO_MEMORY;
}

void hearth__demand_fini(struct hearth__demand *demand)
{
    free(demand->values);
    free(demand->workspaces);
    demand->values = NULL;
    demand->workspaces = NULL;
}

/* Four classes for each doubling, as the arenas have them. */
static size_t round_up(size_t bytes)
{
    if (bytes <= 256)
        return (bytes + 63) / 64 * 64;
    unsigned shift = 64u - (unsigned)__builtin_clzll((unsigned long long)bytes - 1) - 3;
    size_t step = (size_t)1 << shift;
    return bytes > SIZE_MAX - step ? bytes : (bytes + step - 1) / step * step;
}

static bool need_more(struct hearth__needs *needs, size_t bytes, size_t count)
{
    for (size_t i = 0; i < needs->count; i++) {
        if (needs->list[i].bytes == bytes) {
            needs->list[i].count += count;
            return true;
        }
    }
    if (needs->count == needs->room) {
        size_t room = needs->room * 2 + 16;
        struct hearth__need *list = realloc(needs->list, room * sizeof(*list));
        if (list == NULL)
            return false;
        needs->list = list;
        needs->room = room;
    }
    needs->list[needs->count++] = (struct hearth__need){bytes, count};
    return true;
}

/* Ancestors: bit b of row a says that b comes before a on some path. */
struct ancestors {
    uint64_t *bits;
    size_t words; /* of a row */
};

static uint64_t *row(const struct ancestors *ancestors, uint32_t node)
{
    return ancestors->bits + node * ancestors->words;
}

static bool comes_before(const struct ancestors *ancestors, uint32_t first, uint32_t node)
{
    return (row(ancestors, node)[first / 64] >> (first % 64) & 1) != 0;
}

static bool find_ancestors(const struct hearth_plan *plan, struct ancestors *ancestors)
{
    ancestors->words = plan->node_count / 64 + 1;
    ancestors->bits = calloc(plan->node_count + 1, ancestors->words * sizeof(uint64_t));
    if (ancestors->bits == NULL)
        return false;
    for (size_t step = 0; step < plan->node_count; step++) {
        uint32_t node = plan->order[step];
        const uint64_t *from = row(ancestors, node);
        for (uint32_t i = 0; i < plan->nodes[node].next.count; i++) {
            uint64_t *to = row(ancestors, plan->next[plan->nodes[node].next.first + i]);
            for (size_t word = 0; word < ancestors->words; word++)
                to[word] |= from[word];
            to[node / 64] |= (uint64_t)1 << (node % 64);
        }
    }
    return true;
}

/* The users of each value, as ranges of one array; a value that nobody uses lives as long as its producer runs. */
struct users {
    uint32_t *first; /* by value, and the end */
    uint32_t *nodes;
};

static bool find_users(const struct hearth_plan *plan, struct users *users)
{
    size_t total = 0;
    for (size_t i = 0; i < plan->node_count; i++)
        total += plan->nodes[i].uses.count;
    users->first = calloc(plan->value_count + 2, sizeof(*users->first));
    users->nodes = calloc(total + 1, sizeof(*users->nodes));
    if (users->first == NULL || users->nodes == NULL)
        return false;
    /* Counted one place further, so that filling moves each beginning to where it belongs. */
    for (size_t i = 0; i < plan->value_count; i++)
        users->first[i + 2] = plan->values[i].uses;
    for (size_t i = 2; i <= plan->value_count + 1; i++)
        users->first[i] += users->first[i - 1];
    for (uint32_t node = 0; node < plan->node_count; node++)
        for (uint32_t i = 0; i < plan->nodes[node].uses.count; i++)
            users->nodes[users->first[plan->uses[plan->nodes[node].uses.first + i] + 1]++] = node;
    return true;
}

/* Whether `value` is dead before `node` begins, in every order. */
static bool dead_before(const struct hearth_plan *plan, const struct ancestors *ancestors,
                        const struct users *users, uint32_t value, uint32_t node)
{
    uint32_t first = users->first[value];
    uint32_t end = users->first[value + 1];
    if (first == end)
        return comes_before(ancestors, plan->values[value].producer, node);
    for (uint32_t i = first; i < end; i++)
        if (!comes_before(ancestors, users->nodes[i], node))
            return false;
    return true;
}

/* The chains of the greedy cover, each known by its last value. */
struct chains {
    uint32_t *last;
    size_t *bytes; /* its class */
    size_t count;
};

static void chain(const struct hearth_plan *plan, const struct ancestors *ancestors,
                  const struct users *users, struct chains *chains, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < chains->count; i++) {
        if (chains->bytes[i] == bytes &&
            dead_before(plan, ancestors, users, chains->last[i], plan->values[value].producer)) {
            chains->last[i] = value;
            return;
        }
    }
    chains->last[chains->count] = value;
    chains->bytes[chains->count++] = bytes;
}

static void cover(const struct hearth__demand *demand, const struct hearth_plan *plan,
                  const struct ancestors *ancestors, const struct users *users,
                  struct chains *chains)
{
    for (size_t step = 0; step < plan->node_count; step++) {
        const struct hearth__plan_node *node = &plan->nodes[plan->order[step]];
        for (uint32_t i = 0; i < node->outputs.count; i++) {
            const struct hearth__output_slot *slot = &plan->outputs[node->outputs.first + i];
            if (slot->value == HEARTH__NO_VALUE || slot->role != HEARTH_ROLE_EXECUTION)
                continue;
            size_t largest = hearth__load_relaxed(&demand->values[slot->value]);
            if (largest != 0)
                chain(plan, ancestors, users, chains, slot->value, round_up(largest - 1));
        }
    }
}

/* A thread runs one node at a time: of each class, the most that any node asks for. */
static bool need_workspaces(const struct hearth__demand *demand, const struct hearth_plan *plan,
                            struct hearth__needs *needs)
{
    struct hearth__needs most = {NULL, 0, 0};
    bool done = true;
    for (size_t node = 0; node < plan->node_count && done; node++) {
        const hearth__largest *asked = &demand->workspaces[node * HEARTH__WORKSPACES_LEARNED];
        for (size_t i = 0; i < HEARTH__WORKSPACES_LEARNED && done; i++) {
            size_t largest = hearth__load_relaxed(&asked[i]);
            size_t count = 0;
            if (largest == 0)
                continue;
            size_t bytes = round_up(largest - 1);
            for (size_t j = 0; j <= i; j++) {
                size_t other = hearth__load_relaxed(&asked[j]);
                count += other != 0 && round_up(other - 1) == bytes;
            }
            size_t known = 0;
            for (size_t j = 0; j < most.count; j++)
                known = most.list[j].bytes == bytes ? most.list[j].count : known;
            if (count > known)
                done = need_more(&most, bytes, count - known);
        }
    }
    for (size_t i = 0; i < most.count && done; i++)
        done = need_more(needs, most.list[i].bytes, most.list[i].count);
    free(most.list);
    return done;
}

static int larger_first(const void *left, const void *right)
{
    size_t a = ((const struct hearth__need *)left)->bytes;
    size_t b = ((const struct hearth__need *)right)->bytes;
    return (a < b) - (a > b);
}

enum hearth_status hearth__demand_needs(const struct hearth__demand *demand,
                                        const struct hearth_plan *plan, struct hearth__needs *needs)
{
    if (plan->node_count > HEARTH__DEMAND_NODES_MAX)
        return HEARTH_OVERFLOW;
    *needs = (struct hearth__needs){NULL, 0, 0};
    struct ancestors ancestors = {NULL, 0};
    struct users users = {NULL, NULL};
    struct chains chains = {calloc(plan->value_count + 1, sizeof(*chains.last)),
                            calloc(plan->value_count + 1, sizeof(*chains.bytes)), 0};
    bool done = chains.last != NULL && chains.bytes != NULL && find_ancestors(plan, &ancestors) &&
                find_users(plan, &users);
    if (done)
        cover(demand, plan, &ancestors, &users, &chains);
    for (size_t i = 0; i < chains.count && done; i++)
        done = need_more(needs, chains.bytes[i], 1);
    done = done && need_workspaces(demand, plan, needs);
    free(chains.last);
    free(chains.bytes);
    free(ancestors.bits);
    free(users.first);
    free(users.nodes);
    if (!done) {
        free(needs->list);
        return HEARTH_NO_MEMORY;
    }
    if (needs->count != 0)
        qsort(needs->list, needs->count, sizeof(*needs->list), larger_first);
    return HEARTH_OK;
}

/* What a thread may keep of one class: two chains, of at most 32 buffers and about 64 KiB, below 64 KiB. What one
 * thread makes and another returns wanders from the one's to the other's. */
static size_t kept_by_thread(size_t bytes)
{
    const size_t chain_bytes = (size_t)64 << 10;
    if (bytes >= chain_bytes)
        return 0;
    size_t chain = bytes == 0 ? 32 : chain_bytes / bytes;
    chain = chain < 2 ? 2 : chain;
    return 2 * (chain < 32 ? chain : 32);
}

enum hearth_status hearth__demand_outputs(const struct hearth__demand *demand,
                                          const struct hearth_plan *plan, uint32_t threads,
                                          struct hearth__needs *needs)
{
    *needs = (struct hearth__needs){NULL, 0, 0};
    bool done = true;
    for (size_t i = 0; i < plan->output_count && done; i++) {
        size_t largest = hearth__load_relaxed(&demand->values[plan->declared[i]]);
        if (largest != 0)
            done = need_more(needs, round_up(largest - 1), 1);
    }
    for (size_t i = 0; i < needs->count; i++)
        needs->list[i].count += kept_by_thread(needs->list[i].bytes) * threads;
    if (!done) {
        free(needs->list);
        return HEARTH_NO_MEMORY;
    }
    if (needs->count != 0)
        qsort(needs->list, needs->count, sizeof(*needs->list), larger_first);
    return HEARTH_OK;
}
