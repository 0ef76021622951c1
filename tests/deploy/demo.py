#!/usr/bin/env python3
"""What README's first command asks of a new machine may not grow: packages and megabytes that deploy/setup.sh --demo
installs beside a minimal Debian, by the package lists of this machine, and steps of its build. All that
deploy/cmake/join.cmake joins compiles. Usage: demo.py SOURCE. Without apt's lists the packages are left out, and it says so."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = sys.argv[1]
MOST_PACKAGES, MOST_MB, MOST_STEPS = 130, 400, 250
TARGETS = ("fedsim", "fedserver")


def output(*words: str, **options: object) -> str:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout  # type: ignore


def closure(packages: list[str], lists: str) -> dict[str, int]:
    """The packages that apt would install where none is, and the size of each in KB."""
    plan = output("apt-get", "-s", "-qq", "--no-install-recommends", "-o", f"Dir::State::status={lists}", "install",
                  *packages, stderr=subprocess.DEVNULL)
    names = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
    told = output("apt-cache", "show", "--no-all-versions", *names)
    sizes = {}
    for paragraph in told.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Installed-Size): (\S+)", paragraph, re.MULTILINE))
        if fields:
            sizes[fields["Package"]] = int(fields.get("Installed-Size", 0))
    return {name: sizes.get(name, 0) for name in names}


def check_packages(demo: list[str]) -> str:
    if not shutil.which("apt-get"):
        return "packages not counted: this is no Debian"
    essential = re.findall(r"^Package: (\S+)", output("sh", "-c", "dpkg-query -W -f='${Essential} Package: ${Package}\\n'"
                                                      " | sed -n 's/^yes //p'"), re.MULTILINE)
    with tempfile.NamedTemporaryFile() as nothing:
        try:
            minimal = closure([*essential, "apt"], nothing.name)
            all_of_them = closure([*essential, "apt", *demo], nothing.name)
        except subprocess.CalledProcessError:
            return "packages not counted: apt has no lists here (apt-get update)"
    more = [name for name in all_of_them if name not in minimal]
    mb = sum(all_of_them[name] for name in more) * 1024 / 1e6
    said = f"{len(more)} packages, {mb:.0f} MB"
    assert len(more) <= MOST_PACKAGES and mb <= MOST_MB, \
        f"deploy/setup.sh --demo installs {said}; the most are {MOST_PACKAGES} and {MOST_MB} MB: {' '.join(sorted(more))}"
    return said


def build(folder: str) -> str:
    """Plan the demo's build, count its steps, and make them, without the optimizer."""
    subprocess.run(["cmake", "-S", SOURCE, "--preset", "programs", "-B", folder, "-DCMAKE_BUILD_TYPE=None",
                    "-DCMAKE_C_FLAGS=-O0", "-DFED_WERROR=ON"], check=True, cwd=SOURCE, stdout=subprocess.DEVNULL)
    commands = output("ninja", "-C", folder, "-t", "commands", *TARGETS).splitlines()
    steps = len([c for c in commands if not c.startswith("ninja: ")])
    assert 50 < steps <= MOST_STEPS, f"the demo's build takes {steps} steps; the most are {MOST_STEPS}"
    made = subprocess.run(["ninja", "-C", folder, "-j", str(os.cpu_count() or 1), *TARGETS], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert made.returncode == 0, made.stdout[-6000:] + \
        "\nsources that are compiled together (deploy/cmake/join.cmake) name two things alike: rename one"
    said = subprocess.run([os.path.join(folder, "bin", "fedserver"), "--version"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    assert said.startswith("fedserver"), said
    return f"{steps} steps"


def main() -> int:
    demo = output(os.path.join(SOURCE, "deploy", "setup.sh"), "--demo", "--list").split()
    print(check_packages(demo))
    with tempfile.TemporaryDirectory() as folder:
        print(build(folder))
    return 0


sys.exit(main())
