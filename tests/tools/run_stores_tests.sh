#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_stores_tests.sh PATH_TO_HEARTH SRC_DIR
# `hearth replay` with the stores of execution arenas: which are measured, beside what, a new thread for each
# run, faults put in. Not covered: times, which depend on the machine.
set -u

if [ $# -ne 2 ]; then
    echo "usage: run_stores_tests.sh PATH_TO_HEARTH SRC_DIR" >&2
    exit 2
fi
hearth=$1
traces=$2/tests/data/traces
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

# The stores one after the other, alone and beside malloc and jemalloc.
test_stores() {
    local trace=$traces/cls.csv store peers hearth_rows=hearth:lists,hearth:spans,hearth:plans
    for store in lists spans plans; do
        run "$hearth" replay --json --store $store --runs 2 --threads 1,2 "$trace"
        expect_status "store $store" 0
        check_json "store $store" stores "$trace" hearth:$store,hearth:$store
        run "$hearth" replay --json --store $store --allocator service --runs 2 --check lines "$trace"
        expect_status "store $store of a service" 0
        check_json "store $store of a service" stores "$trace" service:$store
        run env HEARTH_CONF=exec_store:$store "$hearth" replay --json --runs 1 "$trace"
        check_json "store $store by HEARTH_CONF" stores "$trace" hearth:$store
    done
    run "$hearth" replay --json --runs 1 "$trace"
    check_json "no store" stores "$trace" hearth:lists
    run "$hearth" replay --json --store plans,lists --allocator service,hearth --runs 1 "$trace"
    check_json "stores of both" stores "$trace" \
        service:plans,service:lists,hearth:plans,hearth:lists
    # Peers stand beside several stores where they can: not without jemalloc, or in a sanitizer build.
    run "$hearth" replay --json --store lists,spans,plans --runs 2 "$trace"
    expect_status "stores beside peers" 0
    for peers in malloc jemalloc; do
        if ! grep -qF "without $peers: --allocator $peers" "$work/err"; then
            hearth_rows=$hearth_rows,$peers
        fi
    done
    check_json "stores beside peers" stores "$trace" "$hearth_rows"
    run "$hearth" replay --store lists,plans --allocator hearth --runs 1 "$trace"
    expect_status "stores as a table" 0
    expect_text "stores as a table" out "served"
    run "$hearth" replay --json --allocator broken,hearth --runs 1 "$traces/vad.csv"
    expect_status "a broken allocator among others" 1
}

# Each run on a thread that was not there before: still nothing from the backing.
test_fresh_threads() {
    local trace=$traces/rec.csv allocator
    run "$hearth" replay --json --fresh-threads --store lists --runs 3 --threads 1,2 "$trace"
    expect_status "fresh threads" 0
    check_json "fresh threads" stores "$trace" service:lists,service:lists
    check_json "fresh threads" row fresh_threads=1 backing_calls_per_run=0
    run "$hearth" replay --json --fresh-threads --allocator hearth --store plans --tell-runs --runs 2 \
        "$trace"
    expect_status "fresh threads of arenas" 0
    check_json "fresh threads of arenas" row fresh_threads=1 runs_told=1
    run "$hearth" replay --json --fresh-threads --store plans --runs 2 --consumers 2 --hold 1 \
        "$traces/detvar.csv"
    expect_status "fresh threads and consumers" 0
    check_json "fresh threads and consumers" row fresh_threads=1 errors=0 io_storages_created=0
    for allocator in malloc jemalloc broken; do
        run "$hearth" replay --json --fresh-threads --allocator $allocator --runs 1 "$traces/vad.csv"
        [ "$status" -ne 2 ] || grep -qF -- "--allocator $allocator: " "$work/err" ||
            fail "fresh threads of $allocator: $(cat "$work/err")"
    done
    impossible "--fresh-threads: $traces/det640_parallel.csv has 2 threads" replay --fresh-threads \
        "$traces/vad.csv" "$traces/det640_parallel.csv"
}

test_told_runs() {
    local store
    for store in lists plans; do
        run "$hearth" replay --json --tell-runs --store $store --runs 2 --threads 1,2 \
            "$traces/det640_parallel.csv"
        expect_status "told runs, $store" 0
        check_json "told runs, $store" stores "$traces/det640_parallel.csv" hearth:$store,hearth:$store
        check_json "told runs, $store" row runs_told=1
    done
}

# What plans promise: one pass of warm-up is two runs of each kind.
test_plan_figures() {
    local allocator name
    for allocator in hearth service; do
        for name in cls det320 det640 det640_parallel detvar rec vad; do
            run "$hearth" replay --json --store plans --allocator $allocator --warmup 1 --runs 2 \
                "$traces/$name.csv"
            expect_status "plans of $name" 0
            check_json "plans of $name, $allocator" planned "$sanitized"
        done
    done
    run "$hearth" replay --json --store plans --threads 2 --warmup 1 --runs 2 --tell-runs \
        "$traces/det320.csv" "$traces/detvar.csv"
    check_json "plans of clones" planned "$sanitized"
    for name in det640 rec detvar; do
        run "$hearth" replay --json --store plans --fresh-threads --warmup 1 --runs 3 \
            "$traces/$name.csv"
        check_json "plans of fresh threads, $name" planned "$sanitized"
        check_json "plans of fresh threads, $name" one_slab
    done
}

# Runs that are not as they were: no overlap, and the same runs again for the same seed.
test_inject() {
    local store kind trace=$traces/cls.csv all=late,swap,extra,missing,resize
    local figures="errors faults_injected ops_per_run plan_share_of_all plan_blocked"
    for store in lists spans plans; do
        run "$hearth" replay --json --inject 3 --store $store --runs 4 --threads 1,2 "$trace"
        expect_status "inject, $store" 0
        check_json "inject, $store" injected "$trace" 3 $all 1
        cp "$work/out" "$work/first"
        run "$hearth" replay --json --inject 3:$all --seed 1 --store $store --runs 4 --threads 1,2 \
            "$trace"
        # shellcheck disable=SC2086 # words
        check_json "inject twice, $store" same "$work/first" yes $figures
        run "$hearth" replay --json --inject 3 --seed 2 --store $store --runs 4 --threads 1,2 "$trace"
        check_json "inject with another seed, $store" injected "$trace" 3 $all 2
        check_json "inject with another seed, $store" same "$work/first" no faults_injected ops_per_run
    done
    for kind in late swap extra missing resize; do
        run "$hearth" replay --json --inject 10:$kind --store plans --runs 3 "$trace"
        expect_status "inject $kind" 0
        check_json "inject $kind" injected "$trace" 10 $kind 1
    done
    run "$hearth" replay --json --inject 0.3:late,extra --store plans --allocator service --runs 3 \
        "$traces/det640_parallel.csv"
    expect_status "inject into two threads" 0
    check_json "inject into two threads" injected "$traces/det640_parallel.csv" 0.3 late,extra 1
    # Everywhere: what is left of cls is its output, of others twice as many allocations.
    run "$hearth" replay --json --inject 100:missing --runs 2 "$trace"
    check_json "inject everywhere" row errors=0 faults_injected=732 ops_per_run=2
    run "$hearth" replay --json --inject 100:extra --store plans --runs 2 "$trace"
    check_json "inject everywhere" row errors=0 faults_injected=732 ops_per_run=734
    run "$hearth" replay --json --inject 5 --allocator broken --runs 2 "$traces/vad.csv"
    expect_status "inject, broken allocator" 1
    expect_text "inject, broken allocator" err "was overwritten at offset"
    run "$hearth" replay --inject 1 --store plans --runs 1 "$traces/vad.csv"
    expect_status "inject as a table" 0
}

# Plans hold although runs are not quite as they were: many runs, as what is tried in vain is tried ever more seldom.
test_plans_under_faults() {
    local seed
    for seed in 1 2; do
        run "$hearth" replay --json --store plans --warmup 1 --runs 40 --inject 0.3 --seed $seed \
            --check pages "$traces/det320.csv" "$traces/rec.csv" "$traces/cls.csv"
        expect_status "0.3 % of faults" 0
        check_json "0.3 % of faults" served 0.95 0.85
        run "$hearth" replay --json --store plans --warmup 1 --runs 40 --inject 3 --seed $seed \
            --check pages "$traces/det320.csv" "$traces/rec.csv" "$traces/cls.csv"
        expect_status "3 % of faults" 0
        check_json "3 % of faults" served 0.75 0.5
    done
}

test_options() {
    local argument trace=$traces/vad.csv
    impossible "--allocator 'tcmalloc': expected hearth, service, malloc or jemalloc" replay \
        --allocator hearth,tcmalloc "$trace"
    impossible "--allocator '': expected hearth" replay --allocator "" "$trace"
    impossible "--store 'list': expected lists, spans or plans" replay --store list "$trace"
    impossible "--store '': expected lists, spans or plans" replay --store plans, "$trace"
    impossible "--store 'plans ': expected lists" replay --store "plans " "$trace"
    impossible "at most 8 names" replay --store plans,plans,plans,plans,plans,plans,plans,plans,lists \
        "$trace"
    impossible "--store is an option of" replay --store plans --allocator malloc,jemalloc "$trace"
    impossible "option '--store' requires an argument" replay "$trace" --store
    run env HEARTH_CONF=exec_store:plans "$hearth" replay --store lists "$trace"
    expect_status "a store twice" 2
    expect_text "a store twice" err "HEARTH_CONF says exec_store:plans"
    impossible "--inject '': give a rate from 0.0001 to 100 per cent" replay --inject "" "$trace"
    for argument in 0 0.00001 100.1 -1 .5 5. 1e-1 1.2.3 3%; do
        impossible "--inject '$argument': give a rate from 0.0001 to 100" replay --inject $argument "$trace"
    done
    impossible "--inject 'early': expected late, swap, extra, missing or resize" replay \
        --inject 3:late,early "$trace"
    impossible "--inject '': expected late, swap" replay --inject 3: "$trace"
    impossible "--inject goes neither with" replay --inject 3 --consumers 1 "$trace"
    impossible "--inject goes neither with" replay --inject 3 --fresh-threads "$trace"
    impossible "--seed 7: it chooses faults: give --inject" replay --seed 7 "$trace"
    impossible "--seed 'x': give a number from 0" replay --inject 3 --seed x "$trace"
    run "$hearth" replay --help
    expect_text "replay --help" out "--store=NAME"
    if grep -q row-fd "$work/out"; then
        fail "replay --help tells of what is not for users"
    fi
}

test_stores
test_fresh_threads
test_told_runs
test_plan_figures
test_inject
test_plans_under_faults
test_options

echo "run_stores_tests: $checks checks, $failures failed"
[ "$failures" -eq 0 ]
