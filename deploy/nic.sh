#!/usr/bin/env bash
# Hosts with offload NICs in network namespaces of this machine: two switches, limited lines, and fednic as each host's NIC.
#
#   deploy/nic.sh [train [RATE [STEPS]]] LeNet on MNIST by four hosts, without NICs and with them; ends with a table, and
#                                        fails if the digest is not that of the same training in one process
#   deploy/nic.sh up N RATE nic|plain   2 to 8 hosts; RATE is 10mbit, 100mbit, 1gbit or none; plain: without NICs
#   deploy/nic.sh in K COMMAND...        run a command in host K, from 1 on; its address is 10.78.0.K, and fd78::K
#   deploy/nic.sh stats K [OPTIONS]      what host K's NIC counts: fednic --stats
#   deploy/nic.sh kill K                 kill host K's NIC, which leaves nic0 and its connections; "start K" starts one again
#   deploy/nic.sh bytes                  bytes that each host's line carried: sent, received
#   deploy/nic.sh down                   remove it all
#
# NIC_LAB (nic) names a lab, so that several can exist at once: at most eight letters and digits. NIC_BOUND (2^-10) and
# NIC_OPTIONS are options for fednic. FED_BIN is the folder of the programs. Hosts 1 to N/2 are at the first switch, the others at
# the second, and a trunk joins the two. `tc tbf` limits each line at both ends. It needs root, ip and tc.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

lab=${NIC_LAB:-nic}
case ${1:-train} in train) lab=t$$ ;; esac # a name of this run's own
bin=${FED_BIN:-$PWD/build/release/bin}
folder=${TMPDIR:-/tmp}/fednic-$lab

die() {
    echo "deploy/nic.sh: $*" >&2
    exit 1
}

host() { echo "$lab-h$1"; }

# Stop unless the lab's folder is this user's own: all may write into /tmp, so another user may have made it.
own_folder() {
    [ -d "$folder" ] || die "there is no lab $lab: $0 up makes one"
    [ -O "$folder" ] && [ ! -L "$folder" ] || die "$folder belongs to another user: remove it, or choose another NIC_LAB"
}

# stop_nic K [SIGNAL]: end host K's NIC. Another program may have the number of a NIC that has ended.
stop_nic() {
    local pid
    pid=$(cat "$folder/h$1.pid" 2>/dev/null) || return 0
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = fednic ] || return 0
    kill ${2:+"$2"} "$pid"
    # The process holds nic0 until the kernel has closed its files: until then no other fednic can start. A zombie holds no files.
    for _ in $(seq 200); do
        grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$pid/status" 2>/dev/null || return 0
        sleep 0.02
    done
}

# limit NAMESPACE DEVICE: limit the device's rate. Bursts are small, as a message within a burst would not be slowed.
limit() {
    local burst=80000
    case $rate in
    none) return ;;
    10mbit) burst=3200 ;;
    100mbit) burst=16000 ;;
    1gbit) ;;
    *) die "the rate is 10mbit, 100mbit, 1gbit or none, not $rate" ;;
    esac
    ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$rate" burst $burst limit 500000
}

# line NAMESPACE DEVICE NAMESPACE DEVICE: connect two devices by a line with the limited rate.
line() {
    ip link add "$2" netns "$1" type veth peer name "$4" netns "$3"
    limit "$1" "$2"
    limit "$3" "$4"
}

add_switch() {
    ip netns add "$lab-s$1"
    ip -n "$lab-s$1" link add br0 type bridge
    ip -n "$lab-s$1" link set br0 up
}

# plug SWITCH DEVICE: connect the device to the switch.
plug() {
    ip -n "$lab-s$1" link set "$2" master br0
    ip -n "$lab-s$1" link set "$2" up
}

# start_nic K: start host K's NIC, and wait until it says that it is ready.
start_nic() {
    local log=$folder/h$1.log
    : >"$log"
    ip netns exec "$(host "$1")" "$bin/fednic" --tun nic0 --wire eth0 --bound "${NIC_BOUND:-2^-10}" \
        --control "$folder/h$1.sock" ${NIC_OPTIONS:-} >"$log" 2>&1 </dev/null &
    echo $! >"$folder/h$1.pid"
    disown # so that bash does not report its end
    for _ in $(seq 100); do
        grep -q ready "$log" && return
        kill -0 "$!" 2>/dev/null || break
        sleep 0.05
    done
    die "host $1's NIC did not start: $(cat "$log")"
}

# add_host K SWITCH: make host K, with a line to the switch.
add_host() {
    local name device=eth0
    name=$(host "$1")
    ip netns add "$name"
    ip -n "$name" link set lo up
    line "$name" eth0 "$lab-s$2" "p$1"
    plug "$2" "p$1"
    if [ "$kind" = nic ]; then
        device=nic0
        ip -n "$name" link set eth0 up
        start_nic "$1"
    fi
    ip -n "$name" address add "10.78.0.$1/24" dev $device
    ip -n "$name" address add "fd78::$1/64" dev $device nodad
    ip -n "$name" link set $device up
}

up() {
    hosts=$1 rate=$2 kind=$3
    [[ $lab =~ ^[a-z0-9]{1,8}$ ]] || die "NIC_LAB is at most eight small letters and digits, not $lab"
    [[ $hosts =~ ^[2-8]$ ]] || die "there are 2 to 8 hosts, not $hosts"
    [[ $kind = nic || $kind = plain ]] || die "hosts are of the kind nic or plain, not $kind"
    [ "$(id -u)" = 0 ] || die "only root makes network namespaces"
    [ ! -e "$folder" ] || die "the lab $lab stands already: $0 down removes it, NIC_LAB=NAME makes another"
    [ "$kind" = plain ] || [ -x "$bin/fednic" ] || die "$bin/fednic is missing: cmake --build --preset release --target fednic"
    mkdir -m 700 "$folder"
    trap 'down; rm -rf "${results:-}"' EXIT
    echo "$hosts" >"$folder/hosts"
    add_switch 1
    add_switch 2
    line "$lab-s1" trunk "$lab-s2" trunk
    plug 1 trunk
    plug 2 trunk
    for k in $(seq "$hosts"); do
        add_host "$k" $((k > hosts / 2 ? 2 : 1))
    done
}

# Remove the lab, also after an "up" that failed.
down() {
    local pid
    [ ! -e "$folder" ] || own_folder
    for k in $(seq 8); do
        stop_nic "$k"
    done
    for name in $(ip netns list | cut -d' ' -f1 | grep -E "^$lab-[hs][1-8]$" || true); do
        for pid in $(ip netns pids "$name"); do
            kill -9 "$pid" 2>/dev/null || true
        done
        ip netns delete "$name"
    done
    rm -rf "$folder"
}

bytes() {
    for k in $(seq "$(cat "$folder/hosts")"); do
        ip netns exec "$(host "$k")" sh -c "cd /sys/class/net/eth0/statistics && echo $k \$(cat tx_bytes rx_bytes)"
    done
}

# value KEY FILE: print a key's value from a summary, a JSON object with one key a line.
value() { sed -n "s/^  \"$1\": \"\?\([^\",]*\)\"\?,\?\$/\1/p" "$2"; }

# Train on four hosts, and keep in $results the summary and the bytes of each line.
train_on_hosts() {
    local secret=$folder/gang.secret pids=() failed=0
    up 4 "$2" "$1"
    bytes >"$results/$1.before"
    for k in 1 2 3 4; do
        local meet=--join
        [ "$k" != 1 ] || meet=--listen
        ip netns exec "$(host "$k")" timeout -k 5 900 "$bin/fedworker" train "${training[@]}" --link tcp --here 1 $meet 10.78.0.1:7000 \
            --secret-file "$secret" --nic "packet:e=${NIC_BOUND#2^-}" --summary "$results/$1.$k.json" >"$results/$1.$k.log" 2>&1 &
        pids+=($!)
        for _ in $(seq 100); do # host 1 makes the file of the secret
            [ -s "$secret" ] && break
            sleep 0.05
        done
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
    [ $failed = 0 ] || die "the training failed: $(tail -n 3 "$results/$1".*.log)"
    bytes >"$results/$1.after"
    [ "$1" = plain ] || "$bin/fednic" --stats --control "$folder/h1.sock" >"$results/stats"
    down
    trap 'rm -rf "$results"' EXIT
}

# Print the bytes on the lines in MB: without NICs, with NICs, and the ratio.
table() {
    printf '\n%-8s %12s %12s %7s\n' "" "plain, MB" "NIC, MB" "ratio"
    paste -d' ' "$results"/{plain,nic}.{before,after} | awk '{
        row("host " $1 " sent", $5 - $2, $11 - $8); row("received", $6 - $3, $12 - $9) }
        function row(name, plain, nic) { printf "%-15s %8.1f %10.1f %7.2f\n", name, plain / 1e6, nic / 1e6, plain / nic }'
    for kind in plain nic; do
        printf '%s: %.1f s of training, a step %.1f ms, accuracy %.2f %%, digest %s\n' $kind "$(value step_s "$results/$kind.1.json")" \
            "$(value mean_step_s "$results/$kind.1.json")e3" "$(value test_accuracy "$results/$kind.1.json")e2" \
            "$(value digest "$results/$kind.1.json")"
    done
    printf 'in one process: accuracy %.2f %%, digest %s\n\n' "$(value test_accuracy "$results/inline.json")e2" "$(value digest "$results/inline.json")"
    echo "Host 1's NIC:"
    sed -n 1,8p "$results/stats"
}

train() {
    local data=${FED_MNIST_DIR:-build/data/mnist}
    [ -d "$data" ] || deploy/fetch-mnist.sh "$data"
    export NIC_BOUND=${NIC_BOUND:-2^-10}
    training=(--model lenet5-caffe --data "$data" --workers 4 --batch 16 --steps "$2" --optimizer momentum:lr=0.02
        --sync bitsgd --collective ring)
    results=$(mktemp -d)
    trap 'down; rm -rf "$results"' EXIT
    trap 'exit 1' INT TERM
    "$bin/fedworker" train "${training[@]}" --link threads --nic "inline:e=${NIC_BOUND#2^-}" --summary "$results/inline.json" >"$results/log"
    for kind in plain nic; do
        train_on_hosts $kind "$1"
    done
    table
    [ "$(value digest "$results/nic.1.json")" = "$(value digest "$results/inline.json")" ] || die "the digests differ"
    echo "The NICs made of the gradients what one process makes of them: the digests are the same."
}

case ${1:-train} in
train) train "${2:-100mbit}" "${3:-300}" ;;
up)
    [ $# = 4 ] || die "usage: deploy/nic.sh up N RATE nic|plain"
    up "$2" "$3" "$4"
    trap - EXIT
    ;;
kill)
    [ $# = 2 ] || die "usage: deploy/nic.sh kill K"
    own_folder
    stop_nic "$2" -9
    ;;
start)
    [ $# = 2 ] || die "usage: deploy/nic.sh start K"
    own_folder
    start_nic "$2"
    ;;
in)
    [ $# -ge 3 ] || die "usage: deploy/nic.sh in K COMMAND..."
    exec ip netns exec "$(host "$2")" "${@:3}"
    ;;
stats)
    [ $# -ge 2 ] || die "usage: deploy/nic.sh stats K [OPTIONS]"
    own_folder
    exec "$bin/fednic" --stats --tun nic0 --control "$folder/h$2.sock" "${@:3}"
    ;;
bytes)
    own_folder
    bytes
    ;;
down) down ;;
*) die "say train, up, in, stats, kill, start, bytes or down: the first lines of this file tell more" ;;
esac
