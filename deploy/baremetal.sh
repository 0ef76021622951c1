#!/usr/bin/env bash
# Build the program of a board, fedclient/examples/baremetal, and let the board train in QEMU, with a real coordinator and a second
# device on this machine. The board's power fails three times. The model must be, bit for bit, that of a board without power cuts.
#
#   deploy/baremetal.sh            30 rounds; also prints how good the model is, and how much memory the board takes
#   deploy/baremetal.sh --quick    5 rounds
#   deploy/baremetal.sh --sources  only fetch the sources of lwIP and mbedTLS 3.6, Debian 13's, into build/baremetal/source
#   deploy/baremetal.sh --check    only say whether compiler, emulator and sources are here (exit status 77 if not)
#
# Compiler and emulator come with deploy/setup.sh --board. LWIP_SOURCE and MBEDTLS_SOURCE name other folders with these sources,
# FED_MNIST_DIR the one with MNIST, FED_BUILD_DIR the build whose programs run (build/release).
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/build/baremetal
lwip=${LWIP_SOURCE:-$out/source/lwip}
mbedtls=${MBEDTLS_SOURCE:-$out/source/mbedtls}
mnist=${FED_MNIST_DIR:-$PWD/build/data/mnist}
build=${FED_BUILD_DIR:-$PWD/build/release}
samples=300

die() {
    echo "deploy/baremetal.sh: $*" >&2
    exit 1
}

skip() {
    echo "deploy/baremetal.sh: $*"
    exit 77
}

# Fetch Debian's sources without root: apt-get uses folders of its own, and checks Debian's signature.
fetch_sources() {
    local apt=$out/source/apt
    local options=(-qq -o "Dir::Etc::SourceList=$apt/trixie.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$apt/lists"
        -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=)
    command -v apt-get >/dev/null && command -v dpkg-source >/dev/null ||
        die "to fetch sources, apt-get and dpkg-source are needed: set LWIP_SOURCE and MBEDTLS_SOURCE to folders with lwIP 2.2 and mbedTLS 3.6"
    local mirror=${FED_MIRROR:-}
    # By default, take the mirror of this system's own packages.
    [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
    [ -n "$mirror" ] || die "this system's apt has no mirror of Debian: set FED_MIRROR to the address of one"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$apt/trixie.list"
    apt-get "${options[@]}" update
    (cd "$out/source" && apt-get "${options[@]}" source lwip mbedtls >/dev/null)
    for name in lwip mbedtls; do
        local folders=("$out/source/$name"-*/)
        [ ${#folders[@]} -eq 1 ] || die "$out/source has several versions of $name: remove it, and try again"
        ln -sfn "${folders[0]%/}" "$out/source/$name"
        echo "deploy/baremetal.sh: $(basename "${folders[0]}")"
    done
}

check() {
    command -v arm-none-eabi-gcc >/dev/null && command -v qemu-system-arm >/dev/null &&
        arm-none-eabi-gcc --specs=picolibc.specs -E -x c /dev/null >/dev/null 2>&1 ||
        skip "arm-none-eabi-gcc, picolibc or qemu-system-arm is missing: run deploy/setup.sh --board"
    [ -f "$lwip/src/include/lwip/init.h" ] && [ -f "$mbedtls/library/ssl_tls13_client.c" ] ||
        skip "the sources of lwIP and mbedTLS 3.6 are missing: run deploy/baremetal.sh --sources"
    [ -f "$mnist/train-images-idx3-ubyte" ] || skip "MNIST is missing: run deploy/fetch-mnist.sh build/data/mnist"
}

# The board's build must see xxhash.h, but not this machine's other headers. So xxhash.h is linked into a folder of its own.
build_board() {
    mkdir -p "$out/include"
    ln -sf "$(echo '#include <xxhash.h>' | cc -E -M - | grep -o '/[^ ]*xxhash.h')" "$out/include/xxhash.h"
    python3 -B fedclient/examples/baremetal/samples.py "$mnist" "$out/data" $samples
    local first=(-DCMAKE_TOOLCHAIN_FILE=toolchain.cmake)
    [ ! -f "$out/board/CMakeCache.txt" ] || first=()
    cmake -S fedclient/examples/baremetal -B "$out/board" -G Ninja "${first[@]}" \
        -DLWIP_SOURCE="$lwip" -DMBEDTLS_SOURCE="$mbedtls" -DSAMPLES="$out/data/samples.c" -DXXHASH="$out/include" >/dev/null
    cmake --build "$out/board" -- --quiet
}

rounds=30
case ${1:-} in
--sources)
    fetch_sources
    exit
    ;;
--check)
    check
    exit
    ;;
--quick) rounds=5 ;;
'') ;;
*) die "unknown option \"$1\"; there are --quick, --sources and --check" ;;
esac
check
[ -x "$build/bin/fedserver" ] || die "$build/bin/fedserver is missing: cmake --preset release && cmake --build --preset release"
build_board
python3 -B fedclient/examples/baremetal/rounds.py "$build/bin" "$out" $rounds
