#!/usr/bin/env bash
# Every test: with gcc, with clang and libFuzzer, under AddressSanitizer, UBSan and ThreadSanitizer, and the lint.
# With FED_CROSS=1, or where cross compilers and qemu are installed, codecs and trainer also on other machines, emulated.
# Stops at the first stage that fails. The last lines are ctest's summary of the optimised build.
# SPDX-License-Identifier: Apache-2.0
set -Eeuo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
name=
trap 'echo "deploy/test.sh: stopped: $name failed; its output is above" >&2' ERR

stage() {
    name=$1
    printf '\n== %s (%d s)\n' "$name" "$SECONDS"
}

build() { # PRESET, and are warnings errors: ON or OFF
    cmake --preset "$1" -DFED_WERROR="$2" >/dev/null
    cmake --build "build/$1" -j "$jobs" -- --quiet
}

# Half as many again as there are cores: many tests mostly wait, for a lease to run out or for a peer that is silent.
run() { # BUILD [ctest options]
    "${prefix[@]}" ctest --test-dir "build/$1" -j $((jobs + (jobs + 1) / 2)) --output-on-failure "${@:2}"
}
prefix=(env)

stage "setup"
deploy/setup.sh
named=()
if deploy/setup.sh --gpu; then
    # Below, tests of GPUs fail where they find no device. Without apt-get nothing was installed, so they skip.
    ! command -v apt-get >/dev/null || named=(FED_TEST_DEVICE=gpu)
else
    echo "OpenCL can't be installed here: what is missing of the tests of GPUs is skipped"
fi
deploy/setup.sh --postgres || echo "PostgreSQL's server can't be installed here: the tests of that store are skipped"
deploy/setup.sh --image || echo "what checks the container image can't be installed here: parts of deploy.image and deploy.helm are skipped"
if deploy/fetch-mnist.sh build/data/mnist 2>/dev/null; then
    export FED_MNIST_DIR=$PWD/build/data/mnist
else
    echo "MNIST can't be fetched here: the tests that need it are skipped"
fi

# Tests sync thousands of files, and on a disk they would wait for it. In memory nothing is lost of them: what a killed process has
# written stays. Some tests write a script there, and run it.
room_kb=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
if [ -z "${TMPDIR:-}" ] && [ "${room_kb:-0}" -gt $((4 * 1024 * 1024)) ] && ! grep -q '^[^ ]* /dev/shm .*noexec' /proc/mounts; then
    export TMPDIR=/dev/shm
fi

if command -v arm-none-eabi-gcc >/dev/null && ! deploy/baremetal.sh --check >/dev/null; then
    deploy/baremetal.sh --sources || echo "the sources for a board can't be fetched here: its test is skipped"
fi

stage "build with gcc, optimised"
build release ON

stage "benchmarks: do they build?"
cmake --build build/release -j "$jobs" --target bench -- --quiet

stage "quick lint"
run release -L lint -E '^lint\.tidy$'

stage "build with clang, with libFuzzer, AddressSanitizer and UBSan"
# PoCL's compiler, LLVM, gives the thread that compiles a signal stack, which the sanitizer would unmap when the thread ends.
# LeakSanitizer can't read the thread-local memory of PoCL's threads.
export ASAN_OPTIONS=use_sigaltstack=0:intercept_tls_get_addr=0
export LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0"
build clang ON

stage "fuzz targets"
run clang -L fuzz

stage "tests under AddressSanitizer and UBSan"
# In both stages with sanitizers a test tries less than in the last stage: FED_TEST_SIZE in tests/support/fed_test.h.
# Left out here, for the last stage has them: tests that only start other programs, or compile; those that run once more on the
# fake CUDA driver; the sweeps and the kill matrix, whose thousands of processes run code of other tests; and whole trainings
# on a device, whose steps fedclient.train.test_backends has.
run clang -LE fuzz -E '^cuda\.|^gpu\.nvcc$|^browser\.|^e2e\.test_(sweep|site_deaths|kill_matrix)$|^parity\.|^codecs\.(readme|portable)$|^fedtrain\.memory$|^vectors\.|^deploy\.(nic|caches|proxies|figure|units|monitoring)$|^fedclient\.train\.test_device_curves$'

stage "tests with threads under ThreadSanitizer"
# Some kernels place memory so randomly that ThreadSanitizer can't start, so randomization is off.
if setarch -R true 2>/dev/null; then
    prefix=(setarch -R)
fi
# Left out: tests with one thread, and those of fednic, which has one; e2e.test_fedsim, the sweeps and the kill matrix, whose threads
# and processes are those of deploy.sim.test_inproc, e2e.test_chaos and e2e.test_sites, which run here; and Open MPI and devices,
# which the sanitizer can't see into.
threads=(-R '^(fedclient|fedserver|deploy\.sim|e2e)\.|^common\.test_threads$|^codecs\.test_tensor$|^contract\.test_each_(link|collective)$'
    -E '^fedserver\.strategies\.test_rows$|^fedclient\.(train\.|platforms\.|stack$|without_curl$|test_(client|slots)$|apps\.test_fed(train|worker_predict)$|datacenter\.links\.mpi\.)|^e2e\.test_(resume|fedsim|sweep|site_deaths|kill_matrix|gang_faults|nic_.*)$')
# gcc reports the sanitizer's own code as uses of unset variables, so warnings are no errors.
cmake --preset tsan -DFED_WERROR=OFF >/dev/null
# A test NAME.memory or NAME.postgres is the program NAME, told to use another store.
mapfile -t targets < <(ctest --test-dir build/tsan -N "${threads[@]}" |
    sed -n 's/\.\(memory\|postgres\)$//; s/^ *Test *#[0-9]*: //p' | sort -u)
cmake --build build/tsan -j "$jobs" --target fedserver fedclientd fedworker allreduce fedsim fedtrain_program "${targets[@]}" -- --quiet
# Without PoCL's place in that folder there is no device.
OCL_ICD_VENDORS=/nowhere TSAN_OPTIONS="suppressions=$PWD/tests/support/tsan.supp" run tsan "${threads[@]}"
prefix=(env)

stage "codecs and trainer on other machines"
if [ "${FED_CROSS:-0}" = 1 ]; then
    deploy/setup.sh --cross
fi
if deploy/cross.sh --check aarch64 armhf s390x; then
    deploy/cross.sh aarch64 armhf s390x
else
    echo "skipped: cross compilers or qemu are not installed; FED_CROSS=1 installs them"
fi

stage "all tests and lint, optimised"
prefix=(env "${named[@]}")
run release
