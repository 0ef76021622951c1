"""Run the proofs about the engines (yosys-smtbmc and z3). The proofs must fail for mutants.

The proofs are in nic_*_proof.v. An induction holds for streams of any length; its base, and the mutants, are checked from
the reset on.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import tempfile

import rtl_tools

RULES = rtl_tools.HERE / "nic_axi_rules.v"
# For each proof: its module, the engine's files, steps of the induction (0: none), steps from the reset on, mutants
# (file, text, replacement).
PROOFS = [
    ("nic_align_proof", ["nic_align.v"], 2, 4, [
        ("nic_align.v", "wire               out_free = m_tready || !m_tvalid;", "wire               out_free = 1'b1;"),
        ("nic_align.v", "s_ready = go && !more;", "s_ready = go;"),
        ("nic_align.v", "kept_last <= s_last && !ends_now;", "kept_last <= s_last;"),
        ("nic_align.v", "kept <= placed[8*(BEAT+MOST)-1:8*BEAT];", "kept <= joined;"),
    ]),
    ("nic_decompress_proof", ["nic_decompress.v", "nic_burst_buffer.v", "nic_split.v", "nic_decompress_block.v"], 0, 12, [
        ("nic_burst_buffer.v", "drain <= bad_end;", "drain <= 1'b0;"),
        ("nic_burst_buffer.v", "(whole || end_seen)", "whole"),
        ("nic_decompress.v", "out_free = m_tready || !m_tvalid;", "out_free = 1'b1;"),
    ]),
]
SECONDS = 280


def model(folder, proof, sources):
    path = folder / f"{proof}.smt2"
    output, status = rtl_tools.run(["yosys", "-q", "-p", f"read_verilog -formal -DNIC_PROOF {' '.join(map(str, sources))}; prep -flatten -top {proof}; "
                                    f"opt -full; dffunmap; write_smt2 -wires {path}"], 60)
    return path if status == 0 else sys.exit(f"{output}\nrtl_proofs: yosys cannot read {proof}")


def holds(path, steps, induction):
    output, status = rtl_tools.run(["yosys-smtbmc", "--noprogress", "--unroll", "-s", "z3", "-t", steps, *(["-i"] if induction else []), path], SECONDS)
    if "Status: PASSED" in output and status == 0:
        return True
    if "Status: FAILED" in output and "Assert failed" in output:
        return False
    sys.exit(f"{output[-2000:]}\nrtl_proofs: the solver gave no answer for {path.stem}")


def main():
    rtl_tools.need("yosys", "yosys-smtbmc", "z3")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for proof, engine, induction, base, mutants in PROOFS:
            sources = [*(rtl_tools.RTL / file for file in engine), RULES, rtl_tools.HERE / f"{proof}.v"]
            path = model(folder, proof, sources)
            if not holds(path, base, False) or (induction and not holds(path, induction, True)):
                print(f"rtl_proofs: {proof} does not hold")
                return 1
            print(f"rtl_proofs: {proof} holds, {f'by induction over {induction} steps' if induction else f'for {base} cycles from the reset on'}",
                  flush=True)
            for file, old, new in mutants:
                if holds(model(folder, proof, rtl_tools.mutated(sources, file, old, new, folder)), max(base, 5), False):
                    print(f"rtl_proofs: a mutant passes: {file} with {new}")
                    return 1
            print(f"rtl_proofs: {proof}: {len(mutants)} mutants refused", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
