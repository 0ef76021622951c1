"""Run the tests of the Python package: run.py tests|wheel ROOT LIBRARY BIN

tests   the test_*.py of this folder, on the package in the tree and LIBRARY, a build tree's libfedpy.so
wheel   the same on the package as pip installs it into an empty virtual environment, without a network

BIN is the folder of the programs. Takes a Python that has NumPy. Exit status 77: no Python has what this needs.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 280  # a guard, not a measure


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def imports(python, modules):
    command = [python, "-c", f"import {', '.join(modules)}"]
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def find_python(modules):
    """A Python that can import all of these modules, and PyTorch too if one can."""
    for wanted in ([*modules, "torch"], modules):
        for python in ("/usr/bin/python3", sys.executable):
            if imports(python, wanted):
                return python
    skip(f"no python3 has {', '.join(modules)}; in Debian: python3-numpy python3-pip python3-venv python3-wheel")


def run_tests(python, root, binaries, environment):
    command = [python, "-B", "-W", "error", "-m", "unittest", "discover", "-s", str(HERE)]
    environment = dict(os.environ, FED_ROOT=root, FED_BIN=binaries, **environment)
    sys.exit(subprocess.run(command, env=environment, cwd="/", timeout=SECONDS, check=False).returncode)


def install(python, root, library, folder):
    """Install the package into a new environment in the folder; returns its Python."""
    copy = folder / "tree" / "fedclient" / "python"  # building writes beside the sources
    shutil.copytree(pathlib.Path(root) / "fedclient" / "python", copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    shutil.copy(pathlib.Path(root) / "CMakeLists.txt", folder / "tree")
    subprocess.run([python, "-m", "venv", "--system-site-packages", folder / "venv"], check=True)
    own = str(folder / "venv" / "bin" / "python")
    subprocess.run([own, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", str(copy)], check=True,
                   env=dict(os.environ, FED_PYTHON_LIBRARY=library, PIP_DISABLE_PIP_VERSION_CHECK="1"), timeout=SECONDS)
    return own


def main():
    what, root, library, binaries = sys.argv[1:]
    if what == "tests":
        run_tests(find_python(["numpy"]), root, binaries,
                  {"PYTHONPATH": str(pathlib.Path(root) / "fedclient" / "python"), "FED_PYTHON_LIBRARY": library})
    python = find_python(["setuptools", "wheel", "pip", "venv", "ensurepip", "numpy"])
    with tempfile.TemporaryDirectory() as folder:
        run_tests(install(python, root, library, pathlib.Path(folder)), root, binaries, {})


main()
