#!/usr/bin/env bash
# Boot a Debian that lies in a folder: a real systemd, in namespaces and a cgroup of its own, with no network but loopback.
#   boot.sh ROOT CGROUP     needs root; CGROUP is a folder of cgroup 2 in which nothing runs. Ends when systemd ends
# This script becomes unshare. Enter the system with nsenter --all --target PID, where PID is unshare's child.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

root=$1
if [ "$2" != inside ]; then
    echo $$ >"$2/cgroup.procs"
    exec unshare --mount --propagation private --pid --fork --kill-child --uts --ipc --net --cgroup "$0" "$root" inside
fi

ip link set lo up
hostname fed-test
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

cd "$root"
mkdir -p .outside
pivot_root . .outside
umount -l .outside
exec env -i container=fed PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd </dev/null
