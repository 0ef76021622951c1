#!/usr/bin/env bash
# The tests, in three lengths.
#
#   deploy/test.sh          an optimised build by gcc: quick lint, unit, contract, golden vectors, fuzz corpora, short runs end to end
#   deploy/test.sh --all    the same, and: clang with libFuzzer, AddressSanitizer and UBSan; ThreadSanitizer; clang-tidy; other machines,
#                           emulated; tests of GPUs, on the processor; and tests that need further tools, if these are installed
#   deploy/test.sh --night  the same as --all, and: sweeps, kill matrix and chaos whole; every fuzz target for minutes; packages;
#                           planted faults. It takes hours
#
# Installs what it needs by deploy/setup.sh. Stops at the first stage that fails. Ends with a table of the stages, what was left out,
# and a line that counts the tests of the last stage.
# SPDX-License-Identifier: Apache-2.0
set -Eeuo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
"") length=short FED_TEST_LENGTH=short ;;
--all) length=all ;;
--night) length=night ;;
*)
    echo "deploy/test.sh: \"$1\" is no option; there are --all and --night" >&2
    exit 2
    ;;
esac
export FED_TEST_LENGTH=${FED_TEST_LENGTH:-all}

jobs=$(nproc)
name=
table=()
trap 'echo "deploy/test.sh: stopped: $name failed; its output is above" >&2' ERR

scratch=$(mktemp) junit=$(mktemp)
trap 'rm -f "$scratch" "$junit"' EXIT

# Set cpu to the processor seconds of all commands so far. They are in the second line that bash's `times` prints, but not if a subshell
# runs `times`.
processor_seconds_now() {
    times >"$scratch"
    cpu=$(awk -F '[ms ]+' 'NR == 2 { printf "%d", 60 * ($1 + $3) + $2 + $4 }' "$scratch")
}

stage() { # NAME: begin a stage, and note the seconds that the stage before took
    processor_seconds_now
    [ -z "$name" ] || table+=("$(printf '%-60s %6d %6d' "$name" $((SECONDS - began)) $((cpu - cpu_began)))")
    name=$1 began=$SECONDS cpu_began=$cpu
    printf '\n== %s (%d s)\n' "$name" "$SECONDS"
}

build() { # PRESET, are warnings errors (ON or OFF), and targets; none: all
    cmake --preset "$1" -DFED_WERROR="$2" >/dev/null
    cmake --build "build/$1" -j "$jobs" ${3:+--target "${@:3}"} -- --quiet
}

prefix=(env) # the words before ctest in its command
# Run more tests at once than there are cores: many tests mostly wait, for a lease to run out or for a peer that is silent.
each=2
[ $length != short ] || each=3 # short tests need little memory
run() { # BUILD [ctest options]
    "${prefix[@]}" ctest --test-dir "build/$1" -j $((jobs * each)) --output-on-failure "${@:2}"
}

needs() {
    deploy/setup.sh
    deploy/setup.sh --postgres || echo "PostgreSQL's server can't be installed here: the tests of that store are skipped"
    if [ $length != short ]; then
        needs_of_all
    fi
    if deploy/fetch-mnist.sh build/data/mnist 2>/dev/null; then
        export FED_MNIST_DIR=$PWD/build/data/mnist
    else
        echo "MNIST can't be fetched here: the tests that need it are skipped"
    fi
}

device=() # FED_TEST_DEVICE=gpu lets tests of GPUs fail, instead of skip, if there is no device
needs_of_all() {
    if deploy/setup.sh --gpu; then
        # Without apt-get nothing was installed, so tests of GPUs skip.
        ! command -v apt-get >/dev/null || device=(FED_TEST_DEVICE=gpu)
    else
        echo "OpenCL can't be installed here: the tests of GPUs that need it are skipped"
    fi
    deploy/setup.sh --image || echo "the tools that check the container image can't be installed here: parts of deploy.image and deploy.helm are skipped"
    if [ "${FED_CROSS:-0}" = 1 ]; then
        deploy/setup.sh --cross
    fi
    if command -v arm-none-eabi-gcc >/dev/null && ! deploy/baremetal.sh --check >/dev/null; then
        deploy/baremetal.sh --sources || echo "the sources for a board can't be fetched here: its test is skipped"
    fi
}

# Put the tests' files into memory: tests sync thousands of files, and would wait for a disk. What a killed process has written stays
# in memory, too. Some tests write a script into this folder and run it, so it must not be mounted noexec.
files_in_memory() {
    local room_kb
    room_kb=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
    if [ -z "${TMPDIR:-}" ] && [ "${room_kb:-0}" -gt $((4 * 1024 * 1024)) ] && ! grep -q '^[^ ]* /dev/shm .*noexec' /proc/mounts; then
        export TMPDIR=/dev/shm
    fi
}

# With sanitizers, tests make fewer tries: FED_TEST_SIZE in tests/support/fed_test.h. Tests of the coordinator then run on SQLite alone,
# except contract.test_store*.
other_stores='^(fedserver|contract|deploy)\..*\.postgres$'

address_sanitizer() {
    stage "build with clang, with libFuzzer, AddressSanitizer and UBSan"
    # PoCL's compiler, LLVM, gives the thread that compiles a signal stack, which the sanitizer would unmap when the thread ends.
    # LeakSanitizer can't read the thread-local memory of PoCL's threads.
    export ASAN_OPTIONS=use_sigaltstack=0:intercept_tls_get_addr=0
    export LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0"
    build clang ON

    stage "fuzz targets"
    run clang -L fuzz

    stage "tests under AddressSanitizer and UBSan"
    # The last stage runs the tests that are left out here. They only start other programs or compile, repeat other tests on another store
    # or device, or start thousands of processes.
    run clang -LE fuzz -E '^cuda\.|^gpu\.nvcc$|^browser\.|^e2e\.test_(sweep|edge_deaths|kill_matrix|worker_faults)$|'"$other_stores"'|^parity\.|^codecs\.(readme|portable)$|^fedtrain\.memory$|^vectors\.|^deploy\.(nic|caches|proxies|figure|units|monitoring)$|^fedclient\.train\.test_device_curves$'
}

thread_sanitizer() {
    stage "tests with threads under ThreadSanitizer"
    # Some kernels place memory so randomly that ThreadSanitizer can't start, so randomization is off.
    local prefix=(env)
    ! setarch -R true 2>/dev/null || prefix=(setarch -R)
    # Left out are tests with one thread, repetitions on other stores, and tests whose code other tests run here. The sanitizer can't see
    # into Open MPI and devices.
    local threads=(-R '^(fedclient|fedserver|deploy\.sim|e2e)\.|^common\.system\.test_threads$|^codecs\.test_tensor$|^contract\.test_each_(link|collective)$'
        -E '^fedserver\.strategies\.test_rows$|^fedclient\.(train\.|platforms\.|stack$|without_curl$|test_client$|state\.test_slots$|apps\.test_fed(train|worker_predict)$|datacenter\.links\.mpi\.)|^e2e\.test_(resume|fedsim|sweep|edge_deaths|kill_matrix|worker_faults|nic_.*|outputs)$|'"$other_stores")
    # gcc reports the sanitizer's own code as uses of unset variables, so warnings are no errors.
    cmake --preset tsan -DFED_WERROR=OFF >/dev/null
    # A test NAME.postgres runs the program NAME on PostgreSQL.
    local targets
    mapfile -t targets < <(ctest --test-dir build/tsan -N "${threads[@]}" |
        sed -n 's/\.postgres$//; s/^ *Test *#[0-9]*: //p' | sort -u)
    build tsan OFF fedserver fedclientd fedworker allreduce fedsim fedtrain_program "${targets[@]}"
    # OCL_ICD_VENDORS names a folder without OpenCL drivers, so that no test finds a device.
    OCL_ICD_VENDORS=/nowhere TSAN_OPTIONS="suppressions=$PWD/tests/support/tsan.supp" run tsan "${threads[@]}"
}

other_machines() {
    stage "codecs and trainer on other machines"
    if deploy/cross.sh --check aarch64 armhf s390x; then
        deploy/cross.sh aarch64 armhf s390x
    else
        echo "skipped: cross compilers or qemu are not installed; FED_CROSS=1 installs them"
    fi
}

# Run tests of the optimised build, with a JUnit report from which `count` reads numbers.
optimised() { # [ctest options]
    local prefix=(env "${device[@]}")
    run release "$@" --output-junit "$junit"
}

# A test that fails beside others is run once more, alone. If it passes then, the run goes on and names the test near its end.
forgiving() { # COMMAND...
    "$@" && return
    mapfile -t flaky < <(cut -d: -f2 build/release/Testing/Temporary/LastTestsFailed.log)
    echo "these failed beside others, and run once more, alone: ${flaky[*]}"
    env "${device[@]}" ctest --test-dir build/release --rerun-failed --output-on-failure
}
flaky=()

night() {
    stage "sweeps, kill matrix and chaos, whole"
    build/release/tests/e2e.test_sweep whole
    build/release/tests/e2e.test_kill_matrix --kills 2000 --failovers 20 --hangs 48
    build/release/tests/e2e.test_chaos 400 8
    stage "fuzzing"
    deploy/fuzz.sh
    stage "packages"
    deploy/setup.sh --packages
    deploy/packages-test.sh 12
    deploy/packages-test.sh 13
    stage "clang-tidy of all sources, with its analyzer"
    FED_FRESH=1 python3 tests/lint/tidy.py . build/release
    stage "planted faults"
    deploy/mutate.sh 100
}

count() { # ATTRIBUTE: print a number from the report of the last stage's tests
    sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$junit" | head -n 1
}

report() {
    stage "end"
    printf '\n%-60s %6s %6s\n' stage s "CPU s"
    printf '%s\n' "${table[@]}"
    case $length in
    short) echo "left out: clang, sanitizers, clang-tidy, GPUs, packaging, sweeps. They are in: deploy/test.sh --all" ;;
    all) echo "left out: sweeps and kill matrix whole, long fuzzing, packages, planted faults. They are in: deploy/test.sh --night" ;;
    esac
    local skipped
    skipped=$(($(count skipped) + $(count disabled)))
    [ ${#flaky[@]} -eq 0 ] || printf 'FLAKY: %s\n' "${flaky[@]}"
    echo "$(($(count tests) - skipped)) passed, 0 failed, $skipped skipped"
}

stage "setup"
needs
files_in_memory

stage "build with gcc, optimised"
build release ON

stage "quick lint"
run release -L lint -LE all

if [ $length = short ]; then
    stage "tests, optimised, in their short form"
    optimised -LE 'all|lint'
else
    stage "benchmarks: do they build?"
    build release ON bench
    address_sanitizer
    thread_sanitizer
    other_machines
    stage "all tests and lint, optimised"
    forgiving optimised
fi
if [ $length = night ]; then
    night
fi
report
