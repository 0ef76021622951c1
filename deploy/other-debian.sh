#!/usr/bin/env bash
# Test on another Debian: run a command in a minimal system of that release, on a clean clone of HEAD.
#
#   deploy/other-debian.sh trixie|bookworm [COMMAND ...]     default: ./deploy/demo.sh, then ./deploy/test.sh
#
# Needs root and debootstrap, and takes packages from FED_MIRROR (default: the mirror that debootstrap knows). build/debian/RELEASE
# holds the system, and keeps the packages that were installed: remove that folder for a fresh one. The host's proxy settings
# of apt, its MNIST in build/data and ../shared are there too, and so are FED_CROSS, FED_FRONT_PORT and FED_DEVICES_PORT.
# SPDX-License-Identifier: Apache-2.0
set -Eeuo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "deploy/other-debian.sh: $*" >&2
    exit 1
}

[ $# -ge 1 ] || die "say which release: deploy/other-debian.sh trixie|bookworm [COMMAND ...]"
release=$1
shift
[ "$(id -u)" -eq 0 ] || die "a system in a folder needs root: run this with sudo"
command -v debootstrap >/dev/null || die "debootstrap is not here: apt-get install debootstrap"

# Run in separate namespaces, so that mounts and processes end with the script, however it ends.
if [ "${FED_OTHER_DEBIAN:-}" != inside ]; then
    FED_OTHER_DEBIAN=inside exec unshare --mount --propagation private --pid --fork --kill-child \
        "$PWD/deploy/other-debian.sh" "$release" "$@"
fi

step=
trap 'echo "deploy/other-debian.sh: stopped: on Debian $release this step failed: $step; its output is above" >&2' ERR
begin() {
    step=$1
    printf '\n== %s: %s\n' "$release" "$step"
}

system=$PWD/build/debian/$release

make_system() {
    local new=$system.new
    rm -rf "$new"
    mkdir -p "$new"
    debootstrap --variant=minbase "$release" "$new" ${FED_MIRROR:+"$FED_MIRROR"} || return 1
    apt-config dump --format '%f "%v";%n' Acquire::http::Proxy Acquire::https::Proxy >"$new/etc/apt/apt.conf.d/80proxy"
    mv "$new" "$system"
}

mount_what_programs_need() {
    mount -t proc proc "$system/proc"
    mount --rbind /dev "$system/dev"
    cp -L /etc/resolv.conf "$system/etc/resolv.conf"
    if [ -d ../shared ]; then
        mkdir -p "$system/srv/shared"
        mount --bind ../shared "$system/srv/shared"
        mount -o remount,bind,ro "$system/srv/shared"
    fi
}

clone() {
    rm -rf "$system/srv/fed"
    git clone -q --no-local . "$system/srv/fed"
    if [ -d build/data/mnist ]; then
        mkdir -p "$system/srv/fed/build/data"
        cp -r build/data/mnist "$system/srv/fed/build/data/"
    fi
}

inside() {
    chroot "$system" env -i HOME=/tmp LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${FED_CROSS:+FED_CROSS="$FED_CROSS"} ${FED_FRONT_PORT:+FED_FRONT_PORT="$FED_FRONT_PORT"} \
        ${FED_DEVICES_PORT:+FED_DEVICES_PORT="$FED_DEVICES_PORT"} \
        sh -c 'cd /srv/fed && exec "$@"' sh "$@"
}

begin "a minimal system in build/debian/$release"
[ -d "$system" ] || make_system
mount_what_programs_need
begin "a clean clone of $(git rev-parse --short HEAD)"
clone
if [ $# -gt 0 ]; then
    begin "$*"
    inside "$@"
else
    for command in ./deploy/demo.sh ./deploy/test.sh; do
        begin "$command"
        inside "$command"
    done
fi
printf '\nDebian %s: passed\n' "$release"
