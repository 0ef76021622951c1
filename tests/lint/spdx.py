#!/usr/bin/env python3
"""Each source names its licence in a line of its own, after its first comment: spdx.py ROOT [--fix]

--fix writes the line where it is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import re
import sys

import tree

LICENCE = "SPDX-License-Identifier: Apache-2.0"
# Patterns of a file's first comment, and the line with the licence.
C_LIKE = (re.compile(r'\A(?:"use strict";\n)?(?:/\*.*?\*/\n|(?://[^\n]*\n)+)?', re.DOTALL), f"/* {LICENCE} */\n")
HASH_LIKE = (re.compile(r'\A(?:#[^\n]*\n)*'), f"# {LICENCE}\n")
PYTHON = (re.compile(r'\A(?:#[^\n]*\n)*(?:""".*?"""\n)?', re.DOTALL), f"# {LICENCE}\n")
VERILOG = (re.compile(r'\A(?://[^\n]*\n)?'), f"// {LICENCE}\n")
HTML = (re.compile(r'\A<!DOCTYPE html>\n(?:<!--.*?-->\n)?', re.DOTALL), f"<!-- {LICENCE} -->\n")
KINDS = {(".c", ".h", ".h.in", ".def", ".cpp", ".js", ".css"): C_LIKE,
         (".sh", ".cmake", ".cmake.in", "CMakeLists.txt", "Makefile", "run"): HASH_LIKE,
         (".v", ".java", ".swift", ".modulemap"): VERILOG, (".py",): PYTHON, (".html",): HTML}


def main(root, fix):
    findings = []
    for endings, (first_comment, line) in KINDS.items():
        for path in tree.files(root, endings):
            text = tree.read(root, path)
            if line in text[:4000]:
                continue
            if fix:
                end = first_comment.match(text).end()
                with open(f"{root}/{path}", "w", encoding="utf-8") as file:
                    file.write(text[:end] + line + text[end:])
            else:
                findings.append(f"{path}:1: no line names its licence; tests/lint/spdx.py . --fix writes it")
    return tree.report(findings, "spdx")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--fix" in sys.argv))
