#!/usr/bin/env python3
"""Compare the instructions of kernels, as callgrind counts them, with those in instructions.txt:

    instructions.py PROGRAM --compiler WORDS                       fails if a count changed by more than 3 %
    instructions.py PROGRAM --compiler WORDS --write WHY KERNEL... writes new counts of these kernels ("all": of each), and why

A count, unlike a time, is the same in each run, whatever else the machine does. It depends on the compiler, so the file
names the compiler, and the test skips with another one. Valgrind shows programs a processor with AVX2 at most.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).with_name("instructions.txt")
SKIP = 77
TOLERANCE = 0.03


def count(program):
    """{kernel: instructions}, in the order of the program. Callgrind writes a file after each call of measured_kernel."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        run = subprocess.run(["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=measured_kernel",
                              "--dump-after=measured_kernel", f"--callgrind-out-file={out}", program],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if run.returncode != 0:
            sys.exit(f"instructions.py: {program} under valgrind ended with {run.returncode}:\n{run.stderr[-2000:]}")
        kernels = run.stdout.splitlines()
        files = sorted(glob.glob(out + ".*"), key=lambda name: int(name.rsplit(".", 1)[1]))
        counts = [int(re.search(r"^(?:summary|totals): (\d+)", pathlib.Path(f).read_text(), re.M)[1]) for f in files]
    if len(counts) != len(kernels):
        sys.exit(f"instructions.py: {len(kernels)} kernels ran, callgrind wrote {len(counts)} files")
    return dict(zip(kernels, counts))


def read():
    """The compiler's name, and {kernel: (instructions, why)}."""
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    rows = [re.match(r" *(\d+) \| (.+?) +\| (.+)$", line) for line in lines[1:]]
    return lines[0], {row[2]: (int(row[1]), row[3]) for row in rows}


def write(compiler, rows):
    wide = max(map(len, rows))
    text = [f"{number:10d} | {name:{wide}} | {why}" for name, (number, why) in rows.items()]
    FILE.write_text("# Instructions of a kernel | the kernel | why the number last changed. Written by instructions.py.\n"
                    + "\n".join([compiler] + text) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--write", nargs="+", metavar=("WHY", "KERNEL"))
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed; deploy/setup.sh installs it")
        return SKIP
    compiler, known = read() if FILE.exists() else (options.compiler, {})
    if options.write:
        now = count(options.program)
        chosen = now if options.write[1:] == ["all"] else options.write[1:]
        rows = {name: (now[name], options.write[0]) if name in chosen else known[name] for name in now if name in chosen or name in known}
        write(options.compiler, rows)
        return 0
    if compiler != options.compiler:
        print(f"skipped: the counts are of {compiler}, this is {options.compiler}")
        return SKIP
    now = count(options.program)
    wrong = [f"{name}: not in the file" for name in now if name not in known]
    wrong += [f"{name}: in the file, but not in the program" for name in known if name not in now]
    for name in now.keys() & known.keys():
        change = now[name] / known[name][0] - 1
        if abs(change) > TOLERANCE:
            wrong.append(f"{name}: {now[name]:,} instructions, {known[name][0]:,} before ({100 * change:+.1f} %)")
    print("\n".join(wrong) if wrong else f"{len(now)} kernels, none changed by more than {100 * TOLERANCE:.0f} %")
    if wrong:
        print(f"If that is meant: {sys.argv[0]} {options.program} --compiler '{options.compiler}' --write 'WHY' 'KERNEL'...")
    return 1 if wrong else 0


sys.exit(main())
