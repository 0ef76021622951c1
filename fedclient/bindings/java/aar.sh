#!/usr/bin/env bash
# Lay out an AAR for Android: fed.jar, a libfedjni.so for each ABI, the manifest, and rules for R8.
#
#   aar.sh OUT.aar FED.JAR ABI=LIBFEDJNI.SO...     such as arm64-v8a=build/arm64/fedclient/bindings/java/libfedjni.so
#
# The same input makes the same bytes. docs/java.md says how to compile libfedjni.so with Android's NDK.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

die() {
    echo "aar.sh: $*" >&2
    exit 1
}

# Print readelf's name of the machine of an ABI.
machine_of() {
    case $1 in
    arm64-v8a) echo AArch64 ;;
    armeabi-v7a) echo ARM ;;
    x86_64) echo "Advanced Micro Devices X86-64" ;;
    x86) echo "Intel 80386" ;;
    riscv64) echo RISC-V ;;
    *) die "\"$1\" is no ABI of Android's: arm64-v8a, armeabi-v7a, x86_64, x86, riscv64" ;;
    esac
}

[ $# -ge 3 ] || die "usage: aar.sh OUT.aar FED.JAR ABI=LIBFEDJNI.SO..."
command -v zip >/dev/null || die "zip is missing: deploy/setup.sh --java installs it"
[ -f "$2" ] || die "there is no $2: build the target fed_jar"
out=$(realpath -m "$1") jar=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$here/AndroidManifest.xml" "$here/proguard.txt" "$folder/"
cp "$jar" "$folder/classes.jar"
: >"$folder/R.txt" # this library has no resources
for pair; do
    abi=${pair%%=*} library=${pair#*=}
    machine=$(machine_of "$abi")
    [ -f "$library" ] || die "there is no $library: build the target fedjni"
    readelf -h "$library" | grep -qE "Machine: +$machine$" || die "$library is not for $abi"
    mkdir -p "$folder/jni/$abi"
    cp "$library" "$folder/jni/$abi/libfedjni.so"
done
find "$folder" -exec touch -d '1980-01-01 00:00:00 UTC' {} +
rm -f "$out"
(cd "$folder" && find . -type f | sed 's|^\./||' | LC_ALL=C sort | TZ=UTC zip -qX "$out" -@)
