"""Check rules for the text of the sources that neither a compiler nor a formatter checks.

    text.py ROOT        prints path:line: what is wrong; exit status 1 if anything is
"""
# SPDX-License-Identifier: Apache-2.0
import re
import sys

import tree

C_FILES = (".c", ".h", ".h.in", ".def")
ALL_FILES = C_FILES + (".v", ".java", ".swift", ".modulemap", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".html", "/run", "run")
COLUMNS = 100
LINES = 800

# Written in pieces, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(work|home|root|Users|mnt)/\w")
# Functions that print or end the program, which a library must not call.
SPEAKS = re.compile(r"(?<![\w.>])(v?f?printf|puts|fputs|putchar|perror|exit|_exit|abort|quick_exit)\(")
LIBRARIES = ("common/", "codecs/", "fedclient/", "fedserver/")
PROGRAMS = ("codecs/gpu/examples/", "codecs/tool/", "fedclient/apps/", "fedclient/examples/", "fedserver/commands/")
# Library files that may print.
MAY_SPEAK = ("common/system/log_stderr.c", "common/system/progress.c")


# Macros of fed/api.h before and after the declarations of a public header.
BRACKETS = ["FED_API_BEGIN", "FED_API_END"]
NOT_DECLARED = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)


def public_findings(lines):
    """Yield findings about a public header: what it declares must be between the two brackets."""
    if not NOT_DECLARED.sub("", "\n".join(lines)).strip():
        return
    places = [(number, line) for number, line in enumerate(lines, 1) if line in BRACKETS]
    if [line for _, line in places] != BRACKETS:
        yield 1, "a public header has FED_API_BEGIN after its includes and FED_API_END at its end (fed/api.h)"
        return
    inside = range(places[0][0], places[1][0])
    for number, line in enumerate(lines, 1):
        if line.startswith("#include") and number in inside:
            yield number, "includes stand before FED_API_BEGIN"


def c_findings(path, lines):
    if not lines or not lines[0].startswith("/*"):
        yield 1, "the first line says what the file is for, in a comment"
    if len(lines) > LINES:
        yield LINES + 1, f"more than {LINES} lines: split the file"
    library = path.startswith(LIBRARIES) and not path.startswith(PROGRAMS + MAY_SPEAK)
    header = "/include/" in path and path.endswith(".h") and path != "common/include/fed/api.h"
    if header and not path.startswith("tests/"):
        yield from public_findings(lines)
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS and not path.endswith(".def"):
            yield number, f"{len(line)} columns; at most {COLUMNS}"
        if library and (match := SPEAKS.search(line)) and not line.lstrip().startswith(("*", "/*")):
            yield number, f"{match[1]}: a library neither prints nor ends the program; return a status"


def verilog_findings(lines):
    if not lines or not lines[0].startswith("//"):
        yield 1, "the first line says what the file is for, in a comment"
    if len(lines) > LINES:
        yield LINES + 1, f"more than {LINES} lines: split the file"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns; at most {COLUMNS}"


def findings(root):
    for path in tree.files(root, ALL_FILES):
        text = tree.read(root, path)
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if match := UNFINISHED.search(line):
                yield f"{path}:{number}: {match[1]}: finish it, or file an issue"
            if match := MACHINE_PATH.search(line):
                yield f"{path}:{number}: a path of one machine: {match[0]}..."
            if line != line.rstrip() or ("\t" in line and path.endswith(C_FILES + (".v",))):
                yield f"{path}:{number}: a blank at the end of the line, or a tab"
        if text and not text.endswith("\n"):
            yield f"{path}:{len(lines)}: the last line has no end"
        if path.endswith(C_FILES):
            yield from (f"{path}:{number}: {text}" for number, text in c_findings(path, lines[:-1]))
        elif path.endswith(".v"):
            yield from (f"{path}:{number}: {text}" for number, text in verilog_findings(lines[:-1]))


if __name__ == "__main__":
    sys.exit(tree.report(list(findings(sys.argv[1])), "text"))
