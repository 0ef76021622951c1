#!/usr/bin/env bash
# Find tests that fail by chance: run each test many times on a busy machine. Or measure the processor time of the tests.
#
#   deploy/flaky.sh [PATTERN] [TIMES]    tests with threads, processes or time whose names fit PATTERN, 50 times each
#   deploy/flaky.sh --cpu [PATTERN]      every test once, on a quiet machine, sorted by CPU seconds
#   deploy/flaky.sh --help               all options
#
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
exec python3 -B "$(dirname "$0")/../tests/support/flaky.py" "$@"
