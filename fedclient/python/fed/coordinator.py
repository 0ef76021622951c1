"""A coordinator on this machine: Python starts the program fedserver, and sends it requests.

    with fed.Coordinator("coordinator") as coordinator:
        coordinator.submit({"model": "vector 10", "rounds": 5, "cohort": 2})
        token = coordinator.token()
        ...                                     # devices: fed.Client(coordinator.url, coordinator.ca, "device", token)
        coordinator.wait()
        values = coordinator.model()
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import weakref
from typing import Any, Mapping, Sequence

import numpy as np

from . import _html, _programs, _tensors
from ._native import Error

__all__ = ["Coordinator", "Rounds", "Status"]

LOG = "fedserver.log"  # in the coordinator's folder
PORTS = "ports.json"  # in the same folder
_SHOWN = ("number", "attempts", "updates", "samples", "loss", "accuracy", "test_loss", "update_bytes", "delta_bytes")
_OVER = ("finished", "cancelled")


class Status(dict):  # type: ignore[type-arg]
    """The coordinator's state: the object of GET /v1/status (docs/protocol.md). A notebook shows it as a table."""

    @property
    def sentence(self) -> str:
        """A sentence for people: the task, its progress, and what its round waits for."""
        task, now = self.get("task"), self.get("round")
        if task is None:
            return "there is no task"
        text = f"task {task['id']} ({task['name']}) is {task['state']}: {task['version']} of {task['rounds']} rounds"
        return text + (f"; round {now['number']} waits for {now['waits_for']}" if now else "")

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        shown = self.get("rounds", [])[:10]
        return f"<p>{_html.cell(self.sentence)}</p>" + (_html.table(shown, _SHOWN, "the newest rounds") if shown else "")


class Rounds(list):  # type: ignore[type-arg]
    """A task's committed rounds, the oldest first: a dict for each, with the columns of /rounds.csv."""

    def frame(self) -> Any:
        """The rounds as a pandas frame."""
        return _html.frame(self)

    def _repr_html_(self) -> str:
        return _html.table(self, self[0].keys() if self else (), f"{len(self)} rounds")


def _end(process: subprocess.Popen[str], how: int = signal.SIGTERM) -> None:
    if process.poll() is None:
        process.send_signal(how)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


class Coordinator:
    """A coordinator's folder, and the process that serves it.

    folder        where its state is kept; made if there is none. An existing folder's coordinator continues where it ended
    hosts         names or addresses by which devices reach it, for a new folder's certificate; empty: this machine's
    bind          address to listen on
    front_port    port of the web page, of status and of enrolment. 0: the folder's port of the last start, or a free one
    devices_port  port of enrolled devices; 0: as above
    options       further words for `fedserver run`

    Use it in a with statement, or call start() and stop(). url, status, rounds and wait need a coordinator that serves;
    other methods work always. The process ends with Python, but if Python is killed, it goes on serving.
    """

    def __init__(self, folder: str | os.PathLike[str], *, hosts: Sequence[str] = (), bind: str = "127.0.0.1",
                 front_port: int = 0, devices_port: int = 0, options: Sequence[str] = ()):
        self.folder = pathlib.Path(folder).absolute()
        self.bind = bind
        kept = self._kept_ports()
        self.front_port, self.devices_port = front_port or kept[0], devices_port or kept[1]
        self._options = tuple(options)
        self._process: subprocess.Popen[str] | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        if not self.ca.exists():
            self.command("init", *(word for host in hosts for word in ("--host", host)))

    def __repr__(self) -> str:
        return f"Coordinator({str(self.folder)!r}, {'serves ' + self.url if self.running else 'does not serve'})"

    def _repr_html_(self) -> str:
        where = f'<p>serves <a href="{_html.cell(self.url)}/">{_html.cell(self.url)}</a></p>' if self.running else "<p>does not serve</p>"
        return where + (self.status()._repr_html_() if self.running else "")

    def __enter__(self) -> Coordinator:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- the process --

    def start(self) -> Coordinator:
        """Serve. Returns once both ports are open. Raises Error with the program's message if it can't."""
        if self.running:
            return self
        with open(self.folder / LOG, "a", encoding="utf-8") as log:
            at = log.tell()
            process = subprocess.Popen(
                [_programs.find("fedserver"), "run", "--dir", str(self.folder), "--bind", self.bind, "--front-port", str(self.front_port),
                 "--devices-port", str(self.devices_port), *self._options],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        assert process.stdout is not None
        ports = re.findall(r":(\d+)(?:/|\s)", process.stdout.readline())
        if len(ports) < 2:
            _end(process)
            raise Error(self._last_words(at, process.returncode), process.returncode)
        self.front_port, self.devices_port = int(ports[0]), int(ports[1])
        self._keep_ports()
        self._process, self._finalizer = process, weakref.finalize(self, _end, process)
        return self

    def _kept_ports(self) -> tuple[int, int]:
        """The ports of the last start, which enrolled devices know. 0: the folder has none."""
        try:
            front, devices = json.loads((self.folder / PORTS).read_text(encoding="utf-8"))
            return int(front), int(devices)
        except (OSError, ValueError, TypeError):
            return 0, 0

    def _keep_ports(self) -> None:
        new = self.folder / (PORTS + ".new")
        new.write_text(json.dumps([self.front_port, self.devices_port]), encoding="utf-8")
        os.replace(new, self.folder / PORTS)

    def _last_words(self, at: int, status: int) -> str:
        """The last line that a process wrote into the log, whose part begins at byte `at`."""
        with open(self.log, encoding="utf-8") as log:
            log.seek(at)
            lines = log.read().split("\n")
        return next((line for line in reversed(lines) if line), f"fedserver ended with status {status}")

    @property
    def running(self) -> bool:
        """Whether this object's process serves."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End the process in good order. All that it acknowledged is stored; start() continues the same round."""
        self._finish(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, as a power cut would. start() continues the same round."""
        self._finish(signal.SIGKILL)

    def _finish(self, how: int) -> None:
        if self._process is not None and self._finalizer is not None:
            self._finalizer.detach()
            _end(self._process, how)
        self._process = self._finalizer = None

    @property
    def url(self) -> str:
        """The address for devices, "https://host:port", of the front. Raises Error while the coordinator does not serve."""
        if not self.running:
            raise Error(f"the coordinator of {self.folder} does not serve; call start() first")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bind, self.bind)
        return f"https://{f'[{host}]' if ':' in host else host}:{self.front_port}"

    @property
    def ca(self) -> pathlib.Path:
        """The CA's certificate, which each device needs."""
        return self.folder / "ca.pem"

    @property
    def log(self) -> pathlib.Path:
        """The file with the process's log lines."""
        return self.folder / LOG

    # -- commands and requests --

    def command(self, name: str, *words: str) -> str:
        """Run any command of fedserver, such as command("revoke", "1a2b3c4d"). Returns its output. Raises Error."""
        return _programs.run("fedserver", name, "--dir", str(self.folder), *words)

    def token(self, role: str = "device", **options: Any) -> str:
        """A one-time token, with which one device enrols.

        role     "device"; "evaluator", for a device that measures models; "operator"
        options  of `fedserver token`, such as name="kitchen", tag="tablet", hours=2
        """
        return self.tokens(1, role, **options)[0]

    def tokens(self, count: int, role: str = "device", **options: Any) -> list[str]:
        """Make `count` one-time tokens; role and options as for token()."""
        words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        return self.command("token", "--count", str(count), "--role", role, *words).split()

    def submit(self, task: Mapping[str, Any] | str | os.PathLike[str]) -> int:
        """Queue a task: the keys of docs/protocol.md#task, or the path of a file of them. Returns its number.

        In a mapping, paths ("initial", "@FILE") are relative to the current folder. Raises Error if a key is wrong.
        """
        if not isinstance(task, Mapping):
            return int(self.command("task", os.fspath(task)).split()[1])
        keys = dict(task)
        keys.setdefault("name", "task")
        if "initial" in keys:
            keys["initial"] = os.path.abspath(keys["initial"])
        if str(keys.get("model", "")).startswith("@"):
            keys["model"] = "@" + os.path.abspath(keys["model"][1:])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "task.json")
            path.write_text(json.dumps(keys), encoding="utf-8")
            return int(self.command("task", str(path)).split()[1])

    def tasks(self) -> list[dict[str, Any]]:
        """All tasks, each as in /v1/status: {"id", "name", "state", "rounds", "version", ...}."""
        listed: list[dict[str, Any]] = json.loads(self.command("tasks", "--json"))
        return listed

    def devices(self) -> list[dict[str, Any]]:
        """All devices, those revoked too: {"fingerprint", "name", "state", "last_seen_ms", "counted", ...} each, as
        `fedserver devices --json` prints them. While the coordinator serves, "last_seen_ms", "late" and "refused" may be a minute
        old."""
        listed: list[dict[str, Any]] = json.loads(self.command("devices", "--json"))
        return listed

    def cancel(self, task: int) -> None:
        """End a task, and delete its model."""
        self.command("cancel", str(task))

    def pause(self, task: int) -> None:
        """Pause a task; the next one in the queue runs."""
        self.command("pause", str(task))

    def resume(self, task: int) -> None:
        """Put a paused task first in the queue."""
        self.command("resume", str(task))

    def status(self) -> Status:
        """The coordinator's state, from GET /v1/status. Raises Error while it does not serve."""
        return Status(json.loads(self._get("/v1/status")))

    def rounds(self, task: int | None = None) -> Rounds:
        """The committed rounds of a task; None: of the first task that runs, or else of the one that finished last. Raises
        Error while the coordinator does not serve."""
        return Rounds(_html.read_csv(self._get(f"/rounds.csv?task={task or 0}")))

    def wait(self, task: int | None = None, timeout: float | None = None) -> None:
        """Return once the task is finished; None: all tasks. Raises TimeoutError after `timeout` seconds, and Error if
        the task was cancelled or the coordinator does not serve."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            open_tasks = [one for one in self.tasks() if one["id"] == task or (task is None and one["state"] not in _OVER)]
            if task is not None and not open_tasks:
                raise Error(f"there is no task {task}; tasks() lists them")
            if any(one["state"] == "cancelled" for one in open_tasks):
                raise Error(f"task {task} was cancelled")
            if all(one["state"] == "finished" for one in open_tasks):
                return
            text = str(self.status())
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"the task is not finished after {timeout:g} s: {text}")
            time.sleep(0.2)

    def export(self, path: str | os.PathLike[str], task: int | None = None) -> pathlib.Path:
        """Write the newest model as safetensors; None: that of the first task that runs, or else of the one that
        finished last. Returns the path."""
        self.command("export", *([] if task is None else ["--task", str(task)]), os.fspath(path))
        return pathlib.Path(path)

    def model(self, task: int | None = None) -> dict[str, np.ndarray]:
        """The newest model: float32 arrays by name, each in the shape that the task gives it."""
        with tempfile.TemporaryDirectory() as folder:
            return _tensors.load(self.export(pathlib.Path(folder, "model.safetensors"), task))

    def _get(self, path: str) -> str:
        context = ssl.create_default_context(cafile=str(self.ca))
        request = urllib.request.Request(self.url + path)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        try:
            with opener.open(request, timeout=60) as answer:
                text: str = answer.read().decode()
                return text
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise Error(json.loads(refusal.read())["message"], refusal.code) from refusal
        except OSError as error:
            raise Error(f"GET {path}: {error}; see {self.log}") from error
