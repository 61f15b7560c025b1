/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ready set and crew of src/runtime/ready.c under sequential consistency: a diamond of four steps, run twice by a
 * caller and the calls of an executor, which come whenever they like, also in the next run and after the end.
 * Variants: BLIND, the caller goes to sleep by a store; EARLY, the end does not wait for calls that have not left;
 * LATE_BIT, a step is counted before its bit is set and a claimant does not look again.
 */
#define STEPS 4
#define LIMIT 2 /* helpers at a time */
#define RUNS 2

/* The word. */
byte queued, running, helpers
bool asleep, disbanded

bool bits[STEPS]
byte waits[STEPS]
byte ran[STEPS]
byte semaphore
byte pending /* calls that were asked for and have not come */
bool freed
bool over /* between runs: nobody may run a step */

/* A snapshot in local variables, and the CAS on it. */
inline look()
{
    d_step { q = queued; r = running; h = helpers; a = asleep }
}

#define UNCHANGED (queued == q && running == r && helpers == h && asleep == a)

/* Takes any bit that is set. */
inline take(step)
{
    assert(!freed)
#ifdef LATE_BIT
    d_step {
        step = 0
        do
        :: step < STEPS && !bits[step] -> step++
        :: else -> break
        od
        assert(step < STEPS)
        bits[step] = false
    }
#else
    if
    :: atomic { bits[0] -> bits[0] = false; step = 0 }
    :: atomic { bits[1] -> bits[1] = false; step = 1 }
    :: atomic { bits[2] -> bits[2] = false; step = 2 }
    :: atomic { bits[3] -> bits[3] = false; step = 3 }
    fi
#endif
}

/* Count `count` steps that were put, and without `keep` one that is complete. */
inline advance(count, keep)
{
    do
    :: look()
       d_step {
           nq = q + count
           nr = (keep -> r : r - 1)
           wake = a && (count != 0 || (nq == 0 && nr == 0))
           want = (wake && count != 0 -> count - 1 : count)
           want = (want < LIMIT - h -> want : LIMIT - h)
       }
       atomic {
           if
           :: UNCHANGED ->
              queued = nq; running = nr; helpers = h + want
              asleep = (wake -> false : a)
              break
           :: else
           fi
       }
    od
    if
    :: wake -> semaphore++
    :: else
    fi
    pending = pending + want
}

inline put(step)
{
    assert(!bits[step])
    bits[step] = true
}

inline count_down(step, ready)
{
    d_step {
        waits[step]--
        ready = (waits[step] == 0 -> 1 : 0)
    }
}

/* From a claimed step on, as long as each leads to another. */
inline chain(step)
{
    do
    :: assert(!over && !freed)
       d_step {
           ran[step]++
           assert(ran[step] == 1)
           assert(step == 0 || ran[0] == 1)
           assert(step != 3 || (ran[1] == 1 && ran[2] == 1))
       }
       if
       :: step == 0 ->
#ifdef LATE_BIT
          advance(1, true)
          put(2)
#else
          put(2)
          advance(1, true)
#endif
          step = 1
       :: step == 1 || step == 2 ->
          count_down(3, got)
          if
          :: got == 1 -> step = 3
          :: else -> advance(0, false); break
          fi
       :: step == 3 -> advance(0, false); break
       fi
    od
}

/* The executor's threads: each takes whatever call is there. */
proctype thread()
{
    byte q, r, h, nq, nr, want, step, got
    bool a, wake, last
end:
    do
    :: atomic { pending > 0 -> pending-- }
       do
       :: assert(!freed)
          look()
          last = false
          if
          :: q > 0 ->
             atomic {
                 if
                 :: UNCHANGED -> queued--; running++; got = 1
                 :: else -> got = 0
                 fi
             }
             if
             :: got == 1 -> take(step); chain(step)
             :: else
             fi
          :: else ->
             atomic {
                 if
                 :: UNCHANGED -> helpers--; last = disbanded && helpers == 0; got = 1
                 :: else -> got = 0
                 fi
             }
             if
             :: got == 1 -> break
             :: else
             fi
          fi
       od
       if
       :: last -> assert(!freed); freed = true
       :: else
       fi
    od
}

init
{
    byte q, r, h, nq, nr, want, step, got, round
    bool a, wake
    atomic { run thread(); run thread() }
    for (round : 1 .. RUNS) {
        d_step {
            for (step : 0 .. STEPS - 1) { ran[step] = 0 }
            waits[3] = 2
            over = false
        }
        put(0)
        queued++ /* announce: one step, and the caller comes for it */
        do
        :: look()
           if
           :: q > 0 ->
              atomic {
                  if
                  :: UNCHANGED -> queued--; running++; got = 1
                  :: else -> got = 0
                  fi
              }
              if
              :: got == 1 -> take(step); chain(step)
              :: else
              fi
           :: q == 0 && r == 0 -> break
           :: else ->
#ifdef BLIND
              asleep = true
              got = 1
#else
              atomic {
                  if
                  :: UNCHANGED -> asleep = true; got = 1
                  :: else -> got = 0
                  fi
              }
#endif
              if
              :: got == 1 -> atomic { semaphore > 0 -> semaphore-- }
              :: else
              fi
           fi
        od
        over = true
        assert(ran[0] + ran[1] + ran[2] + ran[3] == STEPS)
        assert(semaphore == 0 && !asleep)
    }
#ifdef EARLY
    freed = true
#else
    atomic {
        disbanded = true
        got = (helpers == 0 -> 1 : 0)
    }
    if
    :: got == 1 -> freed = true
    :: else
    fi
#endif
    freed /* by whoever is last */
}
