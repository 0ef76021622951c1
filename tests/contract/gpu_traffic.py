"""Count the bytes of device memory that the codecs' kernels read and write, with oclgrind's counters of instructions.

    gpu_traffic.py ROOT GPU_ONCE [SPEC...]      checks tests/support/gpu_traffic.def and docs/results/gpu.md; of SPECs it prints the counts

Kernels that oclgrind can't run optimised are counted as they are written. A load or store of each work-item counts, also one that
caches would answer; copies and fills of the host's calls do not. A count may be 2 % above its line: lengths of messages depend on the
values. Less than half of its line is an error too, because then this program has misread oclgrind's counters. Exit status 77: without oclgrind.
"""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

VALUES = 65536  # the least number of values for which sparse codecs sample their threshold
LINE = re.compile(r'FED_GPU_TRAFFIC\("([^"]+)", ([\d.]+), ([\d.]+)\)')
MOVED = re.compile(r"- (?:load|store) global \((\d[\d,]*) bytes\)|- (?:load|store) constant \((\d[\d,]*) bytes\)")


def count(once, spec, what):
    """Return the bytes of device memory read and written for each value."""
    for options in ([], ["--build-options", "-cl-opt-disable"]):  # oclgrind 21.10 can't run some optimised kernels
        done = subprocess.run(["oclgrind", *options, "--inst-counts", once, "opencl:0", spec, str(VALUES), what], capture_output=True,
                              text=True, timeout=300)
        if "Undefined external function" not in done.stderr:
            break
    if done.returncode != 0 or "status 0" not in done.stdout:
        raise SystemExit(f"{spec}, {what}: {done.stdout[-300:]}{done.stderr[-300:]}")
    atomics = sum(4 * int(n.replace(",", "")) for n in re.findall(r"(\d+) - call _Z\d+atom\w*_\w+PU3AS1", done.stdout))
    return (sum(int((a or b).replace(",", "")) for a, b in MOVED.findall(done.stdout)) + atomics) / VALUES


def main():
    root, once, specs = sys.argv[1], sys.argv[2], sys.argv[3:]
    if not shutil.which("oclgrind"):
        print("skipped: oclgrind is not installed")
        return 77
    os.environ.pop("FED_TEST_DEVICE", None)
    with open(os.path.join(root, "tests/support/gpu_traffic.def"), encoding="utf-8") as file:
        wanted = [(spec, float(encode), float(add)) for spec, encode, add in LINE.findall(file.read())]
    with open(os.path.join(root, "docs/results/gpu.md"), encoding="utf-8") as file:
        page = file.read()
    if specs:
        wanted = [(s, None, None) for s in specs]
    wrong = 0
    jobs = [(spec, what, want) for spec, *wants in wanted for what, want in zip(("encode", "add"), wants)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(lambda job: count(once, job[0], job[1]), jobs))
    for (spec, what, want), moved in zip(jobs, counts):
        more = want is not None and moved > 1.02 * want + 0.005
        fewer = want is not None and moved < 0.98 * want
        print(f"{spec} {what}: {moved:.2f} bytes a value" + (f"; gpu_traffic.def has {want}" if more or fewer else ""))
        wrong += more or (want is not None and moved < 0.5 * want)
    for spec, encode, add in wanted if not specs else ():
        if f"| `{spec}` | {encode:.2f} | {add:.2f} |" not in page:
            print(f"docs/results/gpu.md has no row `{spec}` with {encode:.2f} and {add:.2f}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
