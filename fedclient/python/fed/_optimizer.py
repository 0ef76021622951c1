"""A task's optimizer, run by PyTorch, and what it remembers from round to round. fed.torch uses it."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import ctypes
import logging
import math
import os
import pathlib
from typing import Any, Sequence

import torch

from . import _native
from .client import Decline, Round

_log = logging.getLogger("fed")

# fedpy_optimizer's numbers, in its order (fedpy.h); the rule is one of RULES, in the order of fed_rule
NUMBERS = ("rule", "learning_rate", "momentum", "nesterov", "beta1", "beta2", "epsilon", "decay", "warmup_steps", "step_every",
           "step_factor", "cosine_steps", "cosine_low", "stall_window", "clip_value", "clip_norm", "prox_mu", "scaffold_share", "mask",
           "stateless")
RULES = ("sgd", "momentum", "adam", "adamw")
_SHAPES = ("prox_mu", "clip_value", "clip_norm")
_SCHEDULES = ("warmup_steps", "step_every", "cosine_steps")
# What fed.torch can't do, and why: a task with one of these is declined.
UNABLE = {"mask": "it does not learn which values were counted", "scaffold_share": "it keeps no control variate",
          "stall_window": "it does not watch the loss for its schedule"}


def parse(spec: str, learning_rate: float) -> dict[str, float]:
    """The numbers of a task's optimizer by name. Raises Decline: an unknown optimizer, or one that fed.torch can't be."""
    numbers = (ctypes.c_double * len(NUMBERS))()
    try:
        _native.call("optimizer", spec.encode(), learning_rate, numbers)
    except _native.Error as error:
        raise Decline(f"the task's optimizer: {error}") from None
    found = dict(zip(NUMBERS, numbers))
    for name, why in UNABLE.items():
        if found[name]:
            part = name.partition("_")[0]
            raise Decline(f"the task's optimizer has \"+{part}\", which fed.torch can't do, for {why}: take it out of the task, or give "
                          "fed.torch an optimizer of the device's own")
    return found


class Optimizer:
    """The optimizer of fed/optimizer_spec.h on tensors that require a gradient. The formulas are PyTorch's own, which are the same."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], numbers: dict[str, float]):
        self.parameters, self.numbers, self.taken = parameters, numbers, 0
        self.first = [one.detach().clone() for one in parameters] if numbers["prox_mu"] else None
        rate, decay, rule = numbers["learning_rate"], numbers["decay"], RULES[int(numbers["rule"])]
        # without these each step is PyTorch's own, at one rate
        self.shapes = any(numbers[name] for name in (*_SHAPES, *_SCHEDULES))
        self.own: torch.optim.Optimizer
        if rule in ("sgd", "momentum"):
            momentum = numbers["momentum"] if rule == "momentum" else 0.0
            self.own = torch.optim.SGD(parameters, rate, momentum, weight_decay=decay, nesterov=bool(numbers["nesterov"]) and momentum > 0)
        else:
            kind = torch.optim.Adam if rule == "adam" else torch.optim.AdamW
            self.own = kind(parameters, rate, (numbers["beta1"], numbers["beta2"]), numbers["epsilon"], decay)

    @property
    def remembers(self) -> bool:
        """Whether the next round begins with what this one leaves."""
        of_steps = any(self.numbers[name] for name in _SCHEDULES)
        return not self.numbers["stateless"] and (RULES[int(self.numbers["rule"])] != "sgd" or of_steps)

    def state(self) -> dict[str, Any]:
        return {"taken": self.taken, "own": self.own.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with a state; the task's numbers, which a phase may have changed, stay."""
        self.taken = state["taken"]
        numbers = [{key: value for key, value in group.items() if key != "params"} for group in self.own.param_groups]
        self.own.load_state_dict(copy.deepcopy(state["own"]))  # PyTorch would change what it is given
        for group, told in zip(self.own.param_groups, numbers):
            group.update(told)

    def zero_grad(self) -> None:
        self.own.zero_grad()

    def rate(self) -> float:
        """The learning rate of the next step: as scheduled_rate in fedclient/train/update.c."""
        told, rate = self.numbers, self.numbers["learning_rate"]
        if self.taken + 1 < told["warmup_steps"]:
            rate *= (self.taken + 1) / told["warmup_steps"]
        after = max(0.0, self.taken - told["warmup_steps"])
        if told["step_every"]:
            rate *= told["step_factor"] ** math.floor(after / told["step_every"])
        if told["cosine_steps"]:
            done = min(1.0, after / told["cosine_steps"])
            rate *= told["cosine_low"] + (1 - told["cosine_low"]) * 0.5 * (1 + math.cos(math.pi * done))
        return rate

    def step(self) -> None:
        if self.shapes:
            self._shape()
            for group in self.own.param_groups:
                group["lr"] = self.rate()
        self.own.step()
        self.taken += 1

    @torch.no_grad()
    def _shape(self) -> None:
        """Let the gradients go through prox and clip, in this order; decay and the rule are PyTorch's."""
        told = self.numbers
        if self.first is not None:
            for one, begun in zip(self.parameters, self.first):
                if one.grad is not None:
                    one.grad.add_(one.detach() - begun, alpha=told["prox_mu"])
        gradients = [one.grad for one in self.parameters if one.grad is not None]
        if told["clip_value"]:
            for gradient in gradients:
                gradient.clamp_(-told["clip_value"], told["clip_value"])
        if told["clip_norm"]:
            norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
            if norm > told["clip_norm"]:
                for gradient in gradients:
                    gradient.mul_(told["clip_norm"] / norm)


class Memory:
    """What a device's optimizers remember: for each slot the state before its newest round, and after it. So a round that is
    trained again, as after a power cut, begins with the same state. In `folder`, or until the process ends if that is None."""

    def __init__(self, folder: str | os.PathLike[str] | None):
        self.folder = None if folder is None else pathlib.Path(folder)
        self.of: dict[int, dict[str, Any]] = {}

    def before(self, told: Round) -> dict[str, Any] | None:
        """The state with which this round begins; None: as new."""
        kept = self.of.get(told.slot) or self._read(told.slot)
        if kept is None or kept["task"] != told.task:
            return None
        state: dict[str, Any] | None = kept["before"] if kept["round"] == told.number else kept["after"]
        return state

    def keep(self, told: Round, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        self.of[told.slot] = {"task": told.task, "round": told.number, "before": before, "after": after}
        if self.folder is not None:
            path = self._path(told.slot)
            with open(path.with_suffix(".new"), "wb") as file:
                torch.save(self.of[told.slot], file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path.with_suffix(".new"), path)

    def _path(self, slot: int) -> pathlib.Path:
        assert self.folder is not None
        return self.folder / f"torch-optimizer-{slot}.pt"

    def _read(self, slot: int) -> dict[str, Any] | None:
        if self.folder is None or not self._path(slot).exists():
            return None
        try:
            self.of[slot] = torch.load(self._path(slot), weights_only=True)
            return self.of[slot]
        except Exception as error:  # torch.load has no exception of its own
            _log.warning("%s can't be read (%s): the optimizer begins with nothing remembered", self._path(slot), error)
            return None
