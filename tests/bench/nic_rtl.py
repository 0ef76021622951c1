#!/usr/bin/env python3
"""Measure cells and clock of the NIC's engines: yosys for Xilinx' 7 series, and yosys and nextpnr for a Lattice HX8K.

    nic_rtl.py [--pnr SECONDS] [--only xc7|hx8k | --quick]

Prints a table in Markdown. For the HX8K, which has too few pins, each engine stands between a shift register and a registered
exclusive or of all outputs, whose cells are counted with it. --quick, which the test rtl.synthesis runs: each engine for 7
series, and the smallest for the HX8K. Exit status 1: nextpnr finds no clock rate for an engine, or an engine has a latch; 77: a
tool is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/fedclient/datacenter/nic/rtl"))
import rtl_tools

# Columns: engine, parameter, bits of a transfer, inputs, outputs. The clock is left out.
COMPRESS = ("nic_compress", None, 256, ["rst", "s_tdata[256]", "s_tkeep[32]", "s_tlast", "s_tvalid", "m_tready"],
            ["m_tdata[256]", "m_tkeep[32]", "m_tlast", "m_bytes[16]", "m_tvalid", "s_tready"])


def decompress(width):
    return ("nic_decompress", ("WIDTH", width), width,
            ["rst", f"s_tdata[{width}]", f"s_tkeep[{width // 8}]", "s_tlast", "s_count[16]", "s_tvalid", "m_tready"],
            [f"m_tdata[{width}]", f"m_tkeep[{width // 8}]", "m_tlast", "m_error", "m_tvalid", "s_tready"])


def bits(port):
    match = re.fullmatch(r"(\w+)\[(\d+)\]", port)
    return (match[1], int(match[2])) if match else (port, 1)


def wrapper(engine, parameter, inputs, outputs):
    """Return the Verilog of a module with three pins around an engine."""
    n, m = (sum(bits(port)[1] for port in ports) for ports in (inputs, outputs))
    wires = [f".{name}({'in' if ports is inputs else 'out'}[{at}+:{size}])" for ports in (inputs, outputs)
             for at, (name, size) in placed(ports)]
    groups = (m + 15) // 16
    return (f"module pins(input clk, input si, output reg so);\nreg [{n - 1}:0] in; wire [{m - 1}:0] out; reg [{16 * groups - 1}:0] held;\n"
            f"reg [{groups - 1}:0] folded; integer i;\n{engine} {f'#(.{parameter[0]}({parameter[1]}))' if parameter else ''} engine(.clk(clk), "
            f"{', '.join(wires)});\nalways @(posedge clk) begin in <= {{in, si}}; held <= out; so <= ^folded;\n"
            f"for (i = 0; i < {groups}; i = i + 1) folded[i] <= ^held[16*i+:16]; end\nendmodule\n")


def placed(ports):
    at = 0
    for name, size in map(bits, ports):
        yield at, (name, size)
        at += size


def sources():
    return " ".join(str(path) for path in sorted(rtl_tools.RTL.glob("*.v")))


def yosys(script):
    output, status = rtl_tools.run(["nice", "-n", "15", "yosys", "-q", "-p", script], 900)
    if status:
        sys.exit(f"{output[-2000:]}\nnic_rtl: yosys failed")


def cells(path):
    """Return the number of cells of each kind."""
    return json.loads(path.read_text(encoding="utf-8"))["design"]["num_cells_by_type"]


def xc7(folder, engine):
    name, parameter, _, _, _ = engine
    chosen = f"chparam -set {parameter[0]} {parameter[1]} {name}; " if parameter else ""
    stat = folder / "stat.json"
    yosys(f"read_verilog {sources()}; {chosen}synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {name}; tee -q -o {stat} stat -json")
    kinds = cells(stat)
    if any(re.match(r"LD[CP]E", cell) for cell in kinds):
        sys.exit(f"nic_rtl: {name} has a latch: some path of an always @* block assigns no value")
    total = {kind: sum(n for cell, n in kinds.items() if re.fullmatch(pattern, cell))
             for kind, pattern in (("lut", r"LUT\d"), ("ff", r"FD\w+"), ("carry", "CARRY4"))}
    return f"{total['lut']:,} LUT, {total['ff']:,} FF, {total['carry']} CARRY4"


def hx8k(folder, engine, seconds):
    name, parameter, _, inputs, outputs = engine
    top, netlist = folder / "pins.v", folder / "pins.json"
    top.write_text(wrapper(name, parameter, inputs, outputs), encoding="utf-8")
    yosys(f"read_verilog {sources()} {top}; synth_ice40 -abc9 -top pins -json {netlist}")
    output, status = rtl_tools.run(["nice", "-n", "15", "nextpnr-ice40", "--hx8k", "--package", "ct256", "--json", netlist, "--freq", "50", "--timing-allow-fail"], seconds)
    used = re.search(r"ICESTORM_LC:\s*(\d+)/\s*(\d+)", output)
    clock = re.findall(r"Max frequency for clock[^:]*: ([\d.]+) MHz", output)
    where = f"{int(used[1]):,} of {int(used[2]):,} cells" if used else "?"
    if status or not clock:
        sys.exit(f"nic_rtl: {name}: {where}: {'does not fit' if used and int(used[1]) > int(used[2]) else f'nextpnr gave no clock: {output[-2000:]}'}")
    return f"{where}, {float(clock[-1]):.1f} MHz"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pnr", type=int, default=600)
    parser.add_argument("--only", choices=("xc7", "hx8k"))
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rtl_tools.need("yosys", *(() if arguments.only == "xc7" else ("nextpnr-ice40",)))
    print("| engine | bits a beat | xc7, yosys | HX8K, nextpnr |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for engine in (COMPRESS, decompress(256), decompress(128)):
            place = arguments.only != "xc7" and not (arguments.quick and engine[2] > 128)
            row = ["" if arguments.only == "hx8k" else xc7(pathlib.Path(folder), engine),
                   hx8k(pathlib.Path(folder), engine, arguments.pnr) if place else ""]
            print(f"| {engine[0]} | {engine[2]} | {row[0]} | {row[1]} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
