#!/usr/bin/env bash
# Find out which faults the tests would miss: plant faults in product code, one at a time, and print those that no test caught.
#
#
#   deploy/mutate.sh N [SEED] [FILE|FOLDER...]   N faults in these files; preset: those changed since the last tag, or all
#   deploy/mutate.sh --only FILE:LINE:KIND       plant this fault again, to try a new test; FILE or FILE:LINE: all faults there
#   deploy/mutate.sh --list [FILE|FOLDER...]     print every fault that could be planted
#
# --goal P: status 0 if at least P percent are caught; preset 90. The same SEED plants the same faults. All happens in a copy of the
# tree, with a build of its own, which is kept: in build/mutants, or with --copy FOLDER in another folder of build. A fault that no
# test has to see goes to tests/mutants.txt, with the reason. tests/support/mutate.py says what is planted, and which tests run.
# SPDX-License-Identifier: Apache-2.0
set -Eeuo pipefail
exec python3 -B "$(dirname "$0")/../tests/support/mutate.py" "$@"
