#!/usr/bin/env python3
"""Compile each public header alone, as C11 and as C++17: headers.py CC ROOT MADE

A header that compiles alone includes what it needs; as C++17 it can be used from C++. MADE is where CMake puts the headers that it makes.
Without a C++ compiler (c++ or g++) only C is compiled, and the output says so.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tree

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def public_headers(root):
    """Yield (folder, name) of each public header, such as ("common/include", "fed/hash.h")."""
    for path in tree.files(root, (".h", ".h.in")):
        if "/include/" in path and not path.startswith("tests/"):
            folder, name = path.split("/include/", 1)
            yield folder + "/include", name.removesuffix(".in")


def compile_alone(compiler, language, standard, includes, name):
    """Return the compiler's errors for a source that includes this header twice and nothing else."""
    source = f'#include "{name}"\n#include "{name}"\nint main(void) {{ return 0; }}\n'
    run = subprocess.run([*compiler, "-x", language, f"-std={standard}", "-D_POSIX_C_SOURCE=200809L", *WARNINGS, *includes, "-"],
                         input=source, text=True, stderr=subprocess.PIPE)
    return run.stderr if run.returncode != 0 else ""


def main(cc, root, made):
    headers = sorted(public_headers(root))
    includes = [f"-I{made}"] + [f"-I{os.path.join(root, folder)}" for folder in sorted({folder for folder, _ in headers})]
    cpp = shutil.which("c++") or shutil.which("g++")
    ways = [([cc], "c", "c11")] + ([([cpp], "c++", "c++17")] if cpp else [])
    if not cpp:
        print("headers: no C++ compiler is here, so the headers are compiled as C alone; deploy/setup.sh installs g++")
    jobs = [(*way, includes, name) for way in ways for _, name in headers]
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda job: compile_alone(*job), jobs))
    findings = [f'"{job[4]}" does not compile alone as {job[2]}:\n{text}' for job, text in zip(jobs, said) if text]
    return tree.report(findings, f"headers: {len(headers)} public headers, {len(jobs)} compilations")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
