"""Run clang-tidy over the build's sources, several at a time. What it checks is in .clang-tidy.

    tidy.py ROOT BUILD [PATTERN]    looks at the sources whose path contains PATTERN; without PATTERN, at all sources but
                                    the tests, which take as long again (PATTERN "tests/" looks at them); exit status 1
                                    on findings, 77 (skip) where clang-tidy 14 is missing

Some sources are compiled several times, such as a codec for each vector unit. The first compilation gets all checks. The
others do not get clang's analyzer: it takes nearly all of the time, and would follow the same paths again.

A source without findings is remembered. It is looked at again when the source, the way it is compiled, a file that it may include
(includes.py), the checks or clang-tidy has changed. The memory is ${XDG_CACHE_HOME:-~/.cache}/fed/tidy, which other clones share.

Where there is no such memory, the analyzer looks only at sources that differ, with what they may include, from the commit that
tests/lint/analysed.txt names. At that commit it has looked at all sources. All other checks look at each source.

FED_FRESH=1 looks at all sources with all checks, as deploy/test.sh --night does. Without a finding it says what to write into
analysed.txt.
"""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import json
import os
import subprocess
import sys

import includes
import tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import once  # noqa: E402

VERSION = "14"  # other versions have other checks
DEFINES_FED_FAIL = ["common/base/error.c"]
ANALYZER = "tests/lint/analyzer.h"
ANALYSED = "tests/lint/analysed.txt"
NO_ANALYZER = "--checks=-clang-analyzer-*"


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def sources(tool, root, build, pattern):
    """Return each source's path, the digest of all that clang-tidy's answer depends on, and the files that it reads."""
    compilations = {}
    for entry in json.loads(contents(os.path.join(build, "compile_commands.json"))):
        compilations.setdefault(os.path.relpath(entry["file"], root), []).append(entry["command"])
    common = once.digest(subprocess.run([tool, "--version"], check=True, capture_output=True).stdout,
                         *(contents(os.path.join(root, path)) for path in tree.files(root, (".clang-tidy", "tests/lint/tidy.py"))))
    analyzer = os.path.join(root, ANALYZER)
    scan = includes.Scan(root, includes.system_folders(tool))

    def digest(path, commands):
        starts = [os.path.join(root, path), analyzer, *includes.defined(commands, root)]
        read = scan.reached(starts, [f"{root}/common/include", *includes.folders(commands)])
        return once.digest(common, str(len(commands)), *(here(command, root, build) for command in commands),
                           *(part for name in read for part in (here(name, root, build), scan.hash_of(name)))), read

    return sorted((path, *digest(path, commands)) for path, commands in compilations.items()
                  if not path.startswith("..") and (pattern in path if pattern else not path.startswith("tests/")))


def git(root, *words):
    """Return what git prints, or None where it fails."""
    try:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def to_analyse(root, found):
    """Return the paths of the sources that the analyzer must look at."""
    everything = {path for path, _, _ in found}
    with open(os.path.join(root, ANALYSED), encoding="utf-8") as file:
        commit = file.read().split()[0]
    changes = git(root, "diff", "--name-only", "--no-renames", commit)
    if os.environ.get("FED_FRESH") == "1" or changes is None:
        return everything
    changed = set(changes.splitlines()) | set((git(root, "ls-files", "--others", "--exclude-standard") or "").splitlines())
    if changed & {".clang-tidy", "tests/lint/tidy.py"}:
        return everything
    changed = {os.path.join(root, name) for name in changed}
    return {path for path, _, read in found if not changed.isdisjoint(read)}


def here(text, root, build):
    """Return a command or a path without the folders of this clone and of this build."""
    return text.replace(build, "BUILD").replace(root, "ROOT")


def databases(build):
    """Write two compile_commands.json: the first compilation of each source, and all others. Yield the folder and the files of each."""
    first, others = {}, []
    for entry in json.loads(contents(os.path.join(build, "compile_commands.json"))):
        if first.setdefault(entry["file"], entry) is not entry:
            others.append(entry)
    for name, entries in (("first", list(first.values())), ("others", others)):
        folder = os.path.join(build, "tidy", name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump(entries, file)
        yield folder, {entry["file"] for entry in entries}


def tidy(tool, root, compilations, path, analyse):
    """Return what clang-tidy found; "": nothing."""
    knowledge = [] if path in DEFINES_FED_FAIL else [f"--extra-arg=-include{root}/{ANALYZER}",
                                                     f"--extra-arg=-I{root}/common/include"]
    said = ""
    for (folder, files), checks in zip(compilations, ([] if analyse else [NO_ANALYZER], [NO_ANALYZER])):
        if os.path.join(root, path) in files:
            done = subprocess.run([tool, "-p", folder, "--quiet", "--extra-arg=-UNDEBUG", *checks,
                                   "--extra-arg=-Wno-unused-command-line-argument", *knowledge, path], cwd=root,
                                  capture_output=True, text=True)
            if done.returncode != 0 or "warning:" in done.stdout:
                said += done.stdout or done.stderr or f"{path}: clang-tidy ended with {done.returncode}\n"
    return said


def main(root, build, pattern=""):
    root, build = os.path.abspath(root), os.path.abspath(build)
    tool = tree.tool("clang-tidy", VERSION)
    if tool is None:
        print(f"skipped: clang-tidy {VERSION} is not here")
        return 77
    compilations = list(databases(build))
    found = sources(tool, root, build, pattern)
    memory = once.Memory("tidy")
    todo = {path: digest for path, digest, _ in found if not memory.has(digest)}
    analyse = to_analyse(root, found) & set(todo)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, said in zip(todo, pool.map(lambda p: tidy(tool, root, compilations, p, p in analyse), todo)):
            if said:
                bad += 1
                print(said)
            elif path in analyse:
                memory.keep(todo[path])
    memory.trim()
    print(f"tidy: {len(found)} sources, {len(found) - len(todo)} of them as they were, {len(analyse)} analysed, {bad} with findings")
    if not bad and not pattern and len(analyse) == len(found):
        print(f"every source was analysed: write the commit ({(git(root, 'rev-parse', 'HEAD') or '?').strip()}) into {ANALYSED}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
