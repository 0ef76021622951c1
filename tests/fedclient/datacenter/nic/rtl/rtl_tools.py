"""What the checks of the Verilog share: where it lies, which tools are here, and running them under a deadline."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[4]
RTL = ROOT / "fedclient/datacenter/nic/rtl"
SKIP = 77


def need(*tools):
    """End the check as skipped, with a sentence, where a tool is missing."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}; deploy/setup.sh --rtl installs them")
        sys.exit(SKIP)


def run(command, seconds, **options):
    """Run a tool; its output and exit status. One that takes longer is killed, and fails."""
    command = [str(part) for part in command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                          **options) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            return f"{output}\n{command[0]}: took more than {seconds} s", 124
    return output, process.returncode


def mutated(sources, name, old, new, folder):
    """The same sources, but for one place in the file of that name, which is changed in a copy."""
    text = next(path for path in sources if path.name == name).read_text(encoding="utf-8")
    if text.count(old) != 1:
        sys.exit(f"{name}: {old!r} stands there {text.count(old)} times, not once")
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    return [folder / name if path.name == name else path for path in sources]
