/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an I/O arena of src/concurrent/io_life.c under sequential consistency: returns by threads
 * with a section of their own, against close, the protected period and the sum of the cells.
 * Variants NO_GRACE: the cells are summed at once. UNBIASED: outstanding starts at 1. EARLY: a return
 * subtracts itself before its last touch of the arena.
 */
#define THREADS 2
#define RETURNS 2
#define OUT 4 /* THREADS * RETURNS */
#ifdef UNBIASED
#define BIAS 1
#else
#define BIAS 100
#endif

bool closed, gone
bool busy[THREADS]
byte cell_in[THREADS]
short outstanding = BIAS
byte ends

inline finish()
{
    ends++
    assert(ends == 1)
    gone = true
}

inline came_home()
{
    atomic {
        outstanding--
        if
        :: outstanding == 0 -> finish()
        :: else
        fi
    }
}

proctype returner(byte self)
{
    byte returned
    bool late
    for (returned : 1 .. RETURNS) {
        busy[self] = true
        late = closed
#ifdef EARLY
        if
        :: late -> came_home()
        :: else
        fi
#endif
        assert(!gone)
        if
        :: !late -> cell_in[self] = cell_in[self] + 1
        :: else
        fi
        busy[self] = false
#ifndef EARLY
        if
        :: late -> came_home()
        :: else
        fi
#endif
    }
}

proctype closer()
{
    byte thread
    short live = OUT
    closed = true
#ifndef NO_GRACE
    for (thread : 0 .. THREADS - 1) {
        !busy[thread]
    }
#endif
    for (thread : 0 .. THREADS - 1) {
        assert(!gone)
        live = live - cell_in[thread]
    }
    atomic {
        outstanding = outstanding + live - BIAS
        if
        :: outstanding == 0 -> finish()
        :: else
        fi
    }
}

init
{
    byte thread
    atomic {
        for (thread : 0 .. THREADS - 1) {
            run returner(thread)
        }
        run closer()
    }
    _nr_pr == 1
    assert(ends == 1)
}
