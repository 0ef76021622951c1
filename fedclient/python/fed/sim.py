"""Simulations: runs scenarios of the program fedsim, and reads their results as pandas frames and figures.

    result = fed.sim.run(data="build/data/mnist", model="lr", clients=20, rounds=10)
    result.rounds()                                       # a pandas frame, a row a round
    result.figure()                                       # matplotlib: accuracy against rounds and bytes
    grid = fed.sim.run("scenario.txt", codec_up=["sbc:p=0.001", "sbc:p=0.01"])
    grid.frame()                                          # a row a run
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from typing import Any, Iterator

from . import _html, _programs, _tensors
from ._native import Error

__all__ = ["Grid", "Result", "keys", "read", "run"]

_SHOWN = ("test_accuracy", "rounds", "clients", "uplink_bytes", "downlink_bytes", "uplink_compression", "wall_s")


class Result:
    """The results of a run, in its directory. docs/fedsim.md describes the files.

    folder   its path
    name     of the run; in a grid it is made of the keys that differ
    summary  the whole run, from summary.json: "finished", "test_accuracy", "uplink_bytes", ...
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = pathlib.Path(folder)
        self.name = self.folder.name
        self.summary: dict[str, Any] = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))

    def __repr__(self) -> str:
        return f"Result({str(self.folder)!r})"

    def _rows(self, file: str) -> list[dict[str, Any]]:
        return _html.read_csv((self.folder / file).read_text(encoding="utf-8"))

    def rounds(self) -> Any:
        """A pandas frame, with a row for each round: accuracy, losses, bytes, ..."""
        return _html.frame(self._rows("rounds.csv"))

    def clients(self) -> Any:
        """A pandas frame, with a row for each client: bytes, updates that counted, ..."""
        return _html.frame(self._rows("clients.csv"))

    def evaluations(self) -> Any:
        """A pandas frame with a row for each measured model, of a run of fed.simulate: "version" and what `evaluate` returned."""
        if not (self.folder / "evaluations.csv").exists():
            raise Error(f"{self.folder} has no evaluations.csv: only fed.simulate writes it, where `evaluate` is given")
        return _html.frame(self._rows("evaluations.csv"))

    def model(self) -> dict[str, Any]:
        """The final model: float32 arrays by name."""
        return _tensors.load(self.folder / "model.safetensors")

    def figure(self) -> Any:
        """A matplotlib figure: accuracy against rounds, and against the bytes that each client sent up."""
        return _figure([self])

    def _repr_html_(self) -> str:
        return _html.table([self.summary], _SHOWN, self.name)


class Grid(list):  # type: ignore[type-arg]
    """The runs of a grid, each a Result."""

    def frame(self) -> Any:
        """A pandas frame with a row for each run: its name and its summary."""
        return _html.frame({"run": one.name, **one.summary} for one in self)

    def figure(self) -> Any:
        """A matplotlib figure with the curves of all runs."""
        return _figure(self)

    def _repr_html_(self) -> str:
        return _html.table([{"run": one.name, **one.summary} for one in self], ("run", *_SHOWN), f"{len(self)} runs")


def _figure(results: list[Result]) -> Any:
    try:
        matplotlib = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise Error("a figure needs matplotlib, which is not installed: pip install matplotlib") from error
    figure = matplotlib.Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for one in results:
        rows = one._rows("rounds.csv")
        clients, sent, seen = max(1, int(one.summary.get("clients", 1))), 0, []
        for row in rows:
            sent += row["up_bytes"]
            if row["accuracy"] is not None:
                seen.append((row["round"], sent / clients / 1e3, row["accuracy"]))
        numbers, kilobytes, accuracy = zip(*seen) if seen else ((), (), ())
        left.plot(numbers, accuracy, label=one.name)
        right.plot(kilobytes, accuracy, label=one.name)
    left.set(xlabel="round", ylabel="accuracy")
    right.set(xlabel="kB up, of each client", xscale="log")
    left.legend()
    return figure


def _word(key: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{key}={' | '.join(str(one) for one in value)}"
    return f"{key}={int(value) if isinstance(value, bool) else value}"


def keys() -> str:
    """The keys that a scenario may have, as text: the output of `fedsim keys`."""
    return _programs.run("fedsim", "keys")


def read(folder: str | os.PathLike[str]) -> Result | Grid:
    """Read the results in a directory that fedsim wrote, of a run or of a grid."""
    if pathlib.Path(folder, "summary.json").exists():
        return Result(folder)
    found = sorted(pathlib.Path(folder).glob("*/summary.json"))
    if not found:
        raise Error(f"{os.fspath(folder)} has no results of fedsim: no summary.json, nor a folder with one")
    return Grid(Result(path.parent) for path in found)


@contextlib.contextmanager
def directory(out: str | os.PathLike[str] | None) -> Iterator[str]:
    """The directory of a run's results: `out`, or a temporary one, which is removed if the run leaves no results there."""
    if out is not None:
        yield os.fspath(out)
        return
    made = tempfile.mkdtemp(prefix="fedsim-")
    try:
        yield os.path.join(made, "results")
    finally:
        if next(pathlib.Path(made).rglob("summary.json"), None) is None:
            shutil.rmtree(made, ignore_errors=True)


def run(scenario: str | os.PathLike[str] | None = None, *, out: str | os.PathLike[str] | None = None, quiet: bool = False,
        **values: Any) -> Result | Grid:
    """Run a scenario to its end.

    scenario  path of a scenario file; None: all keys are in `values`
    out       directory of the results; None: a new one among the temporary files, which is not deleted
    quiet     True: do not print the progress
    values    keys of the scenario, which override the file's. With a list, each value is run: the result is a Grid

    Raises Error with the program's message. Ctrl-C ends the run cleanly.
    """
    with directory(out) as folder:
        return _run(scenario, folder, quiet, values)


def _run(scenario: str | os.PathLike[str] | None, folder: str, quiet: bool, values: dict[str, Any]) -> Result | Grid:
    words = [] if scenario is None else [os.fspath(scenario)]
    words += [_word(key, value) for key, value in values.items()] + ["--out", folder]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors, subprocess.Popen(
            [_programs.find("fedsim"), "run", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if not quiet:
                    print(line, end="")
        except BaseException:
            process.terminate()  # a terminal's Ctrl-C reaches fedsim too, but that of a notebook does not
            process.wait()  # fedsim writes the results so far
            raise
        if process.wait() != 0:
            errors.seek(0)
            raise Error(errors.read().strip() or f"fedsim ended with status {process.returncode}", process.returncode)
    return read(folder)
