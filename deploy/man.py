#!/usr/bin/env python3
"""Write a program's manual page from what the program says with --help and --version: man.py PROGRAM SUMMARY OUT.1

A program with commands, whose help lists them as lines "  name  words", has a section for each, from `PROGRAM COMMAND --help`.
The page depends on nothing else: no date, no path.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import sys

from program_help import read_program, say


def literal(text):
    """Escape a text for roff, so that it is printed as it is: backslashes, hyphens, quotes, and a dot that begins a line."""
    lines = [line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga") for line in text.rstrip("\n").split("\n")]
    return "\n".join(["\\&" + line if line.startswith(".") else line for line in lines])


def block(text):
    return f".PP\n.nf\n{literal(text)}\n.fi\n"


def page(program, summary):
    name, (own, *commands) = read_program(program)
    release = say(program, "--version").split(" (")[0]
    parts = [f'.\\" Made by deploy/man.py from what the program says.\n.TH {name.upper()} 1 "" "{release}" "Federated learning in C"\n',
             f".SH NAME\n{name} \\- {literal(summary)}\n", f".SH DESCRIPTION\n{block(own.text)}"]
    parts += [".SH COMMANDS\n"] * any(command.text for command in commands)
    parts += [f'.SS "{name} {command.name}"\n{block(command.text)}' for command in commands if command.text]
    others = [other for other in ("fedserver", "fedclientd", "fedsim", "fedtrain", "fedcodec") if other != name]
    parts.append(".SH SEE ALSO\n" + ",\n".join(f".BR {other} (1)" for other in others).replace(",\n", " ,\n") + "\n.PP\nThe documents that are installed with it.\n")
    return "".join(parts)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    os.makedirs(os.path.dirname(sys.argv[3]), exist_ok=True)
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        file.write(page(*sys.argv[1:3]))
