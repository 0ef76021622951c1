"""Run a check unless it has passed before with the same inputs.

    once.py NAME [--input PATH]... [--tool PROGRAM]... -- COMMAND...

A check that passed is not run again as long as NAME, COMMAND, the contents of all PATHs (files, and folders with all that is below
them), the PROGRAMs, this machine's architecture and the variables FED_* are the same. Then one line says so, and the exit status is 0.
Otherwise COMMAND runs, and its exit status becomes that of once.py. Only status 0 is remembered; a check that was skipped is not.

Passed checks are remembered in ${XDG_CACHE_HOME:-~/.cache}/fed, also for other clones. With FED_FRESH=1 COMMAND runs in any case.

In an archive (.a) the member with the build's id does not matter, because it differs with each commit.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 20_000  # largest number of remembered checks for each NAME
BUILD_ID = b"build_id.c.o/"


class Memory:
    """The digests of passed checks. Each is an empty file in a folder of the user's cache."""

    def __init__(self, kind):
        self.folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "fed" / kind

    def has(self, digest):
        if os.environ.get("FED_FRESH", "0") not in ("", "0"):
            return False
        try:
            os.utime(self.folder / digest)  # keeps a used digest for longer
        except OSError:
            return False
        return True

    def keep(self, digest):
        """Remember a digest. If the folder can't be written, print a warning and go on."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / digest).touch()
        except OSError as error:
            print(f"once.py: {error}: can't remember that this check passed", file=sys.stderr)

    def trim(self, most=MOST):
        """Forget the digests that were not used for the longest time."""
        ages = []
        for path in self.folder.glob("*"):
            try:
                ages.append((path.stat().st_mtime_ns, path))
            except FileNotFoundError:  # removed by another process
                pass
        for _, path in sorted(ages)[:max(0, len(ages) - most)]:
            path.unlink(missing_ok=True)


def digest(*parts):
    """Return one hash of several bytes or texts. It also depends on where each of them ends."""
    total = hashlib.sha256()
    for part in parts:
        part = part.encode() if isinstance(part, str) else part
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


def members(archive):
    """Yield name and contents of each member of an archive."""
    at = 8
    long_names = b""
    while at + 60 <= len(archive):
        name, size = archive[at:at + 16].rstrip(), int(archive[at + 48:at + 58])
        contents = archive[at + 60:at + 60 + size]
        if name == b"//":
            long_names = contents
        elif name not in (b"/", b"/SYM64/"):
            if name[:1] == b"/":
                name = long_names[int(name[1:]):].split(b"\n", 1)[0]
            yield name, contents
        at += 60 + size + size % 2


def of_file(path):
    contents = path.read_bytes()
    if contents.startswith(b"!<arch>\n"):
        return digest(*(part for name, text in members(contents) if name != BUILD_ID for part in (name, text)))
    return digest(contents)


def of_path(path):
    """Return the digest of a file, or of a folder's files with their names. A link to a folder counts with its target's path."""
    path = pathlib.Path(path)
    if not path.exists():
        return "missing"
    if not path.is_dir():
        return of_file(path)
    found = []
    for folder, folders, names in os.walk(path.resolve()):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names + folders):
            entry = pathlib.Path(folder, name)
            if entry.is_symlink():
                found += [os.path.relpath(entry, path.resolve()), os.readlink(entry)]
            if entry.is_file():
                found += [os.path.relpath(entry, path.resolve()), of_file(entry)]
    return digest(*found)


def of_tool(name):
    """Return the digest of a program on PATH, from its bytes and the output of --version."""
    path = shutil.which(name)
    if path is None:
        return "missing"
    said = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).stdout
    return digest(pathlib.Path(path).read_bytes(), said)


def relative(text):
    """Return the text without the path of this clone, so that clones can share digests."""
    return str(text).replace(str(ROOT), "ROOT")


def state(arguments):
    """Return the digest of everything that the check's result may depend on."""
    variables = sorted(f"{name}={relative(value)}" for name, value in os.environ.items() if name.startswith("FED_") and name != "FED_FRESH")
    parts = [of_file(pathlib.Path(__file__)), arguments.name, platform.machine(), str(len(variables)), *variables,
             str(len(arguments.command)), *map(relative, arguments.command)]
    for path in arguments.input:
        parts += [relative(path), of_path(path)]
    for name in arguments.tool:
        parts += [name, of_tool(name)]
    return digest(*parts)


def main(words):
    if "--" not in words:
        sys.exit(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--tool", action="append", default=[])
    arguments = parser.parse_args(words[:words.index("--")])
    arguments.command = words[words.index("--") + 1:]
    memory, before = Memory("passed"), state(arguments)
    if memory.has(before):
        print(f"{arguments.name}: unchanged since it passed at digest {before[:16]}; FED_FRESH=1 runs it again")
        return 0
    status = subprocess.run(arguments.command, check=False).returncode
    if status == 0 and state(arguments) == before:  # only if no input has changed meanwhile
        memory.keep(before)
        memory.trim()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
