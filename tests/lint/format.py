"""Check that clang-format would change nothing.

    format.py ROOT      exit status 1 if it would, 77 (skip) where clang-format 14 is missing
"""
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import tree

VERSION = "14"  # each version formats a little differently


def main(root):
    tool = tree.tool("clang-format", VERSION)
    if not tool:
        print(f"skipped: clang-format {VERSION} is not here")
        return 77
    paths = tree.files(root, (".c", ".h"))
    out = subprocess.run([tool, "--dry-run", "-Werror", *paths], cwd=root, capture_output=True, text=True).stderr
    bad = sorted({line.split(":")[0] for line in out.splitlines() if ": error:" in line})
    return tree.report([f"{path}: run clang-format -i {path}" for path in bad], "format")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
