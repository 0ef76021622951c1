#!/usr/bin/env bash
# Test and measure a GPU, with the results in one JSON file: the tests of GPUs, compute-sanitizer if it is installed, and a benchmark.
#
#
#   deploy/gpu.sh [DEVICE [FILE]]     preset: gpu, the first usable one; and build/gpu.json
#
# It needs no network, and less than 8 minutes on a card: a part that takes longer is stopped, and the JSON says so. Without a usable
# device it prints what each device lacks. "opencl:0" runs the same on PoCL, on a processor, with smaller sizes. GPU_MOST is the
# log2 of the largest vector's length (26 on CUDA, 20 on OpenCL), GPU_BATCH the nets' batch, GPU_SECONDS the benchmark's time limit.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

device=${1:-gpu}
out=$(realpath -m "${2:-build/gpu.json}")
build=build/release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
    echo "deploy/gpu.sh: $*" >&2
    exit 1
}

build_all() {
    cmake --preset release >/dev/null
    names=$(ctest --test-dir $build -N -L '^device$' | sed -n 's/^ *Test *#[0-9]*: //p')
    # shellcheck disable=SC2086 # each word is a target
    cmake --build $build --target $names fedclientd fedserver fedsim fedtrain_program fedworker bench_gpu -- --quiet >&2
}

run_tests() {
    local name word
    FED_TEST_DEVICE=$device timeout 170 ctest --test-dir $build -L '^device$' -j 2 --timeout 150 --output-on-failure >"$work/tests" 2>&1 ||
        tail -40 "$work/tests" >&2
    for name in $names; do
        word=$(sed -n "s/.*[0-9] Test *#[0-9]*: $name [.]*[* ]*\([A-Za-z]*\).*/\1/p" "$work/tests")
        printf '    "%s": "%s"\n' "$name" "${word:-cut off}"
    done | paste -sd, | sed 's/,/,\n/g'
}

# Run one small test only, because compute-sanitizer makes it much slower.
run_sanitizer() {
    if [[ $device != cuda* ]] || ! command -v compute-sanitizer >/dev/null; then
        echo '"left out: it needs CUDA and compute-sanitizer"'
    elif FED_TEST_DEVICE=$device timeout 100 compute-sanitizer --error-exitcode 9 $build/tests/common.gpu.test_gpu_calls >"$work/memory" 2>&1; then
        echo '"no findings in common.gpu.test_gpu_calls"'
    else
        tail -20 "$work/memory" >&2
        echo '"findings, or more than 100 s: see the output"'
    fi
}

build_all
case $device in cuda* | gpu) most=26 batch=128 ;; *) most=20 batch=16 ;; esac
started=$SECONDS
results=$(run_tests)
[[ -n $results ]] || die "no test ran: $(tail -3 "$work/tests")"
sanitizer=$(run_sanitizer)
bench='"it did not end: see the output"'
if timeout 200 $build/bin/bench_gpu "$device" "${GPU_MOST:-$most}" "${GPU_BATCH:-$batch}" "${GPU_SECONDS:-120}" >"$work/bench"; then
    bench=$(cat "$work/bench")
fi
{
    printf '{\n"commit": "%s",\n"tests": {\n%s\n},\n' "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" "$results"
    printf '"compute_sanitizer": %s,\n"bench": %s,\n"seconds": %d\n}\n' "$sanitizer" "$bench" $((SECONDS - started))
} >"$out"
echo "$out"
! grep -qv '"Passed"\|"Skipped"' <<<"$results"
