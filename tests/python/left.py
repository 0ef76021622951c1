"""Ends what a program has left running: a coordinator outlives a Python that is killed (docs/python.md#a-coordinator)."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pathlib
import signal
import time


def processes(folder):
    """Return the numbers of the processes whose command lines name something in the folder."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = path.read_bytes().split(b"\0")
            if any(word.startswith(os.fsencode(folder) + b"/") for word in words) and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


def end(folder):
    """End these processes, and wait until none is there."""
    while numbers := processes(folder):
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.01)
