#!/usr/bin/env bash
# Run the demonstration: a coordinator and 400 clients train LeNet on MNIST over real TLS connections.
#
#   deploy/demo.sh [key=value ...]     e.g.  deploy/demo.sh split=classes:k=2 rounds=150
#
# Installs what it needs, builds into build/release, fetches MNIST into build/data/mnist, runs deploy/sim/scenarios/demo.txt,
# and ends with a table; build/demo has the same figures (summary.json) and plots (report.html).
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh --npm
cmake --preset release >/dev/null
cmake --build --preset release --target fedsim fedserver fedclientd
deploy/fetch-mnist.sh build/data/mnist

rm -rf build/demo
exec build/release/bin/fedsim run deploy/sim/scenarios/demo.txt "front_port=${FED_FRONT_PORT:-8443}" \
    "devices_port=${FED_DEVICES_PORT:-8444}" "$@" --out build/demo
