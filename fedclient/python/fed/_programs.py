"""Finds and runs the programs of the package, and raises their failures as exceptions."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from typing import NoReturn

from ._native import Error

BESIDE = pathlib.Path(__file__).with_name("bin")


def find(name: str) -> str:
    """A program's path: in the folder that FED_BIN names, or else in the wheel, or else on PATH. Raises Error."""
    named = os.environ.get("FED_BIN")
    if named:
        folder = pathlib.Path(named)
        if not (folder / name).is_file():
            raise Error(f"FED_BIN is {named}, and there is no program {name} in it; set FED_BIN to the folder of the programs, or unset it")
        return str(folder / name)
    if (BESIDE / name).is_file():
        return str(BESIDE / name)
    found = shutil.which(name)
    if found is None:
        raise Error(f"the program {name} is neither in this package nor on PATH; install the package by "
                    "`pip install ./fedclient/python`, or set FED_BIN to the folder of the programs")
    return found


def run(name: str, *words: str) -> str:
    """Run a program to its end. Returns its output. Raises Error with its message if it fails."""
    done = subprocess.run([find(name), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        raise Error(done.stderr.strip() or f"{name} ended with status {done.returncode}", done.returncode)
    return done.stdout


def _become(name: str) -> NoReturn:
    try:
        os.execv(find(name), [name, *sys.argv[1:]])
    except Error as error:
        sys.exit(str(error))


def fedserver() -> NoReturn:
    """The wheel's command `fedserver`."""
    _become("fedserver")


def fedsim() -> NoReturn:
    """The wheel's command `fedsim`."""
    _become("fedsim")
