"""Check that clang-format would change nothing.

    format.py ROOT      exit status 1 if it would, 77 (skip) where clang-format 14 is missing

A file that is right is remembered, as tidy.py remembers its sources, and looked at again when it, the format or clang-format has
changed. FED_FRESH=1 looks at all files.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import once  # noqa: E402

VERSION = "14"  # each version formats a little differently


def main(root):
    tool = tree.tool("clang-format", VERSION)
    if not tool:
        print(f"skipped: clang-format {VERSION} is not here")
        return 77
    memory = once.Memory("format")
    version = subprocess.run([tool, "--version"], check=True, capture_output=True).stdout
    rules = tree.read(root, ".clang-format")
    digests = {path: once.digest(version, rules, path, tree.read(root, path)) for path in tree.files(root, (".c", ".h"))}
    todo = [path for path, digest in digests.items() if not memory.has(digest)]
    bad = set()
    if todo:
        done = subprocess.run([tool, "--dry-run", "-Werror", *todo], cwd=root, capture_output=True, text=True)
        bad = {line.split(":")[0] for line in done.stderr.splitlines() if ": error:" in line}
        if done.returncode != 0 and not bad:
            sys.exit(done.stderr)
    for path in set(todo) - bad:
        memory.keep(digests[path])
    memory.trim()
    return tree.report([f"{path}: run clang-format -i {path}" for path in sorted(bad)], "format")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
