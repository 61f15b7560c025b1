/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of a model do to memory: each atomic access is a point where another thread may go on,
 * and a load is a choice between the values it may see. Plain accesses are neither: if their order
 * matters, it is a race, which is found wherever they happen. */
#include "engine.h"
#include "explorer.h"
#include "memory.h"

uint64_t load(unsigned location, enum order order)
{
    engine_point();
    unsigned age = engine_choose(memory_readable(engine_current(), location));
    uint64_t value = memory_load(engine_current(), location, age, order);
    engine_note("load", location, order, value, value, age);
    return value;
}

void store(unsigned location, uint64_t value, enum order order)
{
    engine_point();
    engine_note("store", location, order, memory_latest(location), value, 0);
    memory_store(engine_current(), location, value, order);
}

static uint64_t update(const char *what, unsigned location, uint64_t before, uint64_t after,
                       enum order order)
{
    memory_update(engine_current(), location, after, order);
    engine_note(what, location, order, before, after, 0);
    return before;
}

uint64_t exchange(unsigned location, uint64_t value, enum order order)
{
    engine_point();
    return update("exchange", location, memory_latest(location), value, order);
}

uint64_t fetch_add(unsigned location, uint64_t value, enum order order)
{
    engine_point();
    uint64_t before = memory_latest(location);
    return update("fetch_add", location, before, before + value, order);
}

uint64_t fetch_sub(unsigned location, uint64_t value, enum order order)
{
    engine_point();
    uint64_t before = memory_latest(location);
    return update("fetch_sub", location, before, before - value, order);
}

uint64_t fetch_or(unsigned location, uint64_t value, enum order order)
{
    engine_point();
    uint64_t before = memory_latest(location);
    return update("fetch_or", location, before, before | value, order);
}

uint64_t fetch_and(unsigned location, uint64_t value, enum order order)
{
    engine_point();
    uint64_t before = memory_latest(location);
    return update("fetch_and", location, before, before & value, order);
}

bool cas(unsigned location, uint64_t *expected, uint64_t value, enum order order)
{
    engine_point();
    uint64_t before = memory_latest(location);
    if (before == *expected) {
        (void)update("cas", location, before, value, order);
        return true;
    }
    enum order failed = order == ACQ_REL || order == ACQUIRE ? ACQUIRE : RELAXED;
    *expected = memory_load(engine_current(), location, 0, failed);
    engine_note("cas failed", location, failed, before, before, 0);
    return false;
}

uint64_t data_read(unsigned location)
{
    uint64_t value;
    bool ordered = memory_data_read(engine_current(), location, &value);
    engine_note("read", location, RELAXED, value, value, 0);
    if (!ordered)
        engine_fail("a race: this read and another thread's write are unordered");
    return value;
}

void data_write(unsigned location, uint64_t value)
{
    bool ordered = memory_data_write(engine_current(), location, value);
    engine_note("write", location, RELAXED, value, value, 0);
    if (!ordered)
        engine_fail("a race: this write and another thread's access are unordered");
}
