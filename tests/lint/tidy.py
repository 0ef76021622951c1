"""Run clang-tidy over the build's sources, several at a time. What it checks is in .clang-tidy.

    tidy.py ROOT BUILD [PATTERN]    only sources whose path contains PATTERN, without one all but the tests, which take as
                                    long again ("tests/" looks at them); exit status 1 on findings, 77 (skip) where
                                    clang-tidy 14 is missing

A source without findings is remembered in BUILD/tidy, and not looked at again as long as it is the same, is compiled
alike, and no header, check or clang-tidy has changed.
"""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys

import tree

VERSION = "14"  # a later one has more checks, and finds other things with the same ones
DEFINES_FED_FAIL = ["common/error.c"]


def digest(*texts):
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def sources(tool, root, build, pattern):
    """Each source's path, and the name of the file that says that it is without findings."""
    commands = {}
    for entry in json.loads(contents(os.path.join(build, "compile_commands.json"))):
        commands.setdefault(os.path.relpath(entry["file"], root), []).append(entry["command"].encode())
    common = digest(subprocess.run([tool, "--version"], check=True, capture_output=True).stdout, contents(__file__),
                    *(contents(os.path.join(root, path)) for path in tree.files(root, (".h", ".def", ".clang-tidy"))))
    return sorted((path, os.path.join(build, "tidy", digest(common.encode(), contents(os.path.join(root, path)), *of)))
                  for path, of in commands.items()
                  if not path.startswith("..") and (pattern in path if pattern else not path.startswith("tests/")))


def tidy(tool, root, build, path):
    knowledge = [] if path in DEFINES_FED_FAIL else [f"--extra-arg=-include{root}/tests/lint/analyzer.h",
                                                     f"--extra-arg=-I{root}/common/include"]
    done = subprocess.run([tool, "-p", build, "--quiet", "--extra-arg=-UNDEBUG",
                           "--extra-arg=-Wno-unused-command-line-argument", *knowledge, path], cwd=root,
                          capture_output=True, text=True)
    return path, done.returncode, done.stdout, done.stderr


def main(root, build, pattern=""):
    root, build = os.path.abspath(root), os.path.abspath(build)
    tool = tree.tool("clang-tidy", VERSION)
    if tool is None:
        print(f"skipped: clang-tidy {VERSION} is not here")
        return 77
    os.makedirs(os.path.join(build, "tidy"), exist_ok=True)
    found = sources(tool, root, build, pattern)
    todo = {path: clean for path, clean in found if not os.path.exists(clean)}
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, status, out, err in pool.map(lambda p: tidy(tool, root, build, p), todo):
            if status != 0 or "warning:" in out:
                bad += 1
                print(out or err)
            else:
                open(todo[path], "wb").close()
    print(f"tidy: {len(found)} sources, {len(found) - len(todo)} of them as they were, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
