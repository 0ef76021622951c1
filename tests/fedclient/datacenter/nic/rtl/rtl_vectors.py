"""Run the golden vectors of tests/vectors/bursts through both engines in Icarus Verilog."""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import tempfile

import rtl_tools

VECTORS = rtl_tools.ROOT / "tests/vectors/bursts"


def main():
    rtl_tools.need("iverilog", "vvp")
    bounds = sorted(int(path.stem[1:]) for path in VECTORS.glob("e*.values"))
    if not bounds:
        sys.exit(f"rtl_vectors: there are no golden vectors in {VECTORS}")
    with tempfile.TemporaryDirectory() as folder:
        for e in bounds:
            program = pathlib.Path(folder) / "tb.vvp"
            output, status = rtl_tools.run(["iverilog", "-g2005", "-Wall", f"-Pnic_vectors_tb.E={e}", "-s", "nic_vectors_tb", "-o", program,
                                            "-y", rtl_tools.RTL, rtl_tools.HERE / "nic_vectors_tb.v"], 60)
            if status:
                sys.exit(f"{output}\nrtl_vectors: Icarus Verilog can't compile the test bench")
            runs = [[f"+values={VECTORS}/e{e}.values", f"+bursts={VECTORS}/e{e}.bursts", f"+decoded={VECTORS}/e{e}.decoded"]]
            if e == 10:
                runs.append([f"+bursts={VECTORS}/any.bursts", f"+decoded={VECTORS}/any.decoded"])
            for names in runs:
                output, status = rtl_tools.run(["vvp", program, *names], 120)
                result = output.strip().splitlines()[-1] if output.strip() else "no output"
                print(f"e = {e}: {result}")
                if "PASSED" not in output:
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
