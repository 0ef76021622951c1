"""Builds libfedpy.so, fedserver and fedsim by CMake and puts them into the wheel, beside the Python files.

The library is loaded by ctypes and does not use Python's own binary interface. So one wheel of a platform works with
every Python 3.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = ["fedserver", "fedsim"]
BUILD = ROOT / "build" / "python"  # all built files, so that the source folders stay clean


def version():
    """The version, which is only written in the project's CMakeLists.txt."""
    return re.search(r"project\(fed VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        library, programs = os.environ.get("FED_PYTHON_LIBRARY"), os.environ.get("FED_BIN")  # set by a test, to use those of a build tree
        if not library or not programs:
            library, programs = self.build_all()
        package = pathlib.Path(self.build_lib) / "fed"
        (package / "bin").mkdir(exist_ok=True)
        shutil.copy(library, package / "libfedpy.so")
        for program in PROGRAMS:
            shutil.copy(pathlib.Path(programs) / program, package / "bin" / program)

    def build_all(self):
        folder = BUILD / "cmake"
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DFED_TESTS=OFF",
                        "-DFED_SHARED=ON"], check=True)
        subprocess.run(["cmake", "--build", str(folder), "--parallel", "--target", "fedpy", *PROGRAMS], check=True)
        return folder / "fedclient" / "python" / "libfedpy.so", folder / "bin"


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


BUILD.mkdir(parents=True, exist_ok=True)
setup(version=version(), options={"build": {"build_base": str(BUILD)}, "egg_info": {"egg_base": str(BUILD)}},
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
      distclass=BinaryDistribution)
