"""A device that takes part in training, with a trainer in Python."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import logging
import math
import operator
import os
import signal
import threading
from types import FrameType
from typing import Any, Callable, Iterator, Mapping, Optional

import numpy as np

from . import _native

__all__ = ["Client", "Decline", "Round"]
_log = logging.getLogger("fed")

# the names of the C library's fedclient_outcome, in its order
OUTCOMES = ("waited", "counted", "refused", "evaluated", "finished", "retry", "declined", "late", "paused")
_EVENT = ("outcome", "round", "version", "wait_ms", "samples", "over")
_METRICS = 16  # most metrics of a program's own in a round
_SAMPLES = 2 ** 32 - 1
_NO_CORRECT = 2 ** 32 - 1  # FED_NO_CORRECT

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
    personal       True: a training of this device's own copy (the task's personal_steps). Nothing of it is sent
    holdout        the fraction of its samples that this device should not train on
    private        names of the tensors that stay on this device, in the task's private_layers; () where it has none
    own_is_new     True: this device has trained none of them yet, so their arrays have the task's initial values. These are 0 in a
                   model without layers: the callback may put its own in their place
    left_ms        milliseconds until the coordinator refuses this round's result; None where there is no
                   deadline: in an evaluation, and with `personal`
    """

    def __init__(self, address: int, client: Client):
        library = _native.library
        self._address, self._client = address, client
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
        self.personal = bool(library.fedpy_round_number_of(address, b"personal"))
        self.holdout: float = library.fedpy_round_number_of(address, b"holdout")
        self.own_is_new = bool(library.fedpy_round_number_of(address, b"own_is_new"))
        self.private: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Round(number={self.number}, version={self.version}, model={self.model[:80]!r})"

    def _text(self, key: bytes) -> str:
        text: bytes = _native.library.fedpy_round_text(self._address, key)
        return text.decode()

    def wanted(self) -> None:
        """Ask whether the coordinator still wants this round's result: call it after each step. Raises Error if not.
        Without a handler for the Error the training is dropped."""
        with self._client._signals.held():
            _native.call("round_wanted", self._open())

    @property
    def left_ms(self) -> int | None:
        left: int = _native.library.fedpy_round_left_ms(self._open())
        return None if left == 2 ** 32 - 1 else left

    def progress(self, done: int, total: int) -> None:
        """Call the client's `progress`: `done` of `total` steps of the training are done."""
        if self._client._progress is not None:
            self._client._progress(self, done, total)

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
            if library.fedpy_round_stays(address, len(params)):
                self.private += (name.value.decode(),)
            params[name.value.decode()] = part.reshape(tuple(dims[:rank]))
        return params


def _floor(helper: str | os.PathLike[str] | None, least_devices: int, most_epsilon: float | None, private: bool) -> _native.Floor:
    """Which tasks a client accepts."""
    if most_epsilon is not None and not 0 < most_epsilon < math.inf:
        raise ValueError(f"most_epsilon is {most_epsilon!r}, and must be a number above 0; None accepts any task")
    if not 0 <= least_devices < 2 ** 32:
        raise ValueError(f"least_devices is {least_devices!r}, and must be a whole number from 0 to 2^32 - 1")
    return _native.Floor(None if helper is None else os.fsencode(helper), least_devices, most_epsilon or 0, int(private))


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


def _whole(what: str, value: Any, least: int, most: int) -> int:
    """A number that a callback gave, as an int: any kind of int, or a float without a fraction."""
    try:
        number = operator.index(value)
    except TypeError:
        whole = float(value) if hasattr(value, "__float__") else math.nan
        number = int(whole) if whole.is_integer() else least - 1
    if not least <= number <= most:
        raise ValueError(f"the callback's {what} is {value!r}, and must be a whole number from {least} to {most}")
    return number


class _Signals:
    """Keeps what handlers of SIGINT and SIGTERM raise, such as KeyboardInterrupt, out of the library's callbacks.

    Python calls a handler when it next runs Python code. While the library works, that is before a callback's first line,
    where ctypes drops an exception. So a handler is called then only if the program's own code runs (`at_once`). Otherwise it
    is called when the library has returned, which the library does soon: it asks `came` several times a second.
    """

    def __init__(self) -> None:
        self.at_once = False
        self.came: list[tuple[int, FrameType | None]] = []
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}

    @contextlib.contextmanager
    def program(self) -> Iterator[None]:
        """The program's own code runs in this block, within a callback."""
        try:
            self.at_once = True
            came, self.came = self.came, []
            for number, frame in came:
                self._handlers[number](number, frame)
            yield
        finally:
            self.at_once = False

    @contextlib.contextmanager
    def held(self) -> Iterator[list[tuple[int, FrameType | None]]]:
        """The library works in this block. Yields a list, which after the block has the signals that came meanwhile."""
        at_once, self.at_once = self.at_once, False
        outer = bool(self._handlers)  # this block is within a callback
        came: list[tuple[int, FrameType | None]] = []
        try:
            if not outer and threading.current_thread() is threading.main_thread():
                for one in (signal.SIGINT, signal.SIGTERM):
                    handler = signal.getsignal(one)
                    if callable(handler):
                        self._handlers[one] = handler
                        signal.signal(one, self._on_signal)
            yield came
        finally:
            self.at_once = at_once
            handlers = dict(self._handlers)
            if not outer:
                for number, handler in handlers.items():
                    if signal.getsignal(number) == self._on_signal:
                        signal.signal(number, handler)
                self._handlers = {}
            came += self.came
            self.came = []
            for number, frame in came:
                handlers[number](number, frame)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.at_once:
            self._handlers[number](number, frame)
        else:
            self.came.append((number, frame))


class Client:
    """A device's client. Its state, which includes a residual, is kept in the folder `state` and survives power loss.

    server    "https://host:8443", the coordinator's front
    ca        path of the coordinator's ca.pem
    state     a folder of this device alone; made if missing
    token     to enrol with; needed the first time, and where the coordinator refuses this device: then it gets a new key.
              While nobody answers, or the coordinator is busy, Client() tries again for a minute, and the logger says so
    name      for the coordinator's operator
    evaluate  True: measure models instead of training them
    slots     for how many tasks at once it keeps a model and a residual, 1 to 8
    helper    path of a file with the key of the helper that this device trusts, such as the helper's helper.pem: it trains
              only for private tasks whose sums this helper opens
    least_devices  it trains only for private tasks with a helper, whose rounds have at least so many devices; 0: for any
    most_epsilon   it trains only for tasks that promise each device an epsilon of at most this; None: for any
    private   True: it trains for private tasks only. It needs `helper`, and least_devices is 20 where it is not given
    eligible  called before each round and at times during it. None or True: the device may train; a text: why not now
    progress  progress(round, done, total), called when the training callback calls round.progress

    Close it, or use it in a with statement. One thread at a time uses it, and only the process that made it. Any thread may
    call stop(). The logger "fed" gets the library's lines. Ctrl-C ends each wait of the main thread, within a second.
    """

    def __init__(self, server: str, ca: str | os.PathLike[str], state: str | os.PathLike[str], token: str | None = None,
                 *, name: str | None = None, evaluate: bool = False, slots: int = 1,
                 helper: str | os.PathLike[str] | None = None, least_devices: int = 0,
                 most_epsilon: float | None = None, private: bool = False,
                 eligible: Callable[[], bool | str | None] | None = None,
                 progress: Callable[[Round, int, int], None] | None = None):
        self.folder = os.fspath(state)
        self._train: Train | None = None
        self._on_event: Callable[[dict[str, Any]], None] | None = None
        self._failure: BaseException | None = None
        self._eligible, self._progress = eligible, progress
        self._evaluate = evaluate
        self._left_out: set[str] = set()  # metrics of which the log has said so
        self._stop = threading.Event()
        self._process = os.getpid()
        self._busy = threading.Lock()  # held while the library works for this client
        self._worker: threading.Thread | None = None  # the thread that holds it
        self._gate = threading.RLock()  # guards the address against a stop() during close()
        self._signals = _Signals()
        self._background: threading.Thread | None = None  # the thread of start()
        self._ended_by: BaseException | None = None  # what run() raised in that thread
        # The library calls these functions while the client is open, so they must not be
        # garbage-collected before.
        self._callbacks = _native.Callbacks(
            _native.TRAIN(self._call_train), _native.MAY_TRAIN(self._call_eligible), _native.ROOM(self._call_room),
            _native.STOPPED(self._call_stopped), _native.LOG(self._call_log), None)
        self._room = np.empty(0, np.uint8)
        self._address = ctypes.c_void_p()
        floor = _floor(helper, least_devices, most_epsilon, private)
        _native.call("client_open", server.encode(), os.fsencode(ca), os.fsencode(state),
                     None if name is None else name.encode(), int(evaluate), slots,
                     ctypes.byref(floor), ctypes.byref(self._callbacks), ctypes.byref(self._address))
        try:
            if token is not None:
                self._work("token", token.encode())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the state's folder. The client can't be used any more. A client of start() is stopped first."""
        if os.getpid() != self._process:  # a child that was forked: the client and its folder are the parent's
            return
        self._end_background()
        if self._address:
            with self._alone("close"), self._gate:
                address, self._address = self._address, ctypes.c_void_p()
                _native.library.fedpy_client_close(address)

    def stop(self) -> None:
        """Let run() return soon. May be called from any thread. Does nothing after close()."""
        self._stop.set()
        with self._gate:
            if self._address and os.getpid() == self._process:
                _native.library.fedpy_client_stop(self._address)

    def step(self, train: Train) -> dict[str, Any]:
        """Do one thing: send what is pending, or ask for work and do it.

        train(params, round) -> (params, samples, metrics). The params it gets are float32 arrays by name. It may
        change them and return None in their place. After it has returned, the memory of the
        arrays is used for other values: copy what you keep.
        samples is how many this device's data holds, 1 to 2^32-1. metrics may have "loss", and for an evaluation "correct",
        how many samples had the right class. Without one of them, or where it is None, this device is left out of the round's
        mean loss or accuracy. A loss that is NaN or infinite gives the slot back, and the operator reads so; after several in a row the task is
        declined. Up to 16 other names with numbers go to the coordinator's page: see "Custom metrics" in docs/protocol.md.
        One of these that is None, NaN or infinite is left out, as are those after the 16th, and a line of the logger "fed"
        says so once.

        Returns {"outcome", "round", "version", "wait_ms", "samples", "loss", "reason", "over"}; outcome is one of OUTCOMES.
        over: all tasks are finished, or with one slot the client's task.
        Raises Error for a failure that needs a person, and any exception that train raised. If train raises Decline,
        the coordinator gives the slot to another device.
        """
        numbers, loss = (ctypes.c_uint32 * len(_EVENT))(), ctypes.c_float()
        reason = self._work("step", numbers, ctypes.byref(loss), train=train)
        return _event(list(numbers), loss.value, reason)

    def run(self, train: Train, on_event: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Take part until the task is finished, with several slots until all tasks are, or until stop() was called: step()
        again and again, with the waits that the coordinator asks for. on_event gets the result of each step. The logger "fed"
        says what happens; what repeats itself, such as a coordinator that can't be reached, it says once."""
        told = _native.EVENT(self._call_event)
        try:
            if not self._stop.is_set():
                self._work("run", told, train=train, on_event=on_event)
        except _native.Error as error:
            if error.status != _native.ECANCELED or not self._stop.is_set():
                raise

    def start(self, train: Train, on_event: Callable[[dict[str, Any]], None] | None = None) -> Client:
        """Call run() in a thread of its own, and return at once. join() waits for its end, and close() ends it. The callbacks
        come in that thread. Returns this client."""
        self._check_open()
        if self._background is not None and self._background.is_alive():
            raise RuntimeError("this client runs in the background already; join() waits for its end, stop() ends it")

        def work() -> None:
            try:
                self.run(train, on_event)
            except BaseException as failure:  # raised again by join()
                self._ended_by = failure
                _log.error("the client in the background has ended: %s", failure)
            finally:
                atexit.unregister(self._end_background)

        self._ended_by = None
        self._background = threading.Thread(target=work, name="fed.Client", daemon=True)
        atexit.register(self._end_background)  # a thread that is within the library must not outlive Python
        self._background.start()
        return self

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of start(), `timeout` seconds at most. Returns whether it has ended. Raises what run() raised."""
        if self._background is None:
            raise RuntimeError("this client does not run in the background; call start() first")
        self._background.join(timeout)
        if self._background.is_alive():
            return False
        failure, self._ended_by = self._ended_by, None
        if failure is not None:
            raise failure
        return True

    def _end_background(self) -> None:
        if self._background is not None and self._background is not threading.current_thread():
            self.stop()
            self._background.join()

    def _check_open(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(f"this client belongs to process {self._process}, which was forked; open a client with a folder "
                               "of its own in this process")
        if not self._address:
            raise RuntimeError("this client is closed")

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Only one thread may use the client, and no callback of it."""
        self._check_open()
        if not self._busy.acquire(blocking=False):
            if self._worker is threading.current_thread():
                raise RuntimeError(f"{what}() was called within a callback of the same client; return from the callback first")
            other = self._worker.name if self._worker is not None else "another one"
            raise RuntimeError(f"{what}() was called while the client works in the thread {other}; call stop() and wait for "
                               "that thread, or give each thread a client of its own")
        try:
            self._worker = threading.current_thread()
            self._check_open()
            yield
        finally:
            self._worker = None
            self._busy.release()

    def _work(self, what: str, *arguments: Any, train: Train | None = None,
              on_event: Callable[[dict[str, Any]], None] | None = None) -> str:
        """Call a function of the library. Raises what a callback or a signal's handler raised. Returns the library's text."""
        error = ctypes.create_string_buffer(_native.ERROR_BYTES)
        with self._alone(what):
            self._train, self._on_event = train, on_event
            try:
                while True:
                    self._failure = None
                    with self._signals.held() as came:
                        status = getattr(_native.library, "fedpy_client_" + what)(self._address, *arguments, error)
                    if self._failure is not None:
                        raise self._failure
                    if status != _native.ECANCELED or not came:  # else a handler raised nothing: go on
                        break
            finally:
                self._train = self._on_event = self._failure = None
        text = error.value.decode("utf-8", "replace")
        if status != 0:
            raise _native.Error(text, status)
        return text

    # -- called by the library, into which no exception may pass --

    def _fail(self, failure: BaseException, reason: int) -> int:
        self._failure = failure  # raised again by _work()
        return _say(reason, str(failure) or type(failure).__name__, _native.ECANCELED)

    def _call_train(self, _user: int, address: int, reason: int) -> int:
        told = None
        try:
            with self._signals.program():
                told = Round(address, self)
                self._train_round(told)
            return 0
        except Decline as why:
            return _say(reason, str(why), _native.EDECLINED)
        except BaseException as failure:
            return self._fail(failure, reason)
        finally:
            if told is not None:
                told._address = 0

    def _train_round(self, told: Round) -> None:
        address = told._open()
        params = told._params(self._room)
        assert self._train is not None
        trained, samples, metrics = self._train(params, told)
        if trained is not None:
            _put(params, trained)
        count = _whole("samples", samples, 1, _SAMPLES)
        right = metrics.get("correct")
        correct = _NO_CORRECT if right is None else _whole('"correct"', right, 0, count if self._evaluate else _SAMPLES)
        self._report(address, {name: value for name, value in metrics.items() if name not in ("loss", "correct")})
        loss = metrics.get("loss")
        told_loss = None if loss is None else ctypes.byref(ctypes.c_float(loss))
        _native.library.fedpy_round_result(address, count, told_loss, correct)

    def _report(self, address: int, metrics: Mapping[str, Any]) -> None:
        """Report metrics. One that is no finite number is left out, as an F1 is where a class is missing."""
        sent = 0
        for name, value in metrics.items():
            number = float("nan") if value is None else float(value)
            if not math.isfinite(number):
                self._leave_out(name, f"the metric {name!r} is {value}, and is left out, as in each round in which it is no finite number")
            elif sent == _METRICS:
                self._leave_out("", f"the metric {name!r} and those after it are left out: a round has at most {_METRICS}")
                break
            else:
                _native.call("round_metric", address, name.encode(), number)
                sent += 1

    def _leave_out(self, what: str, text: str) -> None:
        if what not in self._left_out:
            self._left_out.add(what)
            _log.warning("%s", text)

    def _call_room(self, _user: int, size: int) -> int | None:
        """Memory for the model. Arrays that the callback keeps share it, so it must live as long as they do."""
        try:
            self._room = np.empty(size, np.uint8)
            return self._room.ctypes.data
        except MemoryError:
            return None

    def _call_eligible(self, _user: int, reason: int) -> int:
        if self._eligible is None:
            return 0
        try:
            with self._signals.program():
                answer = self._eligible()
            if answer is None or answer is True:
                return 0
            return _say(reason, answer if isinstance(answer, str) else "the program's `eligible` gave no reason", _native.EBUSY)
        except BaseException as failure:
            return self._fail(failure, reason)

    def _call_event(self, _user: int, numbers: Any, loss: float, reason: bytes) -> int:
        if self._on_event is None:
            return 1
        try:
            with self._signals.program():
                self._on_event(_event(numbers[:len(_EVENT)], loss, reason.decode("utf-8", "replace")))
            return 1
        except BaseException as failure:
            self._failure = failure
            return 0

    def _call_stopped(self, _user: int) -> int:
        return len(self._signals.came)

    def _call_log(self, _user: int, level: int, line: bytes) -> None:
        _log.log(10 * level + 10, "%s", line.decode("utf-8", "replace"))  # both have DEBUG, INFO, WARN, ERROR


def _event(numbers: list[int], loss: float, reason: str) -> dict[str, Any]:
    done: dict[str, Any] = dict(zip(_EVENT, numbers))
    done.update(outcome=OUTCOMES[done["outcome"]], loss=None if math.isnan(loss) else loss, reason=reason, over=bool(done["over"]))
    return done


def _say(reason: int, text: str, status: int) -> int:
    """Write a text into the library's buffer for the reason. Returns the status."""
    encoded = text.replace("\n", " ").encode()[:_native.ERROR_BYTES - 1]
    ctypes.memmove(reason, encoded + b"\0", len(encoded) + 1)
    return status
