"""Run the tests of the Python package: run.py test_*|wheel|types ROOT LIBRARY BIN

test_*  this file of the folder, on the package in the tree and LIBRARY, a build tree's libfedpy.so
wheel   some of them and the notebook, on the wheel in an empty virtual environment, without a network. Where auditwheel is
        installed, the wheel is that of deploy/wheel.sh, which needs no library of this machine but those of glibc
types   mypy on the package, and on the recipes

BIN is the folder of the programs. Uses build/python-venv (deploy/setup.sh --python makes it), else a Python that has NumPy.
Exit status 77: no Python has what this needs.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import left

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 580  # the limit for a command; a test has CTest's
IN_WHEEL = ["test_codecs", "test_coordinator", "test_data", "test_notebook", "test_sim"]
OF_GLIBC = re.compile(r"(libc|libm|libz|libdl|libpthread|libresolv|librt|ld-linux[-\w]*|linux-vdso)\.so")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def imports(python, modules):
    command = [python, "-c", f"import {', '.join(modules)}"]
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def find_python(root, modules):
    """Return the first Python that can import all of these modules."""
    for python in (f"{root}/build/python-venv/bin/python", sys.executable, "/usr/bin/python3"):
        if imports(python, modules):
            return python
    skip(f"no python3 has {', '.join(modules)}; deploy/setup.sh --python makes one that has")


def run_tests(python, root, binaries, names, environment):
    for module in ("torch", "flwr", "pandas", "nbclient"):
        if not imports(python, [module]):
            print(f"{python} has no {module}: its tests are skipped")
    environment = dict(os.environ, FED_ROOT=root, FED_TEST_BIN=binaries, **environment)
    mnist = pathlib.Path(root, "build", "data", "mnist")
    if mnist.is_dir():
        environment.setdefault("FED_MNIST_DIR", str(mnist))
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), environment.get("PYTHONPATH", "")])
    command = [python, "-B", "-W", "error", "-m", "unittest", *names]
    with tempfile.TemporaryDirectory(prefix="fedpython-") as own:  # what tests leave there goes with it
        try:
            code = subprocess.run(command, env=dict(environment, TMPDIR=own), cwd="/", check=False).returncode
        finally:
            left.end(own)
    sys.exit(code)


def make_wheel(python, root, library, binaries, folder):
    """Build the wheel, and return its path."""
    copy = folder / "tree"  # the build writes into the tree
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(pathlib.Path(root) / "fedclient" / "python", copy / "fedclient" / "python", ignore=ignored)
    (copy / "deploy").mkdir()
    shutil.copy(pathlib.Path(root) / "CMakeLists.txt", copy)
    shutil.copy(pathlib.Path(root) / "deploy" / "wheel.sh", copy / "deploy")
    environment = dict(os.environ, FED_PYTHON_LIBRARY=library, FED_BIN=binaries, PYTHON=python, PIP_DISABLE_PIP_VERSION_CHECK="1")
    if imports(python, ["auditwheel"]):
        command = ["deploy/wheel.sh", str(folder)]
    else:
        print("auditwheel is not installed: the wheel is for this machine only")
        command = [python, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder),
                   "./fedclient/python"]
    subprocess.run(command, check=True, cwd=copy, env=environment, timeout=SECONDS)
    return next(folder.glob("fed-*.whl"))


def check_refusal(root):
    """Check that a wheel for the other libc is refused in one sentence. It was the name of a folder once."""
    if "musl" in sysconfig.get_config_var("HOST_GNU_TYPE"):
        return
    told = subprocess.run(["deploy/wheel.sh", "musllinux"], cwd=root, stderr=subprocess.PIPE, text=True, check=False)
    if told.returncode != 2 or "a musllinux wheel can't be made here: this machine has glibc" not in told.stderr:
        sys.exit(f"deploy/wheel.sh musllinux ends with {told.returncode} and says {told.stderr!r}")


def install(python, wheel, folder):
    """Install the wheel into a new environment, which sees the packages of `python` too. Returns its Python."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    own = str(folder / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "--python", own, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True,
                   env=dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1"), timeout=SECONDS)
    places = [subprocess.run([one, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.strip() for one in (python, own)]
    others = subprocess.run([python, "-c", "import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    pathlib.Path(places[1], "others.pth").write_text(f"{places[0]}\n{others}\n")
    return own


def check_libraries(own):
    """Check that the wheel's files load no libraries but the wheel's own, glibc's and zlib."""
    package = pathlib.Path(subprocess.run([own, "-c", "import fed; print(fed.__path__[0])"], stdout=subprocess.PIPE, text=True, cwd="/",
                                          check=True).stdout.strip())
    for file in (package / "libfedpy.so", package / "bin" / "fedserver", package / "bin" / "fedsim"):
        for line in subprocess.run(["ldd", file], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
            if "fed.libs/" not in line and not OF_GLIBC.search(line):
                sys.exit(f"{file.name} needs a library that the wheel does not hold: {line.strip()}")


def main():
    what, root, library, binaries = sys.argv[1:]
    package = str(pathlib.Path(root) / "fedclient" / "python")
    if what == "types":
        python = find_python(root, ["mypy", "numpy", "torch"])
        mypy = [python, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "--python-version", "3.10", package + "/fed"]
        recipes = [str(path) for path in pathlib.Path(package, "examples", "recipes").glob("*.py")]
        sys.exit(subprocess.run(mypy, check=False).returncode or
                 subprocess.run([*mypy, *recipes, "--config-file", HERE / "recipes.ini"], check=False).returncode)
    if what.startswith("test_"):
        run_tests(find_python(root, ["numpy"]), root, binaries, [what],
                  {"PYTHONPATH": package, "FED_PYTHON_LIBRARY": library, "FED_BIN": binaries})
    python = find_python(root, ["setuptools", "wheel", "pip", "venv", "numpy"])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_refusal(root)
        wheel = make_wheel(python, root, library, binaries, folder)
        own = install(python, wheel, folder)
        if "manylinux" in wheel.name:
            check_libraries(own)
        run_tests(own, root, binaries, IN_WHEEL, {})


main()
