#!/usr/bin/env bash
# Test Debian's packages on a minimal Debian: build them there, twice, to the same bits; lintian; then install, train, upgrade, remove and purge.
#
#   deploy/packages-test.sh 12|13 [quick]     quick: without the second build
#
# README's two devices train as services of a real systemd, which boots in namespaces of its own. The packages are upgraded from an
# earlier version in an open round, used as each user, removed, purged, and installed again:
# tests/deploy/packages/service.sh has each step.
# Needs root, debootstrap, 4 GB in build/packages-test, and MNIST in build/data/mnist (deploy/fetch-mnist.sh). Takes packages from
# FED_MIRROR (default: the mirror that debootstrap knows). FED_CCACHE=DIR keeps what the first build compiled; the second never looks there.
# SPDX-License-Identifier: Apache-2.0
set -Eeuo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "deploy/packages-test.sh: $*" >&2
    exit 1
}

case ${1:-} in
12) release=bookworm ;;
13) release=trixie ;;
*) die "say which Debian: deploy/packages-test.sh 12|13 [quick]" ;;
esac
[ "$(id -u)" -eq 0 ] || die "a system in a folder needs root: run this with sudo"
command -v debootstrap >/dev/null || die "debootstrap is not here: deploy/setup.sh --packages installs it"
[ -e build/data/mnist/train-images-idx3-ubyte ] || die "MNIST is not here: deploy/fetch-mnist.sh build/data/mnist"

# Run in separate namespaces, so that mounts and processes end with the script, however it ends.
if [ "${FED_PACKAGES_TEST:-}" != inside ]; then
    FED_PACKAGES_TEST=inside exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0" "$@"
fi

step=
trap 'echo "deploy/packages-test.sh: stopped: on Debian $release this step failed: $step; its output is above" >&2' ERR
begin() {
    step=$1
    printf '\n== Debian %s: %s (%d s)\n' "$release" "$step" "$SECONDS"
}

folder=$PWD/build/packages-test/$release
builder=$folder/builder # a minimal Debian with what the source package needs to be built
minimal=$folder/minimal # a minimal Debian with systemd
system=$folder/system   # a copy of minimal, in which the packages are installed and used
services="fedserver fedclient"
others="fed-tools python3-fed libfedclient-dev fed-doc"

in_system() { # ROOT COMMAND...: run a command in a system that is not booted
    chroot "$1" env -i HOME=/tmp LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH="${build_path:-}/usr/sbin:/usr/bin:/sbin:/bin" "${@:2}"
}

mount_what_programs_need() { # ROOT
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
}

make_minimal() {
    rm -rf "$minimal.new"
    mkdir -p "$minimal.new"
    debootstrap --variant=minbase --include=systemd-sysv,ca-certificates "$release" "$minimal.new" ${FED_MIRROR:+"$FED_MIRROR"} || return 1
    apt-config dump --format '%f "%v";%n' Acquire::http::Proxy Acquire::https::Proxy >"$minimal.new/etc/apt/apt.conf.d/80proxy"
    echo force-unsafe-io >"$minimal.new/etc/dpkg/dpkg.cfg.d/unsafe-io" # dpkg need not sync, as nobody keeps the system
    mv "$minimal.new" "$minimal"
}

make_builder() {
    rm -rf "$builder"
    cp -a "$minimal" "$builder"
}

install_tools() { # quick if everything is installed
    in_system "$builder" apt-get update -qq
    in_system "$builder" apt-get install -y -qq --no-install-recommends build-essential ccache git lintian man-db
}

# Build the packages from a clean clone of the last commit. The second build has another folder, time, time zone and umask.
build_once() { # FOLDER [TIME ZONE]
    mkdir -p "$builder$1"
    git clone -q --no-local . "$builder$1/fed"
    [ "$1" != /srv/second ] || umask 077
    in_system "$builder" "$1/fed/deploy/packages.sh" --source "$1/packages"
    in_system "$builder" apt-get build-dep -y -qq --no-install-recommends "$1/packages/fed-$upstream"
    in_system "$builder" ${FED_CCACHE:+CCACHE_DIR=/srv/ccache} "TZ=${2:-UTC}" "$1/fed/deploy/packages.sh" "$1/packages" >"$folder/build.log" 2>&1 ||
        { tail -n 40 "$folder/build.log" && return 1; }
    umask 022
}

# Put a Python that fails before Debian's own in PATH, as pyenv and conda put theirs.
plant_python() {
    mkdir -p "$builder/srv/shims"
    printf '#!/bin/sh\necho "the build calls a Python that is not of Debian" >&2\nexit 1\n' >"$builder/srv/shims/python3"
    chmod +x "$builder/srv/shims/python3"
    build_path=/srv/shims:
}

build_first() {
    plant_python
    if [ -n "${FED_CCACHE:-}" ]; then
        mkdir -p "$FED_CCACHE" "$builder/srv/ccache"
        mount --bind "$FED_CCACHE" "$builder/srv/ccache"
        build_path+=/usr/lib/ccache:
    fi
    build_once /srv/first
    build_path=
}

compare() {
    (cd "$builder/srv/first/packages" && sha256sum -- *.deb *.dsc *.tar.xz) >"$folder/sums"
    (cd "$builder/srv/second/packages" && sha256sum -c "$folder/sums")
}

check_by_lintian() {
    in_system "$builder" lintian --version
    in_system "$builder" sh -c 'lintian --allow-root --fail-on error,warning --display-info /srv/first/packages/*.changes'
}

# Build the same source as an earlier version: the changelog names it, and so do the programs with --version.
build_old() {
    local tree=/srv/first/packages/fed-$upstream
    mkdir -p "$folder/new"
    cp "$builder"/srv/first/packages/*.deb "$folder/new"
    sed -i "1s/.*/fed ($old) unstable; urgency=medium/" "$builder$tree/debian/changelog"
    rm -rf "$builder$tree"/{debian/debhelper-build-stamp,.pybuild,build} "$builder"/srv/first/packages/*.deb
    in_system "$builder" sh -c "cd $tree && dpkg-buildpackage -b -nc -us -uc" >"$folder/build.log" 2>&1 || { tail -n 40 "$folder/build.log" && return 1; }
    mkdir -p "$folder/old"
    mv "$builder"/srv/first/packages/*.deb "$folder/old"
}

make_system() {
    rm -rf "$system"
    cp -a "$minimal" "$system"
    mount_what_programs_need "$system"
    echo "127.0.0.1 localhost" >"$system/etc/hosts" # as Debian's installer writes it
    mkdir -p "$system/srv/packages"
    cp -r build/data/mnist "$system/srv/mnist"
    cp tests/deploy/packages/service.sh "$system/srv/"
    echo "deb [trusted=yes] file:/srv/packages ./" >"$system/etc/apt/sources.list.d/fed.list"
    offer new
    # The booted system reaches no network, so what the packages need is downloaded into apt's cache before.
    in_system "$system" apt-get update -qq
    in_system "$system" apt-get install -y -qq --download-only $services
    in_system "$system" apt-get install -y -qq --download-only --no-install-recommends $services $others
    umount -R "$system/dev" "$system/proc"
    offer old
    ln -sf /dev/null "$system/etc/systemd/system/console-getty.service"
    ln -sf /dev/null "$system/etc/systemd/system/systemd-modules-load.service"
}

offer() { # old|new: put these packages where apt looks for them
    rm -f "$system"/srv/packages/*
    cp "$folder/$1"/*.deb "$system/srv/packages/"
    (cd "$system/srv/packages" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
}

boot() {
    mkdir -p "$folder/cgroup"
    mount -t cgroup2 cgroup2 "$folder/cgroup"
    mkdir -p "$folder/cgroup/fed-packages-$release"
    tests/deploy/packages/boot.sh "$system" "$folder/cgroup/fed-packages-$release" &
    machine=$!
    for _ in $(seq 120); do
        inner=$(cat "/proc/$machine/task/$machine/children" 2>/dev/null || true)
        inner=${inner%% *} # the process id of systemd, once it runs
        case $(inside systemctl is-system-running 2>/dev/null || true) in running | degraded) return ;; esac
        sleep 1
    done
    die "the system in $system was not up within 2 minutes"
}

inside() { # COMMAND...: run a command in the booted system
    nsenter --target "$inner" --all --root --wd env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

apt() {
    inside apt-get -q -y "$@" >"$folder/apt.log" 2>&1 || { cat "$folder/apt.log" && return 1; }
}

read_index() { # let apt read the index of our packages only, as the network can't be reached
    apt update -o Dir::Etc::sourcelist=sources.list.d/fed.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0
}

stage() {
    inside /srv/service.sh "$1"
}

upstream=$(dpkg-parsechangelog -l deploy/debian/changelog -S Version)
upstream=${upstream%-*}
old=0.1.9~-1

begin "minimal systems in build/packages-test/$release"
[ -d "$minimal" ] || make_minimal
[ -d "$builder" ] || make_builder
mount_what_programs_need "$builder"
install_tools
rm -rf "$builder/srv/first" "$builder/srv/second" "$folder/new" "$folder/old"
begin "build of $(git rev-parse --short HEAD)"
build_first
begin "lintian"
check_by_lintian
if [ "${2:-}" != quick ]; then
    begin "a second build, elsewhere and later, of the same bits"
    build_once /srv/second Asia/Tokyo
    compare
fi
begin "the same source as version $old"
build_old

begin "a minimal system boots systemd"
make_system
boot
inside systemctl --version | head -n 1
begin "install $old"
read_index
apt install $services
apt install --no-install-recommends $others
begin "README's two devices, as services"
stage start
begin "upgrade in an open round"
offer new
read_index
apt dist-upgrade
stage upgraded
stage finish
begin "tasks of each user, the page's download, backups"
stage users
begin "remove"
apt remove $services
stage removed
begin "purge"
apt purge $services
grep -h "stays; to delete" "$folder/apt.log"
stage purged
begin "install again"
apt install $services
stage again
printf '\nDebian %s: passed (%d s)\n' "$1" "$SECONDS"
