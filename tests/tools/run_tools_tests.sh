#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_tools_tests.sh PATH_TO_HEARTH SRC_DIR
# The hearth command from outside: replays of the shipped traces, what malformed traces and
# impossible options are answered with, doctor on this machine and on made-up ones. Not covered:
# the figures themselves on other allocators, which depend on the machine.
# In a sanitizer build the promise of no faults is not checked.
set -u

if [ $# -ne 2 ]; then
    echo "usage: run_tools_tests.sh PATH_TO_HEARTH SRC_DIR" >&2
    exit 2
fi
hearth=$1
traces=$2/tests/data/traces
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

# With HEARTH_JEMALLOC=system the tool's malloc is jemalloc's.
glibc=yes
if ldd "$hearth" 2>/dev/null | grep -q libjemalloc; then
    glibc=no
fi

test_replay() {
    local name conf threads=1,2,4
    # Several times slower there; one number of clones sees what they can do to each other.
    [ "$sanitized" = no ] || threads=2
    for name in cls det320 det640 det640_parallel detvar rec vad; do
        run "$hearth" replay --json --runs 2 --warmup 3 --threads "$threads" "$traces/$name.csv"
        expect_status "replay $name" 0
        check_json "replay $name" replay "$traces/$name.csv" hearth "$threads" 2 "$sanitized"
    done
    run "$hearth" replay --json --check lines --runs 1 --threads 2 "$traces/cls.csv" \
        "$traces/vad.csv" "$traces/det640_parallel.csv"
    expect_status "replay --check lines" 0
    # Whatever the clones have out in the same moment was out together before the first pass. With
    # debug:poison all they give back goes through lists that they share.
    for conf in "" debug:poison; do
        run env HEARTH_CONF=$conf "$hearth" replay --json --runs 1 --warmup 0 --threads 1,4 \
            "$traces/vad.csv" "$traces/detvar.csv"
        expect_status "replay without warm-up, '$conf'" 0
        check_json "replay without warm-up, '$conf'" row errors=0 io_storages_created=0
    done
    run "$hearth" replay --json --backing mmap --runs 1 "$traces/vad.csv"
    expect_status "replay --backing mmap" 0
    check_json "replay --backing mmap" backing mmap
    if [ "$glibc" = yes ]; then
        run "$hearth" replay --json --allocator malloc --runs 1 --threads 2 "$traces/rec.csv"
        expect_status "replay malloc" 0
        check_json "replay malloc" replay "$traces/rec.csv" malloc 2 1 yes
    else
        impossible "--allocator malloc: jemalloc replaces malloc" replay --allocator malloc \
            "$traces/rec.csv"
    fi
    run "$hearth" replay --runs 1 --warmup 0 "$traces/vad.csv"
    expect_status "replay as a table" 0
    expect_text "replay as a table" out "ms/run"
}

# Outputs that others hold on to: still no fault, no backing call, and nothing created.
test_consumers() {
    local name hold
    for name in cls det320 det640 det640_parallel detvar rec vad; do
        run "$hearth" replay --json --runs 2 --threads 1,2 --consumers 2 --hold 1 \
            "$traces/$name.csv"
        expect_status "consumers $name" 0
        check_json "consumers $name" consumers "$traces/$name.csv" hearth 1,2 2 2 1 "$sanitized"
    done
    # More consumers than outputs, and clones that meet in the shared arena again and again.
    run "$hearth" replay --json --runs 20 --threads 1,4 --consumers 5 --hold 3 "$traces/vad.csv"
    expect_status "many consumers" 0
    check_json "many consumers" consumers "$traces/vad.csv" hearth 1,4 20 5 3 "$sanitized"
    run "$hearth" replay --json --runs 2 --consumers 1 "$traces/vad.csv"
    expect_status "consumers that hold nothing" 0
    check_json "consumers that hold nothing" consumers "$traces/vad.csv" hearth 1 2 1 0 "$sanitized"
    for hold in 0 1 2; do
        run "$hearth" replay --json --runs 1 --threads 1,2 --consumers 2 --hold $hold \
            "$traces/det320.csv" "$traces/detvar.csv" "$traces/vad.csv"
        expect_status "hold $hold" 0
        cp "$work/out" "$work/hold$hold"
    done
    for hold in 0 1; do
        cp "$work/hold$hold" "$work/out"
        check_json "hold $((hold + 1)) after $hold" longer_hold "$work/hold$((hold + 1))"
    done
    run "$hearth" replay --json --runs 1 --warmup 0 --consumers 1 --hold 2 "$traces/vad.csv"
    check_json "warm-up is raised" row warmup=5 errors=0
    run "$hearth" replay --json --runs 1 --warmup 9 --consumers 1 --hold 2 "$traces/vad.csv"
    check_json "warm-up is enough" row warmup=9 errors=0
    if [ "$glibc" = yes ]; then
        run "$hearth" replay --json --allocator malloc --runs 1 --threads 2 --consumers 2 --hold 1 \
            "$traces/rec.csv"
        expect_status "consumers malloc" 0
        check_json "consumers malloc" consumers "$traces/rec.csv" malloc 2 1 2 1 yes
    fi
    run "$hearth" replay --runs 1 --consumers 2 --hold 1 "$traces/vad.csv"
    expect_status "consumers as a table" 0
    expect_text "consumers as a table" out "I/O created"
}

# Outputs of odd traces: freed in a later run, by another thread or never; of size 0; too large.
test_odd_outputs() {
    local head=run,op,id,bytes,thread
    printf '%s\n' $head 0,alloc,1,0,0 0,export,1,0,0 0,alloc,2,9000,0 0,export,2,9000,1 \
        0,alloc,3,70000,1 1,free,2,9000,1 1,free,1,0,0 1,export,3,70000,0 1,alloc,4,300,0 \
        1,export,4,300,0 >"$work/outputs.csv"
    run "$hearth" replay --json --runs 3 --threads 1,2 --consumers 3 --hold 2 "$work/outputs.csv"
    expect_status "odd outputs" 0
    check_json "odd outputs" row errors=0 io_storages_created=0 backing_calls_per_run=0
    run "$hearth" replay --json --runs 3 --threads 3 "$work/outputs.csv"
    expect_status "odd outputs without consumers" 0
    check_json "odd outputs without consumers" row errors=0 io_storages_created=0 \
        io_leased_buffers=0
    printf '%s\n' $head 0,alloc,1,18446744073709551615,0 0,export,1,18446744073709551615,0 \
        0,alloc,2,8,0 0,export,2,8,0 >"$work/outputs.csv"
    run "$hearth" replay --json --runs 1 --consumers 2 --hold 1 "$work/outputs.csv"
    expect_status "output refused" 1
    expect_text "output refused" err "alloc of id 1"
    # More outputs than a queue has room for.
    {
        echo $head
        seq -f '0,alloc,%.0f,64,0' 1 2000
        seq -f '0,export,%.0f,64,0' 1 2000
        seq -f '0,free,%.0f,64,0' 1 2000
    } >"$work/outputs.csv"
    run "$hearth" replay --json --runs 2 --threads 2 --consumers 2 --hold 1 "$work/outputs.csv"
    expect_status "many outputs" 0
    check_json "many outputs" row errors=0 io_storages_created=0 io_leased_buffers=4000
}

# An allocator that is wrong on purpose must be found out.
test_oracle() {
    run "$hearth" replay --json --allocator broken --runs 1 --threads 2 "$traces/vad.csv"
    expect_status "broken allocator" 1
    check_json "broken allocator" errors
    expect_text "broken allocator" err "was overwritten at offset"
    expect_text "broken allocator" err "free of id"
    expect_text "broken allocator" err "STALE"
    expect_text "broken allocator" err "errors in all"
    run "$hearth" replay --json --allocator broken --runs 2 --consumers 2 --hold 1 "$traces/vad.csv"
    expect_status "broken outputs" 1
    check_json "broken outputs" errors
    expect_text "broken outputs" err "while a consumer had it"
    expect_text "broken outputs" err "free by a consumer of id"
}

test_jemalloc() {
    run "$hearth" replay --json --allocator jemalloc --runs 1 --threads 2 "$traces/cls.csv"
    if [ "$status" -eq 0 ]; then
        check_json "replay jemalloc" replay "$traces/cls.csv" jemalloc 2 1 yes
    else
        expect_status "replay jemalloc" 2
        expect_text "replay jemalloc" err "--allocator jemalloc: "
    fi
    if [ "$glibc" = yes ]; then
        export HEARTH_REPLAY_PRELOADED=1
        impossible "--allocator jemalloc: " replay --allocator jemalloc "$traces/cls.csv"
        unset HEARTH_REPLAY_PRELOADED
    fi
}

# malformed NAME LINE REASON LINES...: the lines make a trace that must be refused at LINE.
malformed() {
    local name=$1 line=$2 reason=$3
    shift 3
    printf '%s\n' "$@" >"$work/bad.csv"
    refused "$name" "$line" "$reason"
}

refused() {
    run "$hearth" replay "$work/bad.csv"
    expect_status "malformed: $1" 2
    expect_text "malformed: $1" err "$work/bad.csv:$2: "
    expect_text "malformed: $1" err "$3"
}

test_malformed() {
    local head=run,op,id,bytes,thread
    malformed "unknown op" 3 "unknown op 'realloc'" $head 0,alloc,1,8,0 0,realloc,1,8,0
    malformed "empty op" 2 "unknown op ''" $head 0,,1,8,0
    malformed "bad run" 2 "run is not a number: 'x'" $head x,alloc,1,8,0
    malformed "bad id" 2 "id is not a number: '0x1'" $head 0,alloc,0x1,8,0
    malformed "spaces" 2 "id is not a number: ' 1'" $head "0,alloc, 1,8,0"
    malformed "plus sign" 2 "bytes is not a number: '+8'" $head 0,alloc,1,+8,0
    malformed "negative size" 2 "bytes is negative: '-8'" $head 0,alloc,1,-8,0
    malformed "negative id" 2 "id is negative" $head 0,alloc,-1,8,0
    malformed "fraction" 2 "bytes is not a number: '1.5'" $head 0,alloc,1,1.5,0
    malformed "empty size" 2 "bytes is empty" $head 0,alloc,1,,0
    malformed "size beyond 64 bits" 2 "bytes 18446744073709551616 is too large" $head \
        0,alloc,1,18446744073709551616,0
    malformed "huge size" 2 "is too large" $head 0,alloc,1,999999999999999999999999999,0
    malformed "thread too large" 2 "thread 256 is too large (at most 255)" $head 0,alloc,1,8,256
    malformed "run too large" 2 "run 4294967295 is too large" $head 4294967295,alloc,1,8,0
    malformed "free of unknown id" 2 "free of unknown id 7" $head 0,free,7,8,0
    malformed "export of unknown id" 2 "export of unknown id 7" $head 0,export,7,8,0
    malformed "second free" 4 "free of id 1, which was freed in line 3" $head 0,alloc,1,8,0 \
        0,free,1,8,0 0,free,1,8,0
    malformed "export after free" 4 "export of id 1, which was freed in line 3" $head \
        0,alloc,1,8,0 0,free,1,8,0 0,export,1,8,0
    malformed "second export" 4 "export of id 1, which was exported in line 3" $head \
        0,alloc,1,8,0 0,export,1,8,0 0,export,1,8,0
    malformed "alloc of live id" 3 "alloc of id 1, which is live since line 2" $head \
        0,alloc,1,8,0 0,alloc,1,8,0
    malformed "other size at free" 3 "says 9 bytes, its alloc in line 2 said 8" $head \
        0,alloc,1,8,0 0,free,1,9,0
    malformed "runs descend" 4 "run 0 after run 1" $head 0,alloc,1,8,0 1,alloc,2,8,0 0,free,1,8,0
    malformed "runs jump" 3 "run 2 after run 0" $head 0,alloc,1,8,0 2,free,1,8,0
    malformed "first run not 0" 2 "the first run is 1, expected 0" $head 1,alloc,1,8,0
    malformed "too few fields" 2 "4 fields, expected 5" $head 0,alloc,1,8
    malformed "too many fields" 2 "6 fields, expected 5" $head 0,alloc,1,8,0,0
    malformed "empty line" 3 "empty line" $head 0,alloc,1,8,0 "" 0,free,1,8,0
    malformed "missing header" 1 "missing header" 0,alloc,1,8,0
    malformed "other header" 1 "missing header" op,run,id,bytes,thread 0,alloc,1,8,0
    malformed "header only" 1 "no events" $head
    malformed "long line" 2 "longer than 255 characters" $head "$(printf '%0300d' 0)"
    : >"$work/bad.csv"
    refused "empty file" 1 "empty file"
    printf '%s\n0,alloc,1,8,0\n0,fr\0ee,1,8,0\n' $head >"$work/bad.csv"
    refused "NUL byte" 3 "NUL byte"
    head -c 100000 "$hearth" >"$work/bad.csv"
    refused "a program" 1 "NUL byte"
}

test_several_malformed() {
    printf 'nonsense\n' >"$work/one.csv"
    printf 'run,op,id,bytes,thread\n0,nop,1,8,0\n' >"$work/two.csv"
    run "$hearth" replay "$work/one.csv" "$traces/vad.csv" "$work/two.csv" "$work/none.csv" "$work"
    expect_status "several malformed" 2
    expect_text "several malformed" err "$work/one.csv:1: "
    expect_text "several malformed" err "$work/two.csv:2: "
    expect_text "several malformed" err "$work/none.csv: cannot open"
    expect_text "a folder" err "Is a directory"
    if [ -s "$work/out" ]; then
        fail "several malformed: something was measured"
    fi
}

test_odd_traces() {
    local head=run,op,id,bytes,thread
    # CRLF, no newline at the end, size 0, an id used again, a leftover, two threads.
    printf '%s\r\n0,alloc,1,0,0\r\n0,free,1,0,1\r\n0,alloc,1,8193,1\r\n1,alloc,2,1,0' $head \
        >"$work/odd.csv"
    run "$hearth" replay --json --threads 2 --runs 2 "$work/odd.csv"
    expect_status "odd but right" 0
    check_json "odd but right" peak 8194
    # Sizes that no allocator grants are errors with a status, not a crash.
    printf '%s\n0,alloc,1,18446744073709551615,0\n0,alloc,2,64,0\n0,free,1,18446744073709551615,0\n' \
        $head >"$work/huge.csv"
    run "$hearth" replay --json --runs 1 --warmup 0 "$work/huge.csv"
    expect_status "size refused" 1
    expect_text "size refused" err "$work/huge.csv:2: "
    expect_text "size refused" err "OVERFLOW"
    check_json "size refused" errors
    if [ "$glibc" = yes ] && [ "$sanitized" = no ]; then
        run "$hearth" replay --json --runs 1 --warmup 0 --allocator malloc "$work/huge.csv"
        expect_status "size refused by malloc" 1
        expect_text "size refused by malloc" err "NO_MEMORY"
    fi
    # Granted or not, 16 TiB are not touched.
    printf '%s\n0,alloc,1,17592186044416,0\n' $head >"$work/large.csv"
    run "$hearth" replay --json --runs 1 "$work/large.csv"
    if [ "$status" -gt 1 ]; then
        fail "16 TiB: exit status $status"
    fi
}

test_options() {
    local trace=$traces/vad.csv many=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
    impossible "--threads '0': give numbers from 1 to 256" replay --threads 0 "$trace"
    impossible "--threads '257'" replay --threads 257 "$trace"
    impossible "--threads '1,'" replay --threads 1, "$trace"
    impossible "--threads 'two'" replay --threads two "$trace"
    impossible "--threads '-1'" replay --threads -1 "$trace"
    impossible "at most 16 numbers" replay --threads $many "$trace"
    impossible "--runs '0': give a number from 1" replay --runs 0 "$trace"
    impossible "--runs '99999999999'" replay --runs 99999999999 "$trace"
    impossible "--warmup '-1': give a number from 0" replay --warmup -1 "$trace"
    impossible "--allocator 'tcmalloc': expected hearth" replay --allocator tcmalloc "$trace"
    impossible "--backing 'ram': expected jemalloc or mmap" replay --backing ram "$trace"
    impossible "--backing is an option of" replay --backing mmap --allocator malloc "$trace"
    impossible "--consumers '0': give a number from 1 to 64" replay --consumers 0 "$trace"
    impossible "--consumers '65': give a number from 1 to 64" replay --consumers 65 "$trace"
    impossible "--consumers 'all': give a number from 1 to 64" replay --consumers all "$trace"
    impossible "--hold '65': give a number from 0 to 64" replay --consumers 1 --hold 65 "$trace"
    impossible "--hold '-1': give a number from 0 to 64" replay --consumers 1 --hold -1 "$trace"
    impossible "--hold 2: somebody has to hold: give --consumers" replay --hold 2 "$trace"
    impossible "option '--consumers' requires an argument" replay "$trace" --consumers
    impossible "--check 'all': expected pages or lines" replay --check all "$trace"
    impossible "unrecognized option '--fast'" replay --fast "$trace"
    impossible "option '--runs' requires an argument" replay "$trace" --runs
    impossible "no trace given" replay
    impossible "unknown command 'reply'" reply
    impossible "no command given"
    impossible "unexpected argument 'now'" doctor now
    printf 'run,op,id,bytes,thread\n0,alloc,1,8,255\n' >"$work/wide.csv"
    impossible "--threads 256: $work/wide.csv has 256 threads" replay --threads 256 "$work/wide.csv"
    impossible "use at most 3" replay --threads 4 --consumers 1 "$work/wide.csv"
    run env HEARTH_CONF=exec_cap:lots "$hearth" replay "$trace"
    expect_status "replay with a bad HEARTH_CONF" 2
    expect_text "replay with a bad HEARTH_CONF" err "HEARTH_CONF: "
    expect_text "replay with a bad HEARTH_CONF" err "exec_cap"
    "$hearth" replay --runs 1 "$trace" >/dev/full 2>"$work/err"
    status=$?
    expect_status "standard output is full" 1
    run "$hearth" --version
    expect_status "--version" 0
    expect_text "--version" out "hearth "
    for argument in --help "replay --help" "doctor --help"; do
        # shellcheck disable=SC2086 # two words
        run "$hearth" $argument
        expect_status "$argument" 0
        expect_text "$argument" out "Usage: hearth"
    done
}

# machine ROOT: a made-up machine where everything is as it should be.
machine() {
    local sys=$1/sys/kernel/mm/transparent_hugepage proc=$1/proc
    mkdir -p "$sys" "$proc/sys/vm" "$proc/sys/kernel" "$proc/self" \
        "$1/sys/devices/system/node" "$1/sys/fs/cgroup/a/b"
    echo 'always [madvise] never' >"$sys/enabled"
    echo 'always defer defer+madvise [madvise] never' >"$sys/defrag"
    echo 0 >"$proc/sys/vm/overcommit_memory"
    echo 65530 >"$proc/sys/vm/max_map_count"
    echo 0 >"$proc/sys/kernel/numa_balancing"
    echo 0 >"$1/sys/devices/system/node/online"
    printf 'MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapTotal: 0 kB\n' >"$proc/meminfo"
    echo '0::/a/b' >"$proc/self/cgroup"
    echo max >"$1/sys/fs/cgroup/a/memory.max"
    echo max >"$1/sys/fs/cgroup/a/b/memory.max"
    echo 'max 100000' >"$1/sys/fs/cgroup/a/cpu.max"
}

# finding NAME LEVEL TEXT: what doctor says about the made-up machine.
finding() {
    run "$hearth" doctor --json --root "$work/machine"
    expect_status "doctor: $1" 0
    check_json "doctor: $1" finding "$1" "$2" "$3"
}

test_doctor() {
    local root=$work/machine
    run "$hearth" doctor
    expect_status "doctor" 0
    expect_text "doctor" out "membarrier"
    run "$hearth" doctor --json
    expect_status "doctor --json" 0
    check_json "doctor --json" doctor
    machine "$root"
    finding thp ok madvise
    finding "cgroup memory limit" ok unlimited
    finding "cpu quota" ok none
    finding memory ok "4.0 GiB available"
    finding overcommit ok 0
    echo 'always madvise [never]' >"$root/sys/kernel/mm/transparent_hugepage/enabled"
    finding thp note never
    echo '[always] defer madvise never' >"$root/sys/kernel/mm/transparent_hugepage/defrag"
    finding "thp defrag" note always
    echo 2 >"$root/proc/sys/vm/overcommit_memory"
    finding overcommit warn strict
    echo 1000 >"$root/proc/sys/vm/max_map_count"
    finding max_map_count warn 1000
    echo 1 >"$root/proc/sys/kernel/numa_balancing"
    finding "numa nodes" warn "balancing on"
    echo 1073741824 >"$root/sys/fs/cgroup/a/memory.max"
    finding "cgroup memory limit" note "1.0 GiB"
    echo '150000 100000' >"$root/sys/fs/cgroup/a/cpu.max"
    finding "cpu quota" note "1.50 cores"
    echo '4:cpu,cpuacct:/x' >"$root/proc/self/cgroup"
    echo '3:memory:/x' >>"$root/proc/self/cgroup"
    mkdir -p "$root/sys/fs/cgroup/memory/x" "$root/sys/fs/cgroup/cpu/x"
    echo 536870912 >"$root/sys/fs/cgroup/memory/x/memory.limit_in_bytes"
    echo 9223372036854771712 >"$root/sys/fs/cgroup/memory/memory.limit_in_bytes"
    echo 50000 >"$root/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us"
    echo 100000 >"$root/sys/fs/cgroup/cpu/x/cpu.cfs_period_us"
    finding "cgroup memory limit" note "512.0 MiB"
    finding "cpu quota" note "0.50 cores"
    rm -r "$root/proc" "$root/sys"
    finding thp note "not in this kernel"
    finding overcommit note unknown
    run env HEARTH_CONF=nonsense:1 "$hearth" doctor --json
    check_json "doctor with a bad HEARTH_CONF" finding HEARTH_CONF warn nonsense
}

test_replay
test_consumers
test_odd_outputs
test_oracle
test_jemalloc
test_malformed
test_several_malformed
test_odd_traces
test_options
test_doctor

echo "run_tools_tests: $checks checks, $failures failed"
[ "$failures" -eq 0 ]
