"""Prove the codec's laws (nic_laws.v) by yosys' sat, for all 2^32 values and every bound. The proof must fail for mutants."""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import tempfile

import rtl_tools

SOURCES = [rtl_tools.RTL / "nic_compress_block.v", rtl_tools.RTL / "nic_decompress_block.v", rtl_tools.HERE / "nic_laws.v"]
MUTANTS = [("nic_compress_block.v", "4'd14 - exponent", "4'd13 - exponent"),
           ("nic_compress_block.v", "{24'd0, sign, fixed[14:8]}", "{24'd0, sign, fixed[14:9], 1'b1}"),
           ("nic_compress_block.v", "exponent < HALF", "exponent <= HALF"),
           ("nic_decompress_block.v", "8'd126", "8'd127"),
           ("nic_decompress_block.v", "sign && by1[14]", "sign")]


def proved(sources, e):
    script = (f"read_verilog -formal {' '.join(map(str, sources))}; chparam -set E {e} nic_laws; prep -flatten -top nic_laws; "
              "sat -verify -prove-asserts -show-inputs")
    output, status = rtl_tools.run(["yosys", "-q", "-p", script], 120)
    if status == 0:
        return True
    if "proof did fail" in output:
        return False
    sys.exit(f"{output}\nrtl_laws: yosys gave no answer about nic_laws.v")


def main():
    rtl_tools.need("yosys")
    for e in range(1, 16):
        if not proved(SOURCES, e):
            print(f"rtl_laws: with E = {e} a law does not hold")
            return 1
    print("rtl_laws: hold for all values, E = 1 to 15")
    with tempfile.TemporaryDirectory() as folder:
        for name, old, new in MUTANTS:
            sources = rtl_tools.mutated(SOURCES, name, old, new, pathlib.Path(folder))
            if proved(sources, 10):
                print(f"rtl_laws: a mutant passes: {name} with {new}")
                return 1
    print(f"rtl_laws: {len(MUTANTS)} mutants refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
