"""Prove by yosys-smtbmc and z3, for all short runs, that the aligner loses, doubles and reorders no byte. The proof must fail for mutants."""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import tempfile

import rtl_tools

DEPTH = 9  # cycles: two packets of two beats and what follows, with any idle cycles and backpressure between
MUTANTS = [("flush <= s_last && skip == 0 && beats != 0;", "flush <= 0;"),
           ("passed == 1 ? left != 0", "passed == 1 ? left > 1"),
           ("wire go = !p_valid || out;", "wire go = 1;"),
           ("p_shift <= shift;", "p_shift <= drop;"),
           ("p_last <= flush || left == 1;", "p_last <= flush;"),
           ("shifted = {p_high, p_low}", "shifted = {p_low, p_low}")]


def proved(source, folder):
    model = folder / "shift.smt2"
    script = (f"read_verilog -formal {source} {rtl_tools.HERE / 'nic_shift_proof.v'}; prep -flatten -top nic_shift_proof; async2sync; "
              f"opt -full; clean; dffunmap; clean; write_smt2 -wires {model}")
    output, status = rtl_tools.run(["yosys", "-q", "-p", script], 120)
    if status:
        sys.exit(f"{output}\npacket_prove: yosys could not make a model of nic_shift_proof.v")
    output, status = rtl_tools.run(["yosys-smtbmc", "-s", "z3", "--noprogress", "-t", DEPTH, model], 400)
    if "Status: PASSED" in output:
        return True
    if "Status: FAILED" in output:
        return False
    sys.exit(f"{output}\npacket_prove: z3 gave no answer within the time limit")


def main():
    rtl_tools.need("yosys", "yosys-smtbmc", "z3")
    source = rtl_tools.RTL / "nic_shift.v"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if not proved(source, folder):
            print("packet_prove: nic_shift breaks a rule")
            return 1
        print(f"packet_prove: nic_shift holds for all runs of {DEPTH} cycles", flush=True)
        for old, new in MUTANTS:
            text = source.read_text()
            if text.count(old) != 1:
                sys.exit(f"packet_prove: nic_shift.v must have this text exactly once: {old}")
            mutant = folder / "mutant.v"
            mutant.write_text(text.replace(old, new))
            if proved(mutant, folder):
                print(f"packet_prove: a mutant passes: {new}")
                return 1
    print(f"packet_prove: {len(MUTANTS)} mutants refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
