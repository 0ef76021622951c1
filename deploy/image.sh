#!/usr/bin/env bash
# Build a container image without Docker, as any user: an OCI archive in build/image/. docs/container.md says how to run it.
#
#   deploy/image.sh                  the coordinator
#   deploy/image.sh device           a device: fedclientd
#   deploy/image.sh --twice [NAME]   build it in two folders, under two names, in two time zones, and compare the bits
#
# Needs a Debian system: the image has the Debian libraries of the machine that builds it. deploy/setup.sh installs what is missing.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "deploy/image.sh: $*" >&2
    exit 1
}

# Prints the image's path, name, digest and size.
build_image() { # NAME
    local build=build/image spec=deploy/oci/$1.json
    local programs archive
    programs=$(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["programs"])' "$spec")
    archive=$build/$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["name"])' "$spec").oci.tar
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFED_TESTS=OFF -DFED_SHARED=OFF -DFED_MPI=OFF >/dev/null
    # shellcheck disable=SC2086 # the names of programs have no blanks
    cmake --build "$build" --target $programs -- --quiet >&2
    mkdir -p "$build/stage"
    for program in $programs; do
        strip -o "$build/stage/$program" "$build/bin/$program"
    done
    python3 -B deploy/oci/image.py "$spec" "$build" "$build/stage" "$archive"
}

# Build the image in two clones of this commit, and compare the bits: an image may depend on the machine's packages only.
twice() { # NAME
    local first second
    [ -z "$(git status --porcelain)" ] || die "--twice compares clones of the last commit, so commit or remove your changes first"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    git clone -q . "$work/one"
    git clone -q . "$work/another one"
    first=$(cd "$work/one" && umask 022 && TZ=UTC LC_ALL=C deploy/image.sh "$1" | tail -n +2)
    second=$(cd "$work/another one" && umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 deploy/image.sh "$1" | tail -n +2)
    if ! cmp "$work/one/build/image/"*.oci.tar "$work/another one/build/image/"*.oci.tar; then
        die "two builds differ: $first / $second"
    fi
    printf '%s\ntwo builds, the same bits\n' "$first"
}

compare=no
if [ "${1:-}" = --twice ]; then
    compare=yes
    shift
fi
name=${1:-coordinator}
[ $# -le 1 ] && [ -f "deploy/oci/$name.json" ] ||
    die "there is no image '$*'; these are: $(basename -s .json -a deploy/oci/*.json | xargs)"
command -v dpkg-query >/dev/null || die "this is not a Debian system, whose libraries the image would have; use one, or a container of it"
deploy/setup.sh >&2
if [ $compare = yes ]; then
    twice "$name"
else
    build_image "$name"
fi
