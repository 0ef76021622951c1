"""Run a test's kernels under oclgrind, which checks each access: oclgrind.py FINDS PROGRAM

FINDS   nothing: no finding is allowed, and the test must pass
        race, read: findings of this kind must be there; whether the test passes does not matter
Exit status 77: oclgrind is not installed. The test gets FED_TEST_SMALL=1: oclgrind is slow.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77
SECONDS = 500  # limit in seconds
# oclgrind 21.10 runs optimised code wrongly.
OPTIONS = ["--data-races", "--max-errors", "20", "--build-options", "-cl-opt-disable"]
FINDING = re.compile(r"^(?:Invalid (\w+) of size|[\w-]+ data (race) at) ")


def run(program, stops_at):
    """Run a test. Return its exit status, all lines, and the kinds of findings. A finding of the kind `stops_at` ends the run."""
    env = {**os.environ, "FED_TEST_SMALL": "1", "FED_TEST_DEVICE": "opencl:0"}
    command = ["timeout", "-k", "5", str(SECONDS), "oclgrind", *OPTIONS, program]
    lines, found = [], set()
    with subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as test:
        for line in test.stdout:
            lines.append(line)
            match = FINDING.match(line)
            if match:
                found.add(match[1] or match[2])
            if stops_at in found:
                test.terminate()  # ends `timeout`, which ends the test
                break
    return test.returncode, lines, found


def main(finds, program):
    if shutil.which("oclgrind") is None:
        print("skipped: oclgrind is not installed; deploy/setup.sh --gpu installs it")
        return SKIPPED
    status, lines, found = run(program, finds)
    print("".join(lines[-100:]))
    if not any("Oclgrind Simulator" in line for line in lines):
        print("oclgrind.py: the test did not run on oclgrind's device")
        return 1
    print(f"oclgrind.py: wanted {finds}, found {sorted(found) or 'nothing'}, exit status {status}")
    return 0 if finds in found or (finds == "nothing" and not found and status == 0) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
