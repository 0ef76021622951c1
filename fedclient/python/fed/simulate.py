"""Simulations of a model that Python trains: thousands of clients in a few worker processes, on fedsim's coordinator.

    parts = fed.data.partition(labels, clients=1000, dirichlet=0.5)
    shards = [(x[part], labels[part]) for part in parts]
    result = fed.simulate(make_net, shards, {"rounds": 50, "cohort": 100, "local_steps": 20, "learning_rate": 0.1},
                          evaluate=(x_test, y_test))
    fed.torch.load(net, result.model())

fedsim holds the coordinator and the clients: rounds, codecs, residuals, absences, report. A worker process has one module.
It gets a request for each training over a socket; the model lies in memory that both share. docs/fedsim.md describes that.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import math
import mmap
import multiprocessing
import multiprocessing.connection
import operator
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from . import _html, _programs, _tensors, sim
from . import strategy as strategies
from ._native import Error

__all__ = ["Round", "simulate"]

# What travels to a worker and back: docs/fedsim.md, "Trainers of your own".
_REQUEST, _ANSWER = struct.Struct("=8IfIQQ"), struct.Struct("=4IfIQ")
_TRAIN, _NO_CORRECT, _REASON = 1, 0xFFFFFFFF, 300
_LONGEST_REQUEST = 65536
_END_S = 0.6  # how long fedsim may take to write the results so far, after Ctrl-C
_OWN_KEYS = ("aggregator", "clients", "data", "dataset", "device", "fedserver", "initial", "model", "normalise", "seed", "split",
             "threads", "train_part", "trainers", "transport")


@dataclasses.dataclass
class Round:
    """A round, as a function that trains or measures gets it.

    number         of the round, from 1; 0 in an evaluation
    version        of the model
    client         the simulated client's number, from 0: its data is shards[client]
    seed           of this training alone: made of the simulation's seed, client and round. Python's, NumPy's and PyTorch's
                   own generators begin with it, too
    learning_rate, local_steps, batch, optimizer       of the task
    """

    number: int
    version: int
    client: int
    seed: int
    learning_rate: float
    local_steps: int
    batch: int
    optimizer: str
    model: str = ""
    task: int = 1
    slot: int = 0
    personal: bool = False
    holdout: float = 0
    private: tuple[str, ...] = ()
    own_is_new: bool = False
    app: dict[str, Any] = dataclasses.field(default_factory=dict)

    def wanted(self) -> None:
        """For callbacks of fed.Client: here a result is always wanted."""

    def progress(self, done: int, total: int) -> None:
        """For callbacks of fed.Client."""


def simulate(model: Callable[[], Any] | Mapping[str, Any], shards: Sequence[Any], task: Mapping[str, Any] | None = None, *,
             train: Callable[..., Mapping[str, Any] | None] | None = None, evaluate: Any = None,
             loss: Callable[..., Any] | None = None, optimizer: Callable[..., Any] | None = None,
             strategy: str | Callable[[np.ndarray], Any] | None = None, processes: int | None = None,
             start: str | None = None, seed: int = 1, out: str | os.PathLike[str] | None = None, quiet: bool = False,
             **values: Any) -> sim.Result:
    """Train a model on simulated clients, one for each shard, and return the results.

    model      a function without arguments that returns a PyTorch module; or the first model, as arrays by name: then
               `train` is needed, and PyTorch is not
    shards     shards[k] is the data of client k. For a module: (x, y), two or more arrays or tensors of as many samples; a
               Dataset; a DataLoader; or a function that gets the Round and returns one of these. With `train`: anything
    task       keys of fedsim, such as rounds, local_steps, batch, learning_rate, cohort, codec_up, strategy, offline,
               line; they may be given as arguments, too
    train      train(model, round, shard) changes the model in place, a module or arrays by name, and returns metrics: a mean
               "loss", if it has one, and "samples", if len(shard) is not their number. None: `loss` and `optimizer` as in
               fed.torch.trainer, with batches of a shard in random order
    evaluate   a shard of test data; or evaluate(model, round), which returns metrics: "loss", "accuracy", and others of your
               own. None: models are not measured
    loss       loss(module(x), y); None: torch.nn.functional.cross_entropy
    strategy   the task's strategy; or aggregate(updates) -> change, a function as in fed.strategy.serve
    processes  how many worker processes; None: one for each core. The results do not depend on it
    start      how they start: "fork", "spawn" or "forkserver". None: fork, which takes any function, or spawn where the
               module is on a GPU; a function that a spawned process is to get must be a module's own
    out        directory of the results; None: a new one among the temporary files, which is not deleted
    quiet      True: do not print the progress

    Raises Error: what fedsim refuses; a function that raised, with client and traceback; a worker that died. Ctrl-C ends
    all processes within a second.
    """
    keys = {**(task or {}), **values, **({"strategy": strategy} if strategy is not None else {})}
    aggregate = keys.pop("strategy") if callable(keys.get("strategy")) else None
    _check_keys(keys)
    if len(shards) == 0:
        raise Error("there are no shards: give one for each client, such as those of fed.data.partition")
    _check_shards(shards)
    if evaluate is not None and keys.get("private_layers"):
        raise Error("a task with private_layers has no model that evaluate= could measure: each client has its own. Leave evaluate "
                    "out, and measure a client's model where `train` begins")
    with sim.directory(out) as place:
        folder = pathlib.Path(place)
        if (folder / "summary.json").exists():
            raise Error(f"{folder}: there are results already; choose another `out`")
        folder.mkdir(parents=True, exist_ok=True)
        seed = operator.index(seed)
        job = _Job(model, shards, train, evaluate, loss, optimizer, seed)
        layout = job.prepare(folder / "initial.safetensors")
        (folder / "model.txt").write_text(layout + "\n", encoding="utf-8")
        if evaluate is None:
            keys["evaluate_every"] = 1_000_000  # there is nothing to measure
        keys = {**_crowd(), **keys, "clients": len(shards), "model": f"@{folder / 'model.txt'}",
                "initial": folder / "initial.safetensors", "seed": seed}
        count = min(_cores() if processes is None else operator.index(processes), len(shards))
        if count < 1:
            raise Error(f"processes is {processes}; it must be 1 or more")
        run = _Run(job, count, _start_method(start), quiet)
        with contextlib.ExitStack() as stack:
            server = None if aggregate is None else stack.enter_context(_aggregator(aggregate, keys))
            stack.enter_context(run.ended())
            run.begin(keys, folder)
            run.watch()
        run.write_evaluations(folder)
        if server is not None and server.failure is not None:
            raise Error(f"the strategy failed:\n{server.failure[1]}") from server.failure[0]
        run.check()
        found = sim.read(folder)
        assert isinstance(found, sim.Result)
        return found


@contextlib.contextmanager
def _aggregator(aggregate: Callable[[np.ndarray], Any], keys: dict[str, Any]) -> Iterator[strategies.Server]:
    """Let fedsim's coordinator ask this process."""
    with tempfile.TemporaryDirectory(prefix="fed-") as folder, strategies.Server(path := os.path.join(folder, strategies.NAME), aggregate,
                                                                                 logs=False) as server:
        keys.update(strategy="custom:wait=86400", aggregator=path)
        yield server


def _check_keys(keys: Mapping[str, Any]) -> None:
    for key, value in keys.items():
        if key in _OWN_KEYS:
            raise Error(f"the key {key!r} can't be given: simulate() sets it, from its arguments, or has no use for it")
        if isinstance(value, (list, tuple)) or (isinstance(value, str) and " | " in value):
            raise Error(f"{key} is {value!r}: simulate() makes one run; call it once for each value")


def _check_shards(shards: Sequence[Any]) -> None:
    """Refuse an empty shard before anything runs, where that can be seen without loading it."""
    for k, shard in enumerate(shards if isinstance(shards, (list, tuple)) else ()):
        if _size(shard) == 0:
            raise Error(f"shard {k} has no samples: leave out clients without data")


def _crowd() -> dict[str, Any]:
    """Where clients that have enrolled are kept for the next run (docs/fedsim.md#crowds)."""
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "fed", "crowds")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
    except OSError:
        return {}
    return {"crowd": folder} if os.access(folder, os.W_OK) else {}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start_method(asked: str | None) -> str:
    if asked is not None:
        return asked
    torch = sys.modules.get("torch")
    return "spawn" if torch is not None and torch.cuda.is_initialized() else "fork"


# -- what a client trains on --


def _size(shard: Any) -> int | None:
    """How many samples a shard has; None: it does not say."""
    if _is_arrays(shard):
        return len(shard[0])
    own = getattr(shard, "dataset", shard)
    return len(own) if hasattr(own, "__len__") else None


def _is_arrays(shard: Any) -> bool:
    return isinstance(shard, (tuple, list)) and len(shard) >= 2 and all(hasattr(part, "shape") and len(part.shape) > 0 for part in shard)


class _Batches:
    """The batches of a shard. Each time they are asked for, the samples come in another order."""

    def __init__(self, shard: Any, batch: int, seed: int | None):
        self.shard, self.batch = shard, batch
        self.dataset = range(_size(shard) or 0)  # its length is what fed.torch.trainer reports
        self.random = None if seed is None else np.random.default_rng(seed)

    def __iter__(self) -> Iterator[Any]:
        torch = importlib.import_module("torch")
        count = len(self.dataset)
        order = np.arange(count) if self.random is None else self.random.permutation(count)
        if _is_arrays(self.shard):
            parts = [torch.as_tensor(part) for part in self.shard]
            picks = torch.from_numpy(order)
            for at in range(0, count, self.batch):
                pick = picks[at:at + self.batch]
                yield tuple(part[pick] for part in parts)
            return
        collate = importlib.import_module("torch.utils.data").default_collate
        for at in range(0, count, self.batch):
            yield collate([self.shard[int(k)] for k in order[at:at + self.batch]])


def _batches(shard: Any, batch: int, seed: int | None) -> Any:
    """The batches of a shard: a DataLoader as it is."""
    if _is_arrays(shard) or (hasattr(shard, "__getitem__") and hasattr(shard, "__len__")):
        return _Batches(shard, batch, seed)
    return shard


def _seed_of(seed: int, client: int, number: int, again: int) -> int:
    data = struct.pack("<QIII", seed & (1 << 64) - 1, client, number, again)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") >> 1


# -- the job: what every worker gets --


class _Job:
    """How clients train. Made by the caller's process, and used by the workers."""

    def __init__(self, model: Any, shards: Sequence[Any], train: Any, evaluate: Any, loss: Any, optimizer: Any, seed: int):
        self.model, self.shards, self.train, self.evaluate = model, shards, train, evaluate
        self.loss, self.optimizer, self.seed = loss, optimizer, seed
        self.shapes: list[tuple[str, tuple[int, ...]]] = []
        self.has_module = not isinstance(model, Mapping)
        if self.has_module and not callable(model):
            raise Error(f"model is {type(model).__name__}: give a function that returns a PyTorch module, or a dict of arrays")
        if not self.has_module and train is None:
            raise Error("the model is given as arrays, so `train` must say how to train them: train(arrays, round, shard)")
        if not self.has_module and evaluate is not None and not callable(evaluate):
            raise Error("the model is given as arrays, so `evaluate` must be a function: evaluate(arrays, round)")

    def prepare(self, initial: pathlib.Path) -> str:
        """Write the first model, and return the text of the task's model."""
        if self.has_module:
            of_torch, module = importlib.import_module("fed.torch"), self.make_module()
            layout = str(of_torch.layout(module))
            of_torch.save(module, initial)
        else:
            arrays = {name: np.asarray(array, np.float32) for name, array in self.model.items()}
            layout = _tensors.layout({name: array.shape for name, array in arrays.items()})
            _tensors.save(arrays, initial)
        self.shapes = [(name, array.shape) for name, array in _tensors.load(initial).items()]
        return layout

    def make_module(self) -> Any:
        """A new module, with the weights that the seed gives it."""
        torch = importlib.import_module("torch")
        if isinstance(self.model, torch.nn.Module):
            raise Error("model is a module: give a function that returns it, such as `lambda: Net()`, since each process needs its own")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            module = self.model()
        if not isinstance(module, torch.nn.Module):
            raise Error(f"the function `model` returned {type(module).__name__}; it must return a PyTorch module")
        return module


class _Arrays:
    """A worker's trainer for arrays."""

    def __init__(self, job: _Job):
        self.job = job

    def train(self, params: dict[str, np.ndarray], told: Round) -> tuple[int | None, Mapping[str, Any]]:
        shard = self.job.shards[told.client]
        return _size(shard), self.job.train(params, told, shard) or {}

    def measure(self, params: dict[str, np.ndarray], told: Round) -> Mapping[str, Any]:
        return self.job.evaluate(params, told) or {}


class _Module:
    """A worker's trainer for a PyTorch module."""

    def __init__(self, job: _Job):
        self.torch, self.of_torch = importlib.import_module("torch"), importlib.import_module("fed.torch")
        self.torch.set_num_threads(1)
        self.job, self.module, self.given = job, job.make_module(), None
        self.loss = job.loss or self.torch.nn.functional.cross_entropy
        names = {name for name, _ in job.shapes}
        # What does not travel must not pass from one client to the next: counters of batches, for example.
        self.counters = {name: one for name, one in self.module.named_buffers() if name not in names}
        self.first = {name: one.clone() for name, one in self.counters.items()}

    def _shard(self, told: Round) -> Any:
        shard = self.job.shards[told.client]
        if callable(shard) and not hasattr(shard, "__getitem__"):
            shard = shard(told)
        return shard

    def _loader(self, told: Any) -> Any:
        return _batches(self.given, told.batch, told.seed)

    def train(self, params: dict[str, np.ndarray], told: Round) -> tuple[int | None, Mapping[str, Any]]:
        # torch.manual_seed would cost 1 ms, and without a GPU keep a list of all seeds for it.
        self.torch.default_generator.manual_seed(told.seed)
        if self.torch.cuda.is_initialized():
            self.torch.cuda.manual_seed_all(told.seed)
        self.given = self._shard(told)
        for name, one in self.counters.items():
            one.copy_(self.first[name])
        if self.job.train is None:
            # A trainer of its own, since it may keep the optimizer's moments for its client's next round.
            trainer = self.of_torch.trainer(self.module, self._loader, self.loss, self.job.optimizer)
            new, samples, metrics = trainer(params, told)
            if new is not None:
                for name, array in params.items():
                    array[...] = new[name]
            return samples, metrics
        self.of_torch.load(self.module, params)
        self.module.train()
        metrics = self.job.train(self.module, told, self.given) or {}
        own = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        for name, array in params.items():
            array[...] = own[name].detach().cpu().numpy().reshape(array.shape)
        return _size(self.given), metrics

    def measure(self, params: dict[str, np.ndarray], told: Round) -> Mapping[str, Any]:
        self.of_torch.load(self.module, params)
        self.module.eval()
        with self.torch.no_grad():
            if _is_test(self.job.evaluate):
                return self._measure_all(_batches(self.job.evaluate, 256, None))
            return self.job.evaluate(self.module, told) or {}

    def _measure_all(self, batches: Any) -> Mapping[str, Any]:
        """The mean loss, and for classes how many are right."""
        device = next(self.module.parameters()).device
        total, seen, right = 0.0, 0, 0
        has_classes = True
        for batch in batches:
            if not isinstance(batch, (list, tuple)) or len(batch) != 2:
                raise TypeError(f"a batch of the test data is a {type(batch).__name__}, not (x, y): give a function as `evaluate`")
            x, y = batch
            result, y = self.module(x.to(device)), y.to(device)
            total += float(self.loss(result, y)) * len(y)
            seen += len(y)
            has_classes = has_classes and result.dim() == 2 and y.dim() == 1 and not y.is_floating_point()
            right += int((result.argmax(1) == y).sum()) if has_classes else 0
        if seen == 0:
            raise ValueError("the test data has no samples")
        return {"loss": total / seen, "samples": seen, **({"correct": right} if has_classes else {})}


def _is_test(evaluate: Any) -> bool:
    """Is it test data, and not a function?"""
    return not callable(evaluate) or hasattr(evaluate, "__iter__") or hasattr(evaluate, "__getitem__")


# -- a worker process --


def _end_with_parent() -> None:
    """End this process when its parent has ended, however that was."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _work(job: _Job, requests: socket.socket, told: Any, close: list[socket.socket]) -> None:
    """The whole life of a worker: answers requests until fedsim has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    for one in close:
        one.close()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        trainer: Any = _Module(job) if job.has_module else _Arrays(job)
    except BaseException as failure:
        told.send(("failed", None, None, _text_of(failure), _sendable(failure)))
        return
    shared = None
    while True:
        data, files, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 1)
        if not data:
            return
        if files:
            shared = mmap.mmap(files[0], 0)
            os.close(files[0])
        requests.send(_answer(job, trainer, shared, data, told))


def _answer(job: _Job, trainer: Any, shared: Any, data: bytes, told: Any) -> bytes:
    number, kind, client, round_, version, again, steps, batch, rate, text, _, count = _REQUEST.unpack_from(data)
    began = time.thread_time_ns()
    optimizer = data[_REQUEST.size:_REQUEST.size + text].decode()
    one = Round(round_, version, client, _seed_of(job.seed, client, round_, again), rate, steps, batch, optimizer)
    random.seed(one.seed)
    np.random.seed(one.seed & 0xFFFFFFFF)
    try:
        params = _params(job, np.frombuffer(shared, np.float32, count))
        if kind == _TRAIN:
            samples, correct, loss = _trained(*trainer.train(params, one))
        elif job.evaluate is None:
            samples, correct, loss = 1, _NO_CORRECT, math.nan
        else:
            metrics = dict(trainer.measure(params, one))
            samples, correct, loss = _measured(metrics)
            told.send(("measured", version, None, metrics, None))
    except BaseException as failure:
        told.send(("failed", client if kind == _TRAIN else None, round_ or version, _text_of(failure), _sendable(failure)))
        reason = f"{type(failure).__name__}: {failure}".encode()[:_REASON]
        return _ANSWER.pack(number, 1, 0, 0, math.nan, 0, 0) + reason
    return _ANSWER.pack(number, 0, samples, correct, loss, 0, (time.thread_time_ns() - began) // 1000)


def _params(job: _Job, flat: np.ndarray) -> dict[str, np.ndarray]:
    params, at = {}, 0
    for name, shape in job.shapes:
        size = math.prod(shape)
        params[name] = flat[at:at + size].reshape(shape)
        at += size
    return params


def _trained(samples: int | None, metrics: Mapping[str, Any]) -> tuple[int, int, float]:
    count = metrics.get("samples", samples)
    if count is None or operator.index(count) < 1:
        raise ValueError("this client's shard has no samples" if count is not None else
                         "how many samples does this shard have? Let `train` return {\"samples\": N}")
    loss = metrics.get("loss")
    return operator.index(count), _NO_CORRECT, math.nan if loss is None else float(loss)


def _measured(metrics: dict[str, Any]) -> tuple[int, int, float]:
    """Samples, correct ones and loss of an evaluation; sets the accuracy in the metrics, or the numbers that it is made of."""
    samples = operator.index(metrics.pop("samples", 0)) or 1_000_000  # of a fraction, six digits are kept
    correct = metrics.pop("correct", None)
    if correct is None and metrics.get("accuracy") is not None:
        correct = round(float(metrics["accuracy"]) * samples)
    elif correct is not None:
        metrics["accuracy"] = operator.index(correct) / samples
    loss = metrics.get("loss")
    number = float(loss) if loss is not None and math.isfinite(loss) else math.nan
    return samples, _NO_CORRECT if correct is None else operator.index(correct), number


def _text_of(failure: BaseException) -> str:
    return "".join(traceback.format_exception(type(failure), failure, failure.__traceback__))


def _sendable(failure: BaseException) -> BaseException | None:
    try:
        pickle = importlib.import_module("pickle")
        pickle.loads(pickle.dumps(failure))
        return failure
    except Exception:
        return None


# -- the parent --


class _Run:
    """fedsim and its workers, while they run."""

    def __init__(self, job: _Job, count: int, start: str, quiet: bool):
        self.job, self.count, self.start, self.quiet = job, count, start, quiet
        self.workers: list[Any] = []
        self.told: list[Any] = []
        self.program: subprocess.Popen[bytes] | None = None
        self.errors = ""  # what fedsim has written to standard error
        self.measured: dict[int, dict[str, Any]] = {}
        self.failed: tuple[Any, ...] | None = None
        self.died: list[str] = []

    @contextlib.contextmanager
    def ended(self) -> Iterator[None]:
        """However the block ends, no process is left."""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as self._errors:
            try:
                yield
            finally:
                self._end()
                self._errors.seek(0)
                self.errors = self._errors.read().strip()

    def _end(self) -> None:
        if self.program is not None and self.program.poll() is None:
            self.program.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.program.wait(_END_S)
            self.program.kill()
        if self.program is not None:
            self.program.wait()
            assert self.program.stdout is not None
            self.program.stdout.close()
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.join()
        for one in self.told:
            one.close()

    def begin(self, keys: Mapping[str, Any], folder: pathlib.Path) -> None:
        context = multiprocessing.get_context(self.start)
        ends: list[socket.socket] = []
        try:
            for k in range(self.count):
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                ends.append(ours)
                with theirs:
                    self._start_worker(context, theirs, ends if self.start == "fork" else [], k)
            numbers = ",".join(str(one.fileno()) for one in ends)
            words = [sim._word(key, os.fspath(value) if isinstance(value, os.PathLike) else value) for key, value in keys.items()]
            # In a session of its own, so that Ctrl-C reaches this process alone, which ends the others.
            self.program = subprocess.Popen([_programs.find("fedsim"), "run", *words, f"trainers={numbers}", "--out", str(folder)],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True,
                                            pass_fds=[one.fileno() for one in ends])
        finally:
            for one in ends:
                one.close()

    def _start_worker(self, context: Any, theirs: socket.socket, close: list[socket.socket], k: int) -> None:
        own, other = context.Pipe(duplex=False)
        self.told.append(own)
        with other, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside PyTorch's threads, which a worker does not use
            worker = context.Process(target=_work, args=(self.job, theirs, other, list(close)), name=f"fed-simulate-{k}")
            worker.start()
        self.workers.append(worker)

    def watch(self) -> None:
        """Read what fedsim prints and what workers tell, until fedsim has ended."""
        assert self.program is not None and self.program.stdout is not None
        output = self.program.stdout.fileno()
        alive = {worker.sentinel: k for k, worker in enumerate(self.workers)}
        told = list(self.told)
        until: float | None = None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = multiprocessing.connection.wait([output, *alive, *told], left)
            if not ready and until is not None:
                self.program.terminate()
                until = None
            for one in ready:
                if one in told and not self._hear(one):
                    told.remove(one)
                elif one in alive:
                    self._note_death(alive.pop(one))
                    until = until or time.monotonic() + 1.0  # fedsim ends by itself, unless it needs no worker now
            if output in ready:
                text = os.read(output, 65536)
                if not text:
                    break
                if not self.quiet:
                    print(text.decode(errors="replace"), end="", flush=True)
        self.program.wait()
        for k in alive.values():  # fedsim may have ended because one of them died
            if self.workers[k].exitcode is not None:
                self._note_death(k)
        for one in told:
            while one.poll() and self._hear(one):
                pass

    def _hear(self, pipe: Any) -> bool:
        try:
            kind, *rest = pipe.recv()
        except (EOFError, OSError):
            return False
        if kind == "measured":
            self.measured[rest[0]] = rest[2]
        elif self.failed is None:
            self.failed = tuple(rest)
        return True

    def _note_death(self, k: int) -> None:
        self.workers[k].join()
        code = self.workers[k].exitcode or 0
        # a worker that fails after fedsim's end fails because of it, but nobody kills one then
        if code < 0 or (code > 0 and self.program is not None and self.program.poll() is None):
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
            self.died.append(f"worker process {k + 1} of {self.count} {how}")

    def check(self) -> None:
        """Raise what went wrong."""
        assert self.program is not None
        if self.failed is not None:
            client, number, text, failure = self.failed
            where = (f"client {client} failed in round {number}" if client is not None else
                     f"the evaluation of version {number} failed" if number is not None else "a worker process can't make the module")
            raise Error(f"{where}:\n{text}") from failure
        if self.program.returncode != 0:
            text = self.errors or f"fedsim ended with status {self.program.returncode}"
            raise Error("; ".join([text, *self.died]), self.program.returncode)

    def write_evaluations(self, folder: pathlib.Path) -> None:
        """Write evaluations.csv: a row for each measured model, with all that `evaluate` has returned."""
        if self.measured:
            rows = [{"version": version, **self.measured[version]} for version in sorted(self.measured)]
            (folder / "evaluations.csv").write_text(_html.write_csv(rows), encoding="utf-8")
