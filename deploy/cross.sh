#!/usr/bin/env bash
# Build codecs and trainer for another machine, and run their portable tests (tests/portable) in its emulator. The tests encode and decode
# stored messages, envelopes and patches, and compare every codec and each of the trainer's fast layers with a slow reference.
#
#   deploy/cross.sh ARCH...          aarch64, armhf (32 bits), s390x (big-endian); all three if none is named
#   deploy/cross.sh --check ARCH...  only say whether compilers and emulators are here (exit status)
#
# Debian's cross compilers and qemu come with deploy/setup.sh --cross.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "deploy/cross.sh: $*" >&2
    exit 1
}

choose() {
    case $1 in
    aarch64) compiler=aarch64-linux-gnu-gcc emulator=qemu-aarch64-static ;;
    armhf) compiler=arm-linux-gnueabihf-gcc emulator=qemu-arm-static ;;
    s390x) compiler=s390x-linux-gnu-gcc emulator=qemu-s390x-static ;;
    *) die "unknown architecture \"$1\"; there are aarch64, armhf and s390x" ;;
    esac
}

is_here() {
    choose "$1"
    command -v "$compiler" >/dev/null && command -v "$emulator" >/dev/null
}

# The build must see xxhash.h, but not this machine's other headers. So xxhash.h is linked into a folder of its own.
header_folder() {
    local header=
    for folder in $(pkg-config --variable=includedir libxxhash 2>/dev/null) /usr/include /usr/local/include; do
        [ -f "$folder/xxhash.h" ] && header=$folder/xxhash.h && break
    done
    [ -n "$header" ] || die "xxhash.h is missing: run deploy/setup.sh"
    mkdir -p build/cross/include
    ln -sf "$header" build/cross/include/xxhash.h
}

cross() {
    is_here "$1" || die "$compiler or $emulator is missing: run deploy/setup.sh --cross"
    header_folder
    # pkg-config must find nothing, as it only knows this machine's libraries.
    PKG_CONFIG_LIBDIR=$PWD/build/cross/none cmake -S . -B "build/cross/$1" -G Ninja -DFED_ROOMS=portable -DFED_WERROR=ON -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$1" -DCMAKE_C_COMPILER="$compiler" \
        -DCMAKE_CROSSCOMPILING_EMULATOR="$emulator" -DCMAKE_EXE_LINKER_FLAGS=-static \
        -DXXHASH_INCLUDE_DIR="$PWD/build/cross/include" >/dev/null
    cmake --build "build/cross/$1" -- --quiet
    printf '%s, ' "$1"
    "$emulator" "build/cross/$1/tests/codecs.portable" tests/vectors | tail -n 20
    printf '%s, ' "$1"
    "$emulator" "build/cross/$1/tests/fedtrain.portable" | tail -n 20
}

mode=cross
if [ "${1:-}" = --check ]; then
    mode=is_here
    shift
fi
[ $# -gt 0 ] || set -- aarch64 armhf s390x
for arch in "$@"; do
    $mode "$arch"
done
