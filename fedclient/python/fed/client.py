"""A device that takes part in training, with a trainer in Python."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import json
import logging
import math
import os
import threading
from typing import Any, Callable, Mapping, Optional

import numpy as np

from . import _native

__all__ = ["Client", "Decline", "Round"]
_log = logging.getLogger("fed")

# the names of the C library's fedclient_outcome, in its order
OUTCOMES = ("waited", "counted", "refused", "evaluated", "finished", "retry", "declined", "late", "paused")
_EVENT = ("outcome", "round", "version", "wait_ms", "samples", "over")

Train = Callable[[dict[str, np.ndarray], "Round"], tuple[Optional[Mapping[str, Any]], int, Mapping[str, Any]]]


class Decline(Exception):
    """Raised by a training callback: the task does not fit this device. The text says why, for the operator."""


class Round:
    """A round, as a training callback gets it. It is valid while the callback runs.

    number         of the round, from 1; 0 in an evaluation
    version        of the model: how many rounds were committed into it
    task, slot     the task's number, and which of the client's slots it has, from 0
    model          the task's text of the model
    optimizer      the task's optimizer, such as "sgd"
    learning_rate, local_steps, batch, seed
    app            the task's own object, from its key "app"; {} if it has none
    """

    def __init__(self, address: int, progress: Callable[[Round, int, int], None] | None = None):
        library = _native.library
        self._address, self._progress = address, progress
        self.number: int = library.fedpy_round_number(address)
        self.version: int = library.fedpy_round_version(address)
        self.model = self._text(b"model")
        self.optimizer = self._text(b"optimizer")
        self.app: dict[str, Any] = json.loads(self._text(b"app") or "{}")
        self.task = int(library.fedpy_round_number_of(address, b"task"))
        self.slot = int(library.fedpy_round_number_of(address, b"slot"))
        self.learning_rate: float = library.fedpy_round_number_of(address, b"learning_rate")
        self.local_steps = int(library.fedpy_round_number_of(address, b"local_steps"))
        self.batch = int(library.fedpy_round_number_of(address, b"batch"))
        self.seed = int(library.fedpy_round_number_of(address, b"seed"))

    def __repr__(self) -> str:
        return f"Round(number={self.number}, version={self.version}, model={self.model[:80]!r})"

    def _text(self, key: bytes) -> str:
        text: bytes = _native.library.fedpy_round_text(self._address, key)
        return text.decode()

    def wanted(self) -> None:
        """Ask whether the coordinator still wants this round's result: call it after each step. Raises Error if not.
        Without a handler for the Error the training is dropped."""
        _native.call("round_wanted", self._open())

    def progress(self, done: int, total: int) -> None:
        """Call the client's `progress`: `done` of `total` steps of the training are done."""
        if self._progress is not None:
            self._progress(self, done, total)

    def _open(self) -> int:
        if self._address == 0:
            raise RuntimeError("this round is over: its callback has returned")
        return self._address

    def _params(self, room: np.ndarray) -> dict[str, np.ndarray]:
        """The tensors as arrays that share the memory `room`, where the library has put the model."""
        library, address = _native.library, self._open()
        count, offset, size = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
        name, dims = ctypes.c_char_p(), (ctypes.c_uint32 * _native.RANK)()
        values = library.fedpy_round_values(address, ctypes.byref(count))
        flat = np.frombuffer(room.data, np.float32, count.value, values - room.ctypes.data)
        params: dict[str, np.ndarray] = {}
        while (rank := library.fedpy_round_tensor(address, len(params), ctypes.byref(name), dims, ctypes.byref(offset),
                                                  ctypes.byref(size))) >= 0:
            assert name.value is not None
            part = flat[offset.value:offset.value + size.value]
            params[name.value.decode()] = part.reshape(tuple(dims[:rank]))
        return params


def _put(params: dict[str, np.ndarray], trained: Mapping[str, Any]) -> None:
    """Copy what the callback returned into the library's memory."""
    if trained.keys() != params.keys():
        wrong = sorted(trained.keys() ^ params.keys())
        raise ValueError(f"the callback's tensors are not the model's; these are missing or unknown: {', '.join(wrong[:5])}")
    for name, array in params.items():
        new = np.asarray(trained[name])
        if new.shape != array.shape:
            raise ValueError(f"the callback gives {name} the shape {new.shape}, the model has {array.shape}")
        if new is not array:
            array[...] = new


class Client:
    """A device's client. Its state, which includes a residual, is kept in the folder `state` and survives power loss.

    server    "https://host:8443", the coordinator's front
    ca        path of the coordinator's ca.pem
    state     a folder of this device alone; made if missing
    token     to enrol with; needed the first time, and where the coordinator refuses this device: then it gets a new key
    name      for the coordinator's operator
    evaluate  True: measure models instead of training them
    slots     for how many tasks at once it keeps a model and a residual, 1 to 8
    eligible  called before each round and at times during it. None or True: the device may train; a text: why not now
    progress  progress(round, done, total), called when the training callback calls round.progress

    Close it, or use it in a with statement.
    """

    def __init__(self, server: str, ca: str | os.PathLike[str], state: str | os.PathLike[str], token: str | None = None,
                 *, name: str | None = None, evaluate: bool = False, slots: int = 1,
                 eligible: Callable[[], bool | str | None] | None = None,
                 progress: Callable[[Round, int, int], None] | None = None):
        self.folder = os.fspath(state)
        self._train: Train | None = None
        self._failure: BaseException | None = None
        self._eligible, self._progress = eligible, progress
        self._evaluate = evaluate
        self._left_out: set[str] = set()  # metrics of which the log has said so
        self._stop = threading.Event()
        # The library calls these functions while the client is open, so they must not be
        # garbage-collected before.
        self._callbacks = (_native.TRAIN(self._on_train), _native.MAY_TRAIN(self._on_may_train),
                           _native.ROOM(self._on_room))
        self._room = np.empty(0, np.uint8)
        self._address = ctypes.c_void_p()
        _native.call("client_open", server.encode(), os.fsencode(ca), os.fsencode(state),
                     None if name is None else name.encode(), int(evaluate), slots, *self._callbacks, None,
                     ctypes.byref(self._address))
        try:
            if token is not None:
                _native.call("client_token", self._address, token.encode())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the state's folder. The client can't be used any more."""
        if self._address:
            _native.library.fedpy_client_close(self._address)
            self._address = ctypes.c_void_p()

    def stop(self) -> None:
        """Let run() return soon. May be called from any thread, but not after close()."""
        self._stop.set()
        _native.library.fedpy_client_stop(self._open())

    def step(self, train: Train) -> dict[str, Any]:
        """Do one thing: send what is pending, or ask for work and do it.

        train(params, round) -> (params, samples, metrics). The params it gets are float32 arrays by name. It may
        change them and return None in their place. After it has returned, the memory of the
        arrays is used for other values: copy what you keep.
        samples is how many this device's data holds. metrics may have "loss", and for an evaluation "correct", how many
        samples had the right class. Without a loss, or where it is None, this device is left out of the round's mean loss.
        Up to 16 other names with numbers go to the coordinator's page: see "Custom metrics"
        in docs/protocol.md. One of these that is None, NaN or infinite is left out, and a line of the logger "fed" says so.

        Returns {"outcome", "round", "version", "wait_ms", "samples", "loss", "reason", "over"}; outcome is one of OUTCOMES.
        over: all tasks are finished, or with one slot the client's task.
        Raises Error for a failure that needs a person, and any exception that train raised. If train raises Decline,
        the coordinator gives the slot to another device.
        """
        self._train, self._failure = train, None
        event, loss = (ctypes.c_uint32 * len(_EVENT))(), ctypes.c_float()
        error = ctypes.create_string_buffer(_native.ERROR_BYTES)
        status = _native.library.fedpy_client_step(self._open(), event, ctypes.byref(loss), error)
        reason = error.value.decode("utf-8", "replace")
        if self._failure is not None:
            raise self._failure
        if status != 0:
            raise _native.Error(reason, status)
        done: dict[str, Any] = dict(zip(_EVENT, event))
        done.update(outcome=OUTCOMES[done["outcome"]], loss=None if math.isnan(loss.value) else loss.value, reason=reason, over=bool(done["over"]))
        return done

    def run(self, train: Train, on_event: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Take part until the task is finished, with several slots until all tasks are, or until stop() was called. It calls
        step() repeatedly. on_event gets the result of each step. Ctrl-C ends it between two steps and within a callback."""
        while not self._stop.is_set():
            try:
                done = self.step(train)
            except _native.Error:
                if self._stop.is_set():
                    return
                raise
            if on_event is not None:
                on_event(done)
            if done["over"]:
                return
            self._stop.wait(done["wait_ms"] / 1000)

    def _open(self) -> ctypes.c_void_p:
        if not self._address:
            raise RuntimeError("this client is closed")
        return self._address

    # -- called by the library, into which no exception may pass --

    def _on_train(self, _user: int, address: int, reason: int) -> int:
        told = None
        try:
            told = Round(address, self._progress)
            params = told._params(self._room)
            assert self._train is not None
            trained, samples, metrics = self._train(params, told)
            if trained is not None:
                _put(params, trained)
            for name, value in metrics.items():
                if name not in ("loss", "correct"):
                    self._report(address, name, value)
            loss = metrics.get("loss")
            told_loss = None if loss is None else ctypes.byref(ctypes.c_float(loss))
            _native.library.fedpy_round_result(address, samples, told_loss, int(metrics.get("correct", 0)))
            return 0
        except Decline as why:
            return _say(reason, str(why), _native.EDECLINED)
        except BaseException as failure:  # raised again by step()
            self._failure = failure
            return _say(reason, str(failure) or type(failure).__name__, _native.ECANCELED)
        finally:
            if told is not None:
                told._address = 0

    def _report(self, address: int, name: str, value: Any) -> None:
        """Report a metric. One that is no finite number is left out, as an F1 is where a class is missing."""
        number = float("nan") if value is None else float(value)
        if math.isfinite(number):
            _native.call("round_metric", address, name.encode(), number)
        elif name not in self._left_out:
            self._left_out.add(name)
            _log.warning("the metric %r is %s, and is left out, as in each round in which it is no finite number", name, value)

    def _on_room(self, _user: int, size: int) -> int | None:
        """Memory for the model. Arrays that the callback keeps share it, so it must live as long as they do."""
        try:
            self._room = np.empty(size, np.uint8)
            return self._room.ctypes.data
        except MemoryError:
            return None

    def _on_may_train(self, _user: int, reason: int) -> int:
        try:
            answer = self._eligible() if self._eligible is not None else None
            if answer is None or answer is True:
                return 0
            return _say(reason, answer if isinstance(answer, str) else "the program's `eligible` gave no reason", _native.EBUSY)
        except BaseException as failure:
            self._failure = failure
            return _say(reason, str(failure), _native.ECANCELED)


def _say(reason: int, text: str, status: int) -> int:
    """Write a text into the library's buffer for the reason. Returns the status."""
    encoded = text.replace("\n", " ").encode()[:_native.ERROR_BYTES - 1]
    ctypes.memmove(reason, encoded + b"\0", len(encoded) + 1)
    return status
