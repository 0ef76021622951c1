#!/usr/bin/env bash
# Make Debian's packages of the files that git tracks: a source package, the .debs, and an index for apt.
#
#   deploy/packages.sh [OUT]             OUT is build/packages by default
#   deploy/packages.sh --source [OUT]    the source package alone; needs no compiler
#
# OUT/fed-VERSION is the source with deploy/debian as debian/. Names and bits of the packages depend on the source alone: not on the
# folder, the time, the user or the umask. `deploy/setup.sh --packages` installs what this needs. docs/packages.md has the rest.
# SPDX-License-Identifier: Apache-2.0
set -Eeuo pipefail
cd "$(dirname "$0")/.."
umask 022

die() {
    echo "deploy/packages.sh: $*" >&2
    exit 1
}

# Let the build use Debian's own programs. A Python of pyenv or conda, or one in /usr/local, lacks what debhelper needs.
PATH=$(tr : '\n' <<<"$PATH" | grep -E '^/(usr/)?(s?bin|lib/.*)$' | paste -sd :)

only_source=no
if [ "${1:-}" = --source ]; then
    only_source=yes
    shift
fi
out=$(realpath -m "${1:-build/packages}")
[ $# -le 1 ] || die "wants one folder at most: deploy/packages.sh [--source] [OUT]"
for tool in git dpkg-source dpkg-scanpackages; do
    command -v $tool >/dev/null || die "$tool is not here: on Debian, deploy/setup.sh --packages installs it"
done
git ls-files --error-unmatch deploy/debian/rules >/dev/null 2>&1 || die "this is not a checkout of git, which knows the source's files"

changelog() {
    dpkg-parsechangelog -l deploy/debian/changelog -S "$1"
}
version=$(changelog Version)
upstream=${version%-*}
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(changelog Timestamp)
grep -qF "project(fed VERSION $upstream " CMakeLists.txt ||
    die "deploy/debian/changelog is of version $upstream, and CMakeLists.txt is not: change the one that is older"

same_bits=(--sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=gnu)
tree=$out/fed-$upstream

make_source() {
    rm -rf "$tree" "$out"/*.deb "$out"/fed_* "$out/Packages"
    mkdir -p "$tree"
    git ls-files -z -- . ':!deploy/debian' |
        tar -c --null --no-recursion -T - "${same_bits[@]}" --transform "s,^,fed-$upstream/,S" |
        xz -T1 >"$out/fed_$upstream.orig.tar.xz"
    tar -x -C "$out" -f "$out/fed_$upstream.orig.tar.xz"
    git ls-files -z -- deploy/debian |
        tar -c --null --no-recursion -T - "${same_bits[@]}" --transform "s,^deploy/,,S" | tar -x -C "$tree"
    (cd "$out" && dpkg-source --build "fed-$upstream")
}

make_source
if [ $only_source = no ]; then
    (cd "$tree" && dpkg-buildpackage -us -uc -j"$(nproc)") ||
        die "dpkg-buildpackage failed; its output is above. Missing packages: apt-get build-dep $tree"
    (cd "$out" && dpkg-scanpackages --multiversion . >Packages)
    echo "deploy/packages.sh: $(find "$out" -maxdepth 1 -name '*.deb' | wc -l) packages of version $version are in $out"
fi
