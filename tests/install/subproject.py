#!/usr/bin/env python3
"""Build this tree as a part of another project, install the client from there, and build with it: subproject.py ROOT CC

  part       a project gets this tree by FetchContent, sets FED_ROOMS=client as a plain variable, and links to fed::client
  installed  the client that this project installs is found by find_package, as static and as shared library
The programs must say how they are used. Nothing is optimised, as only the build is tested.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile

import kit

FOUND = """cmake_minimum_required(VERSION 3.20)
project(found LANGUAGES C)
find_package(fed 0.2 REQUIRED COMPONENTS client)
add_executable(minimal ${FED_SOURCE}/fedclient/examples/minimal.c)
target_link_libraries(minimal PRIVATE fed::client m)
"""


def build(source, folder, *options):
    kit.say("cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", *options)
    kit.say("cmake", "--build", folder, "-j2")
    said = subprocess.run([os.path.join(folder, "minimal")], stderr=subprocess.PIPE, text=True, check=False, timeout=kit.SECONDS).stderr
    if "usage" not in said:
        kit.fail(f"{folder}/minimal says {said!r}")


def main(root, cc):
    common = [f"-DFED_SOURCE={root}", f"-DCMAKE_C_COMPILER={cc}"]
    with tempfile.TemporaryDirectory(prefix="fed-part-") as work:
        part, prefix, found = (os.path.join(work, name) for name in ("part", "prefix", "found"))
        build(os.path.join(kit.HERE, "subproject"), part, *common)
        print("part: built")
        kit.say("cmake", "--install", part, "--prefix", prefix)
        os.mkdir(found)
        with open(os.path.join(found, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(FOUND)
        for static in ("ON", "OFF"):
            build(found, os.path.join(work, f"build-{static}"), f"-DCMAKE_PREFIX_PATH={prefix}", f"-Dfed_USE_STATIC_LIBS={static}", *common)
            print(f"installed: built, static {static}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
