# SPDX-License-Identifier: Apache-2.0
# What the tests of the hearth command have in common; sourced by them, with $hearth and $here set.
# In a sanitizer build ($sanitized) the promise of no faults is not checked.
# shellcheck shell=bash
python=/usr/bin/python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset HEARTH_CONF

checks=0
failures=0

pass() {
    checks=$((checks + 1))
}

fail() {
    checks=$((checks + 1))
    failures=$((failures + 1))
    echo "FAILED: $*" >&2
}

# run COMMAND...: output in $work/out and $work/err, status in $status.
run() {
    "$@" >"$work/out" 2>"$work/err"
    status=$?
}

# expect_status NAME WANTED
expect_status() {
    if [ "$status" -eq "$2" ]; then
        pass
    else
        fail "$1: exit status $status instead of $2: $(head -c 400 "$work/err")"
    fi
}

# expect_text NAME FILE TEXT: FILE ("out" or "err") contains TEXT.
expect_text() {
    if grep -qF -- "$3" "$work/$2"; then
        pass
    else
        fail "$1: no '$3' in: $(head -c 600 "$work/$2")"
    fi
}

# check_json NAME CHECK ARGUMENT...: a check of check_json.py on the output.
check_json() {
    local name=$1
    shift
    if "$python" "$here/check_json.py" "$@" <"$work/out" 2>"$work/why"; then
        pass
    else
        fail "$name: $(cat "$work/why")"
    fi
}

# impossible TEXT ARGUMENT...: refused with TEXT, which names the option.
impossible() {
    local text=$1
    shift
    run "$hearth" "$@"
    expect_status "hearth $*" 2
    expect_text "hearth $*" err "$text"
}

sanitized=no
if nm "$hearth" 2>/dev/null | grep -qE '__(asan|tsan)_init'; then
    sanitized=yes
fi
