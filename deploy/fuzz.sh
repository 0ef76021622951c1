#!/usr/bin/env bash
# Fuzz all code that reads bytes from outside, under AddressSanitizer and UBSan. Then keep the smallest set of new inputs
# in tests/fuzz/corpus/. Every run of the tests replays this corpus: commit it.
#
#   deploy/fuzz.sh [MINUTES [TARGET...]]     preset: 10 minutes each for all targets, as many at a time as there are cores
#
# A target is a codec's name ("sbc": its decoder alone) or a file of tests/fuzz/ without "fuzz_" ("envelope"). MINUTES can be
# a fraction. At a finding all targets stop, and the last lines name the input. Logs are in build/fuzz/.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

programs=build/clang/tests
corpora=tests/fuzz/corpus
work=build/fuzz
small_bytes=204800 # most bytes of all corpora together

die() {
    echo "deploy/fuzz.sh: $*" >&2
    exit 1
}

build() {
    cmake --preset clang >/dev/null
    cmake --build build/clang --target fedcodec "${files[@]/#/fuzz_}" -- --quiet
}

# Print the program of a target. The target's corpus lies in a folder of the same name.
program() {
    [ -f "tests/fuzz/fuzz_$1.c" ] && echo "$1" || echo codec_check
}

# Replace this shell by libFuzzer on a target; the environment names the codec. Called in a subshell, whose process can then be killed.
fuzzer() { # TARGET [options and folders]
    local codec=(env)
    [ -f "tests/fuzz/fuzz_$1.c" ] || codec=(env "FED_FUZZ_CODEC=$1")
    exec "${codec[@]}" "$programs/fuzz_$(program "$1")" -rss_limit_mb=2048 -timeout=10 "${@:2}"
}

fuzz() { # TARGET
    mkdir -p "$work/found/$1"
    fuzzer "$1" -max_total_time="$seconds" -max_len=8192 -print_final_stats=1 -artifact_prefix="$work/findings/$1-" \
        "$work/found/$1" "$corpora/$(program "$1")" >"$work/$1.log" 2>&1
}

# Wait until one of the running targets ends. A finding stops everything.
declare -A running=()
await_one() {
    local pid=
    if wait -n -p pid "${!running[@]}"; then
        echo "${running[$pid]}: no finding ($SECONDS s)"
        unset "running[$pid]"
    else
        stop_at "${running[$pid]}"
    fi
}

stop_at() { # TARGET
    local input codec=
    tail -n 40 "$work/$1.log" >&2
    input=$(sed -n 's/.*Test unit written to //p' "$work/$1.log" | tail -n 1)
    [ -n "$input" ] || die "$1 failed without a finding; the end of its output is above, all of it is in $work/$1.log"
    [ -f "tests/fuzz/fuzz_$1.c" ] || codec="FED_FUZZ_CODEC=$1 "
    die "$1 has a finding, the input $input. To see it again: $codec$programs/fuzz_$(program "$1") $input"
}

# Keep inputs that cover code which the corpus does not cover. Only reached lines count, not how often, so the set is small.
learn() { # TARGET
    (fuzzer "$1" -set_cover_merge=1 -use_counters=0 -max_len=1024 "$corpora/$(program "$1")" "$work/found/$1") \
        >"$work/$1-merge.log" 2>&1 || die "merging what $1 found failed: see $work/$1-merge.log"
}

summary() {
    printf '\n%-14s %12s %9s %7s  %s\n' target runs features inputs result
    for target in "${targets[@]}"; do
        awk -v target="$target" '
            /^stat::number_of_executed_units/ { runs = $2 }
            { for (i = 1; i < NF; i++) { if ($i == "ft:") features = $(i + 1); if ($i == "corp:") inputs = $(i + 1) } }
            END { sub("/.*", "", inputs); printf "%-14s %12d %9d %7d  no finding\n", target, runs, features, inputs }
        ' "$work/$target.log"
    done
}

corpus_size() {
    find "$corpora" -type f -printf '%s\n' | awk '{ bytes += $1 } END { print bytes }'
}

minutes=${1:-10}
seconds=$(awk -v minutes="$minutes" 'BEGIN { print int(minutes * 60) }')
[[ $minutes =~ ^[0-9]*\.?[0-9]+$ ]] && [ "$seconds" -gt 0 ] ||
    die "\"$minutes\" is no number of minutes; usage: deploy/fuzz.sh [MINUTES [TARGET...]]"

deploy/setup.sh
mapfile -t files < <(find tests/fuzz -name 'fuzz_*.c' | sed 's|.*/fuzz_||; s|\.c$||' | sort)
build
codecs=$(build/clang/bin/fedcodec list | awk '/^[^ ]/ { print $1 }')
mapfile -t all < <(printf '%s\n' "$codecs" "${files[@]}" | grep -vx codec_check)
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
    printf '%s\n' "${all[@]}" | grep -qxF -e "$target" || die "no target \"$target\"; there are ${all[*]}"
done

rm -rf "$work/findings"
mkdir -p "$work/findings"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
echo "${#targets[@]} targets, $seconds s each, $(nproc) at a time"
for target in "${targets[@]}"; do
    [ ${#running[@]} -lt "$(nproc)" ] || await_one
    fuzz "$target" &
    running[$!]=$target
done
while [ ${#running[@]} -gt 0 ]; do
    await_one
done

before=$(find "$corpora" -type f | wc -l)
for target in "${targets[@]}"; do
    learn "$target"
done
summary
bytes=$(corpus_size)
echo "$corpora: $(($(find "$corpora" -type f | wc -l) - before)) files more, $((bytes / 1024)) KB in all"
[ "$bytes" -le "$small_bytes" ] || die "$corpora is larger than $((small_bytes / 1024)) KB: delete its largest new files before you commit it"
