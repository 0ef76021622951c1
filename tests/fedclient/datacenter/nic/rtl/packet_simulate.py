"""The packet level in verilator against golden frames and the card in C: each frame that leaves is compared; beats a cycle.

    packet_simulate.py FOLDER [--frames N] [--seed N] [--include=FOLDER]... [--library=PATH]...

FOLDER is where verilator compiles; the libraries are what the card in C consists of. The second build has FIFOs for two short frames,
which are full at all times, and a table of four connections. Exit status 1: something differs, and the last line says what; 77: a
tool is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import pathlib
import sys

import rtl_tools

# e, bits of the table's index, bits of the FIFOs' indexes, beats of the longest frame, share of the frames
BUILDS = [(10, 6, 10, 288, 1.0), (6, 2, 7, 50, 1.0)]
SECONDS = 580


def verilate(folder, module, parameters):
    output, status = rtl_tools.run(["verilator", "--cc", "--build", "-O3", "-CFLAGS", "-O2", "-Mdir", folder, "-y", rtl_tools.RTL,
                                    "--top-module", module, *parameters, rtl_tools.RTL / f"{module}.v"], SECONDS)
    return folder if status == 0 else sys.exit(f"{output}\npacket_simulate: verilator could not compile {module}")


def build(arguments, e, table, fifo, most):
    """Compile the harness with both directions."""
    fifos = [f"-GA={fifo}", f"-GB={fifo}", f"-GMOST={most}"]
    folder = arguments.folder / f"packets_{e}_{most}"
    folder.mkdir(parents=True, exist_ok=True)
    models = [verilate(folder / "tx", "nic_tx", [f"-GE={e}", f"-GTABLE={table}", *fifos]), verilate(folder / "rx", "nic_rx", fifos)]
    root = pathlib.Path(rtl_tools.run(["verilator", "--getenv", "VERILATOR_ROOT"], 10)[0].strip()) / "include"
    harness = folder / "packet_harness"
    output, status = rtl_tools.run(
        ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", f"-DBOUND={e}", f"-DTABLE={table}", f"-DMOST={most}",
         "-isystem", root, *(f"-isystem{model}" for model in models), f"-I{rtl_tools.ROOT}",
         *(f"-I{folder}" for folder in arguments.include), rtl_tools.HERE / "packet_harness.cpp",
         *(archive for model in models for archive in model.glob("*__ALL.a")), "-w", root / "verilated.cpp",
         root / "verilated_threads.cpp", *arguments.library, "-pthread", "-o", harness], SECONDS)
    return harness if status == 0 else sys.exit(f"{output}\npacket_simulate: the harness does not compile")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--frames", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--library", action="append", default=[])
    arguments = parser.parse_args()
    rtl_tools.need("verilator", "g++", "make")
    for e, table, fifo, most, share in BUILDS:
        print(f"bound 2^-{e}, 2^{table} connections, FIFOs of 2^{fifo} beats, frames of up to {most} beats", flush=True)
        output, status = rtl_tools.run([build(arguments, e, table, fifo, most), int(arguments.frames * share), arguments.seed,
                                        rtl_tools.ROOT / "tests/vectors/nic"], SECONDS)
        print(output, flush=True)
        if status:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
