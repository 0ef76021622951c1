"""A strategy of your own: a Python function that makes a round's updates one change of the model.

    def median(updates):                          # float32 (updates, values)
        return np.median(updates, axis=0)         # values

    with fed.strategy.serve(co.folder, median):   # for tasks with "strategy": "custom" of the Coordinator co
        ...

    fed.simulate(make_net, shards, task, strategy=median)

A function with a parameter named `round` also gets whose updates these are:

    def combine(updates, round):                  # a fed.strategy.Round: round.task, round.number
        ...

docs/protocol.md, "A strategy of your own", has what travels.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import dataclasses
import inspect
import logging
import mmap
import os
import pathlib
import socket
import struct
import threading
import traceback
from typing import Any, Callable

import numpy as np

from ._native import Error

__all__ = ["Round", "Server", "serve"]

Aggregate = Callable[..., Any]
NAME = "strategy.sock"
_log = logging.getLogger("fed")
_QUESTION = struct.Struct("=QQQQ")
_REASON = 300
_LOOK_S = 0.2


@dataclasses.dataclass(frozen=True)
class Round:
    """Whose updates a function combines: the coordinator's number of the task, and the round, from 1."""

    task: int
    number: int


def _takes_round(aggregate: Aggregate) -> bool:
    try:
        return "round" in inspect.signature(aggregate).parameters
    except (TypeError, ValueError):  # a function in C may not tell
        return False


class Server:
    """Answers a coordinator in a thread of its own, until close(). Or use it in a with statement.

    failure   what `aggregate` raised last, and its traceback as a text; None: nothing
    """

    def __init__(self, path: str | os.PathLike[str], aggregate: Aggregate, *, logs: bool = True):
        self.failure: tuple[BaseException, str] | None = None
        self._path, self._aggregate, self._logs, self._closed = os.fspath(path), aggregate, logs, False
        self._takes_round = _takes_round(aggregate)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._bind()
        except BaseException:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._serve, name="fed-strategy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bind(self) -> None:
        with contextlib.suppress(FileNotFoundError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            if other.connect_ex(self._path) == 0:
                raise Error(f"another program listens at {self._path}: end it first")
            os.unlink(self._path)  # of a program that was killed
        try:
            self._socket.bind(self._path)
        except OSError as error:
            raise Error(f"no socket can be made at {self._path}: {error}") from error
        self._socket.listen(4)
        self._socket.settimeout(_LOOK_S)

    def close(self) -> None:
        """Stop answering. A question that is being answered is finished first."""
        if not self._closed:
            self._closed = True
            self._thread.join()
            self._socket.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def _serve(self) -> None:
        while not self._closed:
            try:
                asker, _ = self._socket.accept()
            except TimeoutError:
                continue
            except socket.timeout:  # before Python 3.10
                continue
            with asker:
                asker.settimeout(60)
                try:
                    asker.send(self._answer(asker))
                except OSError as error:
                    _log.warning("strategy: the coordinator has gone: %s", error)

    def _answer(self, asker: socket.socket) -> bytes:
        data, files, _, _ = socket.recv_fds(asker, _QUESTION.size, 2)
        try:
            if len(data) != _QUESTION.size or len(files) != 2:
                return struct.pack("=I", 1) + b"the question is not of this release"
            return self._combine(*_QUESTION.unpack(data), *files)
        finally:
            for one in files:
                os.close(one)

    def _combine(self, count: int, values: int, task: int, number: int, updates: int, memory: int) -> bytes:
        rows = np.frombuffer(mmap.mmap(updates, 4 * count * values, access=mmap.ACCESS_READ), np.float32).reshape(count, values)
        shared = mmap.mmap(memory, 8 * count + 4 * values)
        place = np.frombuffer(shared, np.uint64, count)
        room = np.frombuffer(shared, np.float32, values, 8 * count)
        try:
            told = {"round": Round(task, number)} if self._takes_round else {}
            change = np.asarray(self._aggregate(rows[place.astype(np.intp)], **told), np.float32)
            if change.shape != (values,):
                raise ValueError(f"the strategy returned an array of shape {change.shape}, not ({values},)")
            if not np.isfinite(change).all():
                raise ValueError("the strategy returned a value that is not finite")
            room[...] = change
        except Exception as failure:
            self.failure = (failure, traceback.format_exc())
            if self._logs:
                _log.error("strategy: %s", self.failure[1])
            return struct.pack("=I", 1) + f"{type(failure).__name__}: {failure}".encode()[:_REASON]
        return struct.pack("=I", 0)


def serve(folder: str | os.PathLike[str], aggregate: Aggregate) -> Server:
    """Combine the updates of a coordinator's tasks that have "strategy": "custom".

    folder     the coordinator's directory, as of fed.Coordinator
    aggregate  aggregate(updates) -> change. updates is float32 (updates, values), one row an update, in the order of devices;
               each row is what a device changed. The result has a value for each column. It must depend on the updates alone:
               after a crash the same are given again. With a parameter named `round`, it also gets a Round. It is called in a
               thread

    What it raises is logged, ends the coordinator with that reason, and is kept in `failure`.
    """
    return Server(pathlib.Path(folder, NAME), aggregate)
