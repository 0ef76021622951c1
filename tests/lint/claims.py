#!/usr/bin/env python3
"""Check that each claim of docs/threat-model.md names a test, and that the test exists.

usage: claims.py ROOT
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

PAGE = "docs/threat-model.md"
NAMED = re.compile(r"`(tests/[\w/.]+\.c)`: `(\w+)`")


def complaints(root):
    """Yield a sentence for each claim without a test that exists."""
    claims = 0
    in_claims = False
    for number, line in enumerate((root / PAGE).read_text().splitlines(), 1):
        if not line.startswith("|"):
            in_claims = False
        elif line.startswith("| claim |"):
            in_claims = True
        elif in_claims and not line.startswith("|---"):
            claims += 1
            named = NAMED.findall(line)
            if not named:
                yield f"{PAGE}:{number}: this claim names no test"
            for path, test in named:
                source = root / path
                if not source.is_file() or not re.search(rf"\({test}[,)]", source.read_text()):
                    yield f"{PAGE}:{number}: {path} runs no test {test}"
    if claims == 0:
        yield f"{PAGE}: no table of claims was found"


def main():
    found = list(complaints(pathlib.Path(sys.argv[1])))
    for complaint in found:
        print(complaint)
    print(f"claims: {len(found)} finding(s)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
