"""Shared by the checks of the Verilog: where its files are, which tools are installed, and how to run them with a time limit."""
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
SECONDS = 580  # time limit for a compiler or a simulation


def need(*tools):
    """If a tool is missing, print which and end the check as skipped."""
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}; deploy/setup.sh --rtl installs them")
        sys.exit(SKIP)


def run(command, seconds, **options):
    """Run a tool. Return its output and exit status. A tool that takes too long is killed, and counts as failed."""
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


def options(parser):
    """Add the options that both simulations have."""
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--library", action="append", default=[])


def verilate(folder, module, parameters):
    """Compile a module with verilator. Return the folder of the compiled model."""
    output, status = run(["verilator", "--cc", "--build", "-O3", "-CFLAGS", "-O2", "-Mdir", folder, "-y", RTL, "--top-module", module,
                          *parameters, RTL / f"{module}.v"], SECONDS)
    return folder if status == 0 else sys.exit(f"{output}\nrtl: verilator could not compile {module}")


def harness(arguments, program, source, models, defines):
    """Compile a harness with its models and the C libraries. Return the program."""
    root = pathlib.Path(run(["verilator", "--getenv", "VERILATOR_ROOT"], 10)[0].strip()) / "include"
    output, status = run(
        ["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", *(f"-D{define}" for define in defines), "-isystem", root,
         *(f"-isystem{model}" for model in models), f"-I{ROOT}", *(f"-I{folder}" for folder in arguments.include), HERE / source,
         *(archive for model in models for archive in model.glob("*__ALL.a")), "-w", root / "verilated.cpp",
         root / "verilated_threads.cpp", *arguments.library, "-pthread", "-o", program], SECONDS)
    return program if status == 0 else sys.exit(f"{output}\nrtl: {source} does not compile")


def mutated(sources, name, old, new, folder):
    """Return the sources with a copy in place of the file of that name, in which one text is changed."""
    text = next(path for path in sources if path.name == name).read_text(encoding="utf-8")
    if text.count(old) != 1:
        sys.exit(f"{name}: the text {old!r} must occur once, but occurs {text.count(old)} times")
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    return [folder / name if path.name == name else path for path in sources]
