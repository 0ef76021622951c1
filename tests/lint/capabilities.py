#!/usr/bin/env python3
"""A bit of fed/capabilities.def that two lines name does not compile: each line gets the bit of the line before it, in turn.

    capabilities.py CC TOP GENERATED_INCLUDES
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import subprocess
import sys
import tempfile

LINE = re.compile(r"^FED_CAPABILITY\((\d+), (\w+)\)$", re.M)


def compiles(cc, top, generated, text):
    """Whether wire.c compiles with this text as capabilities.def, and what the compiler says."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder, "fed")
        place.mkdir()
        place.joinpath("capabilities.def").write_text(text, encoding="utf-8")
        done = subprocess.run([cc, "-std=c11", "-fsyntax-only", f"-I{folder}", f"-I{top}/common/include", f"-I{generated}", f"-I{top}",
                               f"{top}/common/messages/wire.c"], capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stderr


def main():
    cc, top, generated = sys.argv[1:]
    text = pathlib.Path(top, "common/include/fed/capabilities.def").read_text(encoding="utf-8")
    lines = list(LINE.finditer(text))
    good, said = compiles(cc, top, generated, text)
    if not good or len(lines) < 13:
        sys.exit(f"capabilities.def: {len(lines)} lines were found, and the compiler says: {said}")
    for before, line in zip(lines, lines[1:]):
        twice = text[:line.start()] + f"FED_CAPABILITY({before[1]}, {line[2]})" + text[line.end():]
        good, said = compiles(cc, top, generated, twice)
        if good or f"BIT_{before[1]}_IS_TAKEN" not in said:
            sys.exit(f"capabilities.def: bit {before[1]} is given to {before[2]} and to {line[2]}, and the compiler says: {said or 'nothing'}")
    print(f"{len(lines)} capabilities, and no bit can be given twice")


if __name__ == "__main__":
    main()
