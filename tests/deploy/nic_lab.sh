#!/usr/bin/env bash
# Test that deploy/nic.sh trains on four hosts with NICs, all on this machine, to the same digest as one process.
#   nic_lab.sh SOURCE BIN     exits with 77 where there is no root, no /dev/net/tun or no MNIST (FED_MNIST_DIR)
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
export FED_BIN=$2 FED_MNIST_DIR=${FED_MNIST_DIR:-$1/build/data/mnist}

# A lab's folder in /tmp may be made by another user. Then the process that its file names must not
# be killed.
other_users_lab() {
    local folder pid
    folder=$(mktemp -d "${TMPDIR:-/tmp}/fednic-XXXXXX")
    bash -c 'exec -a fednic sleep 600' &
    pid=$!
    echo "$pid" >"$folder/h1.pid"
    chown nobody "$folder"
    for command in "kill 1" "start 1" "stats 1" bytes down; do
        if said=$(NIC_LAB=${folder##*fednic-} "$1/deploy/nic.sh" $command 2>&1) || ! grep -q "belongs to another user" <<<"$said"; then
            echo "nic.sh $command uses the folder of another user: $said"
            exit 1
        fi
    done
    kill "$pid" || { echo "nic.sh killed what the file of another user named"; exit 1; }
    rm -r "$folder"
}

if [ "$(id -u)" = 0 ]; then
    other_users_lab "$1"
fi
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
awk -v ratio="$ratio" 'BEGIN { exit !(ratio > 2) }' || { echo "with NICs host 1 sent 1/$ratio of the bytes; less than half was expected"; exit 1; }
