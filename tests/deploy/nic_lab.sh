#!/usr/bin/env bash
# Test that deploy/nic.sh trains on four hosts with NICs, all on this machine, to the same digest as one process.
#   nic_lab.sh SOURCE BIN     exits with 77 where there is no root, no /dev/net/tun or no MNIST (FED_MNIST_DIR)
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
export FED_BIN=$2 FED_MNIST_DIR=${FED_MNIST_DIR:-$1/build/data/mnist}
if [ "$(id -u)" != 0 ] || [ ! -w /dev/net/tun ] || ! command -v ip tc >/dev/null; then
    echo "skipped: it needs root, /dev/net/tun, ip and tc"
    exit 77
fi
if [ ! -d "$FED_MNIST_DIR" ]; then
    echo "skipped: $FED_MNIST_DIR is not there; deploy/fetch-mnist.sh DIR fetches it"
    exit 77
fi
said=$("$1/deploy/nic.sh" train 1gbit 20)
echo "$said"
grep -q "the digests are the same" <<<"$said"
ratio=$(awk '/^host 1 sent/ { print $6 }' <<<"$said")
awk -v ratio="$ratio" 'BEGIN { exit !(ratio > 2) }' || { echo "the NICs saved only a part of $ratio"; exit 1; }
