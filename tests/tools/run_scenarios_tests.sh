#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_scenarios_tests.sh PATH_TO_HEARTH
# hearth scenarios from outside: what the five scenarios must show, serially and on executors of 2 and
# 8 threads; that a row that costs more is told, with the figure; impossible options. Not covered: that
# the tool's oracle finds wrong outputs and events, which the runtime would have to make.
set -u

if [ $# -ne 1 ]; then
    echo "usage: run_scenarios_tests.sh PATH_TO_HEARTH" >&2
    exit 2
fi
hearth=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

all=destroyed,kept,large-intermediates,alternating,trim

test_acceptance() {
    run "$hearth" scenarios --json --runs 10
    expect_status "all scenarios" 0
    check_json "all scenarios" scenarios $all 1,2,8 3 10 "$sanitized"
    # Another order of threads, more of them than the machine has, other inputs.
    run "$hearth" scenarios --json --runs 10 --threads 17,1 --seed 7 --scenario kept --scenario trim
    expect_status "some scenarios" 0
    check_json "some scenarios" scenarios kept,trim 17,1 3 10 "$sanitized"
    run "$hearth" scenarios --json --runs 3 --warmup 5 --threads 1 --scenario alternating
    expect_status "longer warm-up" 0
    check_json "longer warm-up" scenarios alternating 1 5 3 "$sanitized"
    run "$hearth" scenarios --runs 1 --threads 1 --scenario destroyed
    expect_status "as a table" 0
    expect_text "as a table" out "ms/run"
}

# What costs something is told, and which row and figure it is.
test_refusals() {
    run "$hearth" scenarios --json --runs 2 --warmup 0 --threads 1 --scenario destroyed,trim
    expect_status "no warm-up" 1
    expect_text "no warm-up" err "destroyed, 1 threads: backing_calls_per_run is"
    expect_text "no warm-up" err "trim, 1 threads: backing_calls_per_run is"
    check_json "no warm-up" failed backing_calls_per_run
    run env HEARTH_CONF=exec_cap:64K "$hearth" scenarios --json --runs 2 --threads 1,2 \
        --scenario kept
    expect_status "a cap" 1
    expect_text "a cap" err "kept, 2 threads: backing_calls_per_run is"
    check_json "a cap" failed backing_calls_per_run
    "$hearth" scenarios --runs 1 --threads 1 --scenario destroyed >/dev/full 2>"$work/err"
    status=$?
    expect_status "standard output is full" 1
}

test_options() {
    local many=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
    impossible "--threads '0': give numbers from 1 to 64" scenarios --threads 0
    impossible "--threads '65'" scenarios --threads 65
    impossible "--threads '1,'" scenarios --threads 1,
    impossible "--threads 'two'" scenarios --threads two
    impossible "at most 16 numbers" scenarios --threads $many
    impossible "--runs '0': give a number from 1" scenarios --runs 0
    impossible "--runs '99999999999999999999999'" scenarios --runs 99999999999999999999999
    impossible "--warmup '-1': give a number from 0" scenarios --warmup -1
    impossible "--warmup ''" scenarios --warmup ""
    impossible "--seed '0x1': give a number from 0" scenarios --seed 0x1
    impossible "--scenario 'keep': expected destroyed, kept" scenarios --scenario keep
    impossible "--scenario 'kept,'" scenarios --scenario kept,
    impossible "--scenario ''" scenarios --scenario ""
    impossible "unexpected argument 'kept'" scenarios kept
    impossible "unrecognized option '--fast'" scenarios --fast
    impossible "option '--runs' requires an argument" scenarios --runs
    run env HEARTH_CONF=exec_cap:lots "$hearth" scenarios
    expect_status "a bad HEARTH_CONF" 2
    expect_text "a bad HEARTH_CONF" err "HEARTH_CONF: "
    run "$hearth" scenarios --help
    expect_status "--help" 0
    expect_text "--help" out "Usage: hearth scenarios"
}

test_acceptance
test_refusals
test_options

echo "run_scenarios_tests: $checks checks, $failures failed"
[ "$failures" -eq 0 ]
