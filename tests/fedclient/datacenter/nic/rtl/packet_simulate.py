"""Simulate the NIC's packet level in verilator, and compare each frame with golden frames and the NIC in C. Measure beats per cycle.

    packet_simulate.py FOLDER [--frames N] [--seed N] [--include=FOLDER]... [--library=PATH]...

FOLDER is where verilator compiles. The libraries contain the NIC in C. The second build has FIFOs for two short frames,
which are always full, and a table of four connections. Exit status 1: something differs, and the last line says what; 77: a
tool is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import sys

import rtl_tools

# e, bits of the table's index, bits of the FIFOs' indexes, beats of the longest frame, share of the frames
BUILDS = [(10, 6, 10, 288, 1.0), (6, 2, 7, 50, 1.0)]


def build(arguments, e, table, fifo, most):
    """Compile the harness with the NIC's sender and receiver. Return the program."""
    fifos = [f"-GA={fifo}", f"-GB={fifo}", f"-GMOST={most}"]
    folder = arguments.folder / f"packets_{e}_{most}"
    folder.mkdir(parents=True, exist_ok=True)
    models = [rtl_tools.verilate(folder / "tx", "nic_tx", [f"-GE={e}", f"-GTABLE={table}", *fifos]),
              rtl_tools.verilate(folder / "rx", "nic_rx", fifos)]
    return rtl_tools.harness(arguments, folder / "packet_harness", "packet_harness.cpp", models,
                             [f"BOUND={e}", f"TABLE={table}", f"MOST={most}"])


def main():
    parser = argparse.ArgumentParser()
    rtl_tools.options(parser)
    parser.add_argument("--frames", type=int, default=10_000)
    arguments = parser.parse_args()
    rtl_tools.need("verilator", "g++", "make")
    for e, table, fifo, most, share in BUILDS:
        print(f"bound 2^-{e}, 2^{table} connections, FIFOs of 2^{fifo} beats, frames of up to {most} beats", flush=True)
        output, status = rtl_tools.run([build(arguments, e, table, fifo, most), int(arguments.frames * share), arguments.seed,
                                        rtl_tools.ROOT / "tests/vectors/nic"], rtl_tools.SECONDS)
        print(output, flush=True)
        if status:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
