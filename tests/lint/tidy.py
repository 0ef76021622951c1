"""Run clang-tidy over every source of the build, several at a time. What it checks is in .clang-tidy.

    tidy.py ROOT BUILD [PATTERN]    only sources whose path contains PATTERN; exit status 1 on findings, 77 (skip)
                                    where clang-tidy is missing
"""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

DEFINES_FED_FAIL = ["common/error.c"]


def sources(root, build, pattern):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        paths = {os.path.relpath(entry["file"], root) for entry in json.load(file)}
    return sorted(path for path in paths if not path.startswith("..") and pattern in path)


def tidy(tool, root, build, path):
    knowledge = [] if path in DEFINES_FED_FAIL else [f"--extra-arg=-include{root}/tests/lint/analyzer.h",
                                                     f"--extra-arg=-I{root}/common/include"]
    done = subprocess.run([tool, "-p", build, "--quiet", "--extra-arg=-UNDEBUG", *knowledge, path], cwd=root,
                          capture_output=True, text=True)
    return path, done.returncode, done.stdout, done.stderr


def main(root, build, pattern=""):
    root, build = os.path.abspath(root), os.path.abspath(build)
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if not tool:
        print("skipped: clang-tidy is not here")
        return 77
    bad = 0
    paths = sources(root, build, pattern)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, status, out, err in pool.map(lambda p: tidy(tool, root, build, p), paths):
            if status != 0 or "warning:" in out:
                bad += 1
                print(out or err)
    print(f"tidy: {len(paths)} sources, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
