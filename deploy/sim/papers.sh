#!/usr/bin/env bash
# Reproduce a paper's table.
#
#   deploy/sim/papers.sh TABLE [--quick] [--only TEXT] [--seeds N] [--done] [--pages DIR] [key=value ...]
#                                                                          e.g.  deploy/sim/papers.sh table3 --quick
#
# TABLE is the name of a file in deploy/sim/papers without its ending; the file says how long it takes. --quick runs a 25th
# of the iterations, which takes minutes, to see that it works. --only TEXT runs the cells whose "ROW, COLUMN" contains
# TEXT, such as "SBC(2)". --seeds N runs at most N seeds of each cell. Keys and values, such as threads=2 seed=7, are given
# to every run. Finished runs are not run again; an interrupted run continues. Results are in build/papers/TABLE, with a
# page of plots for each run. --done runs nothing and shows what has run.
#
# The table `frontier` runs several tables, frontier-few and others, which can be run alone. It collects all their runs in
# a CSV. --pages docs/results writes the CSV, the figure and the pages' tables there.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."

deploy/setup.sh --npm >&2
cmake --preset release >/dev/null
cmake --build --preset release --target fedsim fedserver >/dev/null
deploy/fetch-mnist.sh build/data/mnist >&2
exec python3 deploy/sim/papers.py build/release/bin/fedsim build/papers "$@"
