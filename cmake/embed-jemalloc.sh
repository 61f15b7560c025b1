#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# embed-jemalloc.sh ARCHIVE CONF_SOURCE OBJECT
# Turns a PIC jemalloc archive and jemalloc-conf.c into one relocatable object whose only global
# names are hearth__je_*.
set -eu

archive=$1
conf_source=$2
object=$3
CC=${CC:-cc} AR=${AR:-ar} LD=${LD:-ld} NM=${NM:-nm} OBJCOPY=${OBJCOPY:-objcopy}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# operator new and delete would drag libstdc++ in and replace the host's.
cp "$archive" "$work/all.a"
chmod u+w "$work/all.a"
cpp_members=$($AR t "$work/all.a" | grep '_cpp' || true)
if [ -n "$cpp_members" ]; then
    # shellcheck disable=SC2086 # one argument per member
    $AR d "$work/all.a" $cpp_members
fi
$LD -r --whole-archive "$work/all.a" -o "$work/all.o"

# The public API is what carries no je_ prefix: the archive's own names are all prefixed.
$NM --defined-only --extern-only --format=posix "$work/all.o" |
    awk '$1 !~ /^je_/ { print $1 }' | sort -u >"$work/public"
awk '{ print $1, "hearth__je_" $1 }' "$work/public" >"$work/rename"
for name in secure_getenv readlink; do
    echo "$name hearth__conf_$name" >>"$work/rename"
done
awk '{ print "hearth__je_" $1 }' "$work/public" >"$work/keep"
for name in mallocx dallocx sallocx mallctl mallctlnametomib mallctlbymib malloc_conf; do
    grep -qx "$name" "$work/public" || {
        echo "embed-jemalloc.sh: $archive does not define $name" >&2
        exit 1
    }
done

$OBJCOPY --redefine-syms="$work/rename" "$work/all.o" "$work/renamed.o"
$CC -std=c11 -O2 -fPIC -c "$conf_source" -o "$work/conf.o"
$LD -r "$work/renamed.o" "$work/conf.o" -o "$work/joined.o"
$OBJCOPY --keep-global-symbols="$work/keep" "$work/joined.o" "$work/private.o"

if $NM --defined-only --extern-only --format=posix "$work/private.o" |
        awk '{ print $1 }' | grep -v '^hearth__je_'; then
    echo "embed-jemalloc.sh: the names above are still global" >&2
    exit 1
fi
mv "$work/private.o" "$object"
