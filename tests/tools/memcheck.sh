#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# memcheck.sh VALGRIND PROGRAM: valgrind sees a read of returned storage, and nothing in a clean run.
set -u

valgrind=$1
program=$2
report=$(mktemp)
trap 'rm -f "$report"' EXIT

fail() {
    echo "memcheck: $1" >&2
    cat "$report" >&2
    exit 1
}

"$valgrind" --error-exitcode=9 --log-file="$report" "$program" clean >/dev/null ||
    fail "a clean run is reported"

"$valgrind" --error-exitcode=9 --log-file="$report" "$program" wrong >/dev/null
[ $? -eq 9 ] || fail "a use after return goes unseen"
grep -q "Invalid read of size 1" "$report" || fail "no invalid read is reported"
grep -q "exec_use" "$report" || fail "the execution arena's is missing"
grep -q "io_use" "$report" || fail "the I/O arena's is missing"
