/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tagged stack of src/concurrent/stack.h under sequential consistency: two threads, two rounds each of
 * popping one slot or two and pushing them again in either order.
 * Variant UNTAGGED: a pop does not move the tag.
 */
#define SLOTS 3
#define THREADS 2
#define ROUNDS 2
#define TAGS 64 /* more than there are pops: it does not come round */

byte top, tag
byte below[SLOTS + 1]
bool held[SLOTS + 1]
byte ended

/* Each step on shared memory is one statement; reading {tag, top} is one, and so is the CAS. */
inline pop(slot)
{
    do
    :: d_step { seen = top; seen_tag = tag }
       if
       :: seen == 0 -> slot = 0; break
       :: else
       fi
       next = below[seen]
       atomic {
           if
           :: top == seen && tag == seen_tag ->
#ifndef UNTAGGED
              tag = (tag + 1) % TAGS
#endif
              top = next
              slot = seen
              assert(!held[slot])
              held[slot] = true
              break
           :: else
           fi
       }
    od
}

inline push(slot)
{
    held[slot] = false
    do
    :: d_step { seen = top; seen_tag = tag }
       below[slot] = seen
       atomic {
           if
           :: top == seen && tag == seen_tag -> top = slot; break
           :: else
           fi
       }
    od
}

inline push_if(slot)
{
    if
    :: slot != 0 -> push(slot)
    :: else
    fi
    slot = 0
}

proctype thread()
{
    byte seen, seen_tag, next, first, second, round
    for (round : 1 .. ROUNDS) {
        pop(first)
        if
        :: true -> pop(second)
        :: true
        fi
        if
        :: true -> push_if(first); push_if(second)
        :: true -> push_if(second); push_if(first)
        fi
    }
    ended++
}

/* All slots are there again in the end, each once. */
init
{
    byte slot, count
    atomic {
        top = 1
        for (slot : 1 .. SLOTS - 1) {
            below[slot] = slot + 1
        }
        for (slot : 1 .. THREADS) {
            run thread()
        }
    }
    ended == THREADS
    slot = top
    do
    :: slot != 0 ->
       count++
       assert(count <= SLOTS)
       slot = below[slot]
    :: else -> break
    od
    assert(count == SLOTS)
}
