#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-dlopen-safe.sh FILE
# Whether a library that contains FILE (an archive, or the library itself) can be loaded by dlopen: what is in
# initial-exec or local-exec TLS has to fit into the little that is left of the program's static TLS.
set -eu

file=$1
READELF=${READELF:-readelf}

# Of a library the flag tells; of objects the relocations: x86-64 GOTTPOFF and TPOFF, arm64 TLSIE and TLSLE.
found=$($READELF --wide --dynamic --relocs "$file" 2>/dev/null |
    grep -m 1 -oE 'STATIC_TLS|R_X86_64_(GOTTPOFF|TPOFF)[0-9]*|R_AARCH64_TLS(IE|LE)_[A-Z0-9_]*' || true)
if [ -n "$found" ]; then
    echo "$file has thread-local variables that dlopen has no room for ($found): build jemalloc with" \
        "--disable-initial-exec-tls, as scripts/build-jemalloc does" >&2
    exit 1
fi
