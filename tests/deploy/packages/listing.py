"""Debian's packages, as far as a build tree can tell: listing.py ROOT BUILD

version   debian/changelog is of CMake's version
listing   each file that `cmake --install` installs is in just one package or named in not-installed, and each line of a listing names
          a file; debian/rules moves each systemd unit to where debhelper finds it
scripts   sh reads the maintainer scripts, and systemd-sysusers, where it is installed, the users
lintian   finds nothing in the source package, where lintian and dpkg-dev are installed
deploy/packages-test.sh builds the packages and runs them, which takes much longer.
"""
# SPDX-License-Identifier: Apache-2.0
import fnmatch
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

SECONDS = 240  # limit of a command in seconds


def fail(text):
    sys.exit(f"listing.py: {text}")


def say(*words, **options):
    run = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False, **options)
    if run.returncode != 0:
        fail(f"{' '.join(words)} ends with {run.returncode}:\n{run.stdout}")
    return run.stdout


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def check_version(root, debian):
    project = re.search(r"project\(fed VERSION (\S+)", read(root, "CMakeLists.txt"))[1]
    packaged = re.match(r"fed \((.+)-[^-]+\)", read(debian, "changelog"))[1]
    if packaged != project:
        fail(f"deploy/debian/changelog has version {packaged}, and CMakeLists.txt has {project}: add an entry with `dch -v {project}-1`")


def installed(build, below):
    """Yield the installed paths as Debian names them. MACHINE stands for an architecture's folder of libraries. Debian has a folder for zsh's completions."""
    say("cmake", "--install", build, "--prefix", "/usr", env={**os.environ, "DESTDIR": below})
    for at, _, names in os.walk(below):
        for name in names:
            path = os.path.relpath(os.path.join(at, name), below)
            path = path.replace("zsh/site-functions", "zsh/vendor-completions")
            yield re.sub(r"^usr/lib(?:64|/[^/]*-linux-[^/]*)?/(libfed|cmake|pkgconfig)", r"usr/lib/MACHINE/\1", path)


def listings(debian):
    """Yield (file, pattern) for each line of debhelper's lists."""
    for path in sorted(glob.glob(os.path.join(debian, "*.install")) + [os.path.join(debian, "not-installed")]):
        for line in read(path).splitlines():
            if line.strip() and not line.startswith("#"):
                yield os.path.basename(path), line.split()[0]


def check_listing(root, debian, build, below):
    units = {f"usr/lib/systemd/system/{name}" for name in re.findall(r"mv debian/tmp/usr/lib/systemd/system/(\S+)", read(debian, "rules"))}
    places = {path: ["rules"] for path in installed(build, below) if path in units}
    for name in os.listdir(os.path.join(root, "deploy/systemd")):
        if name.endswith(".service") and f"usr/lib/systemd/system/{name}" not in places:
            fail(f"debian/rules does not hand {name} to debhelper")
    paths = [path for path in installed(build, below) if path not in places]
    for listing, pattern in listings(debian):
        if pattern.startswith("deploy/"):
            found = os.path.exists(os.path.join(root, pattern))
        else:
            found = [path for path in paths if fnmatch.fnmatch(path, pattern) or path.startswith(pattern + "/")
                     or any(fnmatch.fnmatch(above, pattern) for above in parents(path))]
            for path in found:
                places.setdefault(path, []).append(listing)
        if not found:
            fail(f"{listing}: nothing is installed as {pattern}")
    for path in paths:
        if len(places.get(path, [])) != 1:
            fail(f"{path} is in {' and '.join(places.get(path, [])) or 'no package'}: it belongs in one debian/*.install")
    print(f"listing: {len(places)} files, each in one place")


def parents(path):
    while path := os.path.dirname(path):
        yield path


def check_scripts(debian):
    for name in sorted(os.listdir(debian)):
        if re.search(r"\.(preinst|postinst|prerm|postrm)$", name):
            say("sh", "-n", os.path.join(debian, name))
            if "#DEBHELPER#" not in read(debian, name) or "\nset -e\n" not in read(debian, name):
                fail(f"{name} lacks set -e, or #DEBHELPER#, where debhelper adds its part")
    for path in sorted(glob.glob(os.path.join(debian, "*.sysusers"))):
        if shutil.which("systemd-sysusers"):
            say("systemd-sysusers", "--dry-run", path)


def check_source(root, work):
    missing = [tool for tool in ("git", "dpkg-source", "dpkg-scanpackages", "lintian") if not shutil.which(tool)]
    if missing or not os.path.exists(os.path.join(root, ".git")):
        print(f"lintian: the source package is not checked: {' '.join(missing) or 'a checkout of git'} is not here")
        return
    say(os.path.join(root, "deploy/packages.sh"), "--source", work)
    source, = glob.glob(os.path.join(work, "*.dsc"))
    found = say("lintian", "--allow-root", "--fail-on", "error,warning", "--display-info", source)
    if found.strip():
        print(found)
    print("lintian: nothing in the source package")


def main(root, build):
    debian = os.path.abspath(os.path.join(root, "deploy/debian"))
    with tempfile.TemporaryDirectory(prefix="fed-packages-") as work:
        check_version(root, debian)
        check_listing(root, debian, build, os.path.join(work, "installed"))
        check_scripts(debian)
        check_source(root, os.path.join(work, "source"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
