"""Both engines in verilator against the C codec, bit for bit; bursts a cycle.

    rtl_simulate.py FOLDER [--bursts N] [--seed N] [--include=FOLDER]... [--library=PATH]...

FOLDER is where verilator compiles; the libraries are what the C codec consists of. Each build has another bound 2^-e, and another
width of the decompressor. Exit status 1: something differs, and the last line says what; 77: a tool is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import os
import pathlib
import struct
import sys

import rtl_tools

# e, bits of the decompressor, share of the bursts
BUILDS = [(10, 256, 1.0), (8, 128, 0.1), (15, 64, 0.1), (6, 256, 0.1)]
SECONDS = 580


def verilate(folder, module, parameter):
    name = f"{module}{parameter.replace('=', '_')}"
    output, status = rtl_tools.run(["verilator", "--cc", "--build", "-O3", "-CFLAGS", "-O2", "-Mdir", folder / name, "-y",
                                    rtl_tools.RTL, "--top-module", module, parameter, rtl_tools.RTL / f"{module}.v"], SECONDS)
    return folder / name if status == 0 else sys.exit(f"{output}\nrtl_simulate: verilator could not compile {module}")


def build(arguments, e, width):
    """Compile the harness with the two engines."""
    models = [verilate(arguments.folder, "nic_compress", f"-GE={e}"), verilate(arguments.folder, "nic_decompress", f"-GWIDTH={width}")]
    root = pathlib.Path(rtl_tools.run(["verilator", "--getenv", "VERILATOR_ROOT"], 10)[0].strip()) / "include"
    harness = arguments.folder / f"rtl_harness_{e}_{width}"
    output, status = rtl_tools.run(
        ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", f"-DBOUND={e}", f"-DWIDTH={width}", "-isystem", root,
         *(f"-isystem{model}" for model in models), *(f"-I{folder}" for folder in arguments.include),
         rtl_tools.HERE / "rtl_harness.cpp", *(archive for model in models for archive in model.glob("*__ALL.a")),
         "-w", root / "verilated.cpp", root / "verilated_threads.cpp", *arguments.library, "-pthread", "-o", harness], SECONDS)
    return harness if status == 0 else sys.exit(f"{output}\nrtl_simulate: the harness does not compile")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bursts", type=int, default=500_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--library", action="append", default=[])
    arguments = parser.parse_args()
    rtl_tools.need("verilator", "g++", "make")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for e, width, share in BUILDS:
        print(f"bound 2^-{e}, decompressor of {width} bit", flush=True)
        output, status = rtl_tools.run([build(arguments, e, width), int(arguments.bursts * share), arguments.seed,
                                        rtl_tools.ROOT / "tests/vectors/bursts"], SECONDS)
        print(output, flush=True)
        if status:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
