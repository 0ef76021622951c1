# Functions for tests of proxies in front of a coordinator: a temporary folder, the end of child programs, free ports, and
# waiting with a limit. Source this file after set -euo pipefail.
# SPDX-License-Identifier: Apache-2.0

work=$(mktemp -d)
children=() # ids of the processes that finish ends
finish() {
    for pid in "${children[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$work"
}
trap finish EXIT

die() {
    echo "${0##*/}: $*"
    tail -n 20 "$work"/*.log
    exit 1
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Repeat a command until it succeeds, for at most 60 s.
await() {
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then
            return
        fi
        sleep 0.2
    done
    die "for 60 s this failed: $*"
}

make_data() {
    mkdir "$work/data"
    PYTHONDONTWRITEBYTECODE=1 python3 -c "import sys; sys.path.insert(0, '$(dirname "${BASH_SOURCE[0]}")'); import quoted; quoted.make_pictures('$work/data')"
}
