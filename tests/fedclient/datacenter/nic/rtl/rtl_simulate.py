"""Simulate both engines in verilator and compare them with the C codec, bit for bit. Measure bursts per cycle.

    rtl_simulate.py FOLDER [--bursts N] [--seed N] [--include=FOLDER]... [--library=PATH]...

FOLDER is where verilator compiles. The libraries contain the C codec. Each build has another bound 2^-e, and another
width of the decompressor. Exit status 1: something differs, and the last line says what; 77: a tool is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import sys

import rtl_tools

# e, width of the decompressor in bits, share of the bursts
BUILDS = [(10, 256, 1.0), (8, 128, 0.1), (15, 64, 0.1), (6, 256, 0.1)]


def build(arguments, e, width):
    """Compile the harness with the two engines."""
    models = [rtl_tools.verilate(arguments.folder / f"nic_compress-GE_{e}", "nic_compress", [f"-GE={e}"]),
              rtl_tools.verilate(arguments.folder / f"nic_decompress-GWIDTH_{width}", "nic_decompress", [f"-GWIDTH={width}"])]
    return rtl_tools.harness(arguments, arguments.folder / f"rtl_harness_{e}_{width}", "rtl_harness.cpp", models,
                             [f"BOUND={e}", f"WIDTH={width}"])


def main():
    parser = argparse.ArgumentParser()
    rtl_tools.options(parser)
    parser.add_argument("--bursts", type=int, default=500_000)
    arguments = parser.parse_args()
    rtl_tools.need("verilator", "g++", "make")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for e, width, share in BUILDS:
        print(f"bound 2^-{e}, decompressor of {width} bit", flush=True)
        output, status = rtl_tools.run([build(arguments, e, width), int(arguments.bursts * share), arguments.seed,
                                        rtl_tools.ROOT / "tests/vectors/bursts"], rtl_tools.SECONDS)
        print(output, flush=True)
        if status:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
