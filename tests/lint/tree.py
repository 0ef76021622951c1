"""The files that the lint looks at: all files of the tree, except those in build/, __pycache__/ and hidden folders other than .ci."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess


def files(root, endings):
    """Return the paths below root, relative and sorted, that end in one of endings."""
    found = []
    for folder, folders, names in os.walk(root):
        top = folder == root
        folders[:] = [f for f in folders if f == ".ci" or not (f.startswith(".") or f == "__pycache__" or top and f == "build")]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith(endings)]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def tool(name, version):
    """Return the path of NAME-VERSION, or of NAME if that is of this version; None: neither is installed."""
    for path in filter(None, map(shutil.which, (f"{name}-{version}", name))):
        if re.search(rf"version {version}\.", subprocess.run([path, "--version"], capture_output=True, text=True).stdout):
            return path
    return None


def report(findings, what):
    """Print findings and return the exit status."""
    for finding in findings:
        print(finding)
    print(f"{what}: {len(findings)} finding(s)")
    return 1 if findings else 0
