/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small model checker for C11 memory orders. A model is a handful of short threads over numbered
 * memory locations; the engine runs them again and again until every interleaving within the preemption
 * bound, and every stale value that a load may return, was tried. See docs/explorer.md.
 *
 * Threads are coroutines and must be deterministic: whatever they decide depends on the values that
 * they read only. Plain C variables of a model are bookkeeping that no thread could see; `start` resets
 * them.
 */
#ifndef HEARTH_STRESS_EXPLORER_H
#define HEARTH_STRESS_EXPLORER_H

#include <stdbool.h>
#include <stdint.h>

enum order { RELAXED, ACQUIRE, RELEASE, ACQ_REL };

#define EXPLORER_LOCATIONS 28
#define EXPLORER_THREADS 4

/* What one run of a scenario is: threads 0 .. count-1 from a start to a finish. */
struct scenario {
    const char *name;
    unsigned threads;
    void (*start)(void); /* set first values, reset bookkeeping */
    void (*run)(unsigned thread);
    void (*finish)(void); /* after all threads have ended; sees the last values. May be NULL. */
};

/* A planted bug. */
struct variant {
    const char *name;
    const char *what;
};

struct model {
    const char *name;
    const char *what;
    const char *const *locations;     /* names, for traces; ends with NULL */
    const struct scenario *scenarios; /* ends with a name of NULL */
    const struct variant *variants;   /* ends with a name of NULL */
};

/* Whether this run is of the model's variant with that place in the list. */
bool broken(unsigned variant);

/* Atomic accesses. Read-modify-writes return the value before. */
uint64_t load(unsigned location, enum order order);
void store(unsigned location, uint64_t value, enum order order);
uint64_t exchange(unsigned location, uint64_t value, enum order order);
uint64_t fetch_add(unsigned location, uint64_t value, enum order order);
uint64_t fetch_sub(unsigned location, uint64_t value, enum order order);
uint64_t fetch_or(unsigned location, uint64_t value, enum order order);
uint64_t fetch_and(unsigned location, uint64_t value, enum order order);
/* Strong. A failed one reads with acquire if the order has acquire, and leaves the value in *expected. */
bool cas(unsigned location, uint64_t *expected, uint64_t value, enum order order);

/* Wait for a value other than `value`, and read it. */
void await_not(unsigned location, uint64_t value, enum order order);

/* Process-wide: each thread's earlier stores are seen by each thread's later loads. It orders accesses
 * and makes nothing happen before anything, so data still need acquire and release. */
void membarrier(void);

/* Read sections and grace periods. */
void rcu_enter(void);
void rcu_leave(void);
void rcu_synchronize(void);

/* Plain memory: unordered accesses are a race, which is a finding. */
uint64_t data_read(unsigned location);
void data_write(unsigned location, uint64_t value);

/* In start: a first value that everybody sees. In finish: the last value. */
void initial(unsigned location, uint64_t value);
uint64_t final(unsigned location);

/* An assertion of the model; the first that fails ends the exploration with a trace. */
void require(bool condition, const char *what);

struct exploration {
    unsigned bound;
    unsigned variant; /* or EXPLORER_CLEAN */
    bool trace;
    uint64_t executions; /* out */
    uint64_t steps;      /* out */
};

#define EXPLORER_CLEAN UINT32_MAX

/* True if every execution was tried and nothing was found. */
bool explore(const struct model *model, const struct scenario *scenario,
             struct exploration *exploration);

#endif
