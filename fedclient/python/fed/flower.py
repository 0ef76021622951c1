"""Makes a device of Flower's NumPyClient. Flower itself is not needed: any object with fit and evaluate will do.

    first = client.get_parameters({})                      # Flower's list of arrays
    fed.flower.layout(first)                               # for the task's "model"
    fed.flower.save(first, "first.safetensors")            # for the task's "initial"
    fed.Client(server, ca, state, token).run(fed.flower.trainer(client, like=first))
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numbers
import os
from typing import Any, Sequence

import numpy as np

from . import _tensors
from .client import Round, Train

__all__ = ["layout", "save", "trainer"]


def _named(arrays: Sequence[Any]) -> dict[str, np.ndarray]:
    return {f"array{k}": np.asarray(array, np.float32) for k, array in enumerate(arrays)}


def layout(arrays: Sequence[Any]) -> str:
    """A client's list of arrays as the text of a task's "model": "tensors array0 20x1x5x5 | array1 20"."""
    return _tensors.layout({name: array.shape for name, array in _named(arrays).items()})


def save(arrays: Sequence[Any], path: str | os.PathLike[str]) -> None:
    """Write a client's list of arrays as safetensors, for a task's "initial"."""
    _tensors.save(_named(arrays), path)


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """The metrics that are numbers. Flower also allows texts and bytes, which have no mean."""
    return {name: float(value) for name, value in metrics.items() if isinstance(value, numbers.Real)}


def trainer(client: Any, like: Sequence[Any] | None = None) -> Train:
    """A callback for Client.run that calls client.fit, or client.evaluate if the device measures models.

    like  arrays whose shapes and types the client gets, such as client.get_parameters({}); None: float32, as in the task

    The config has "server_round", "learning_rate", "local_steps", "batch" and the keys of the task's "app". Metrics
    of the client that are numbers go to the coordinator; the accuracy of an evaluation counts as its "correct", too.
    """

    def train(params: dict[str, np.ndarray], told: Round) -> Any:
        config = {"server_round": told.number, "learning_rate": told.learning_rate, "local_steps": told.local_steps,
                  "batch": told.batch, **told.app}
        arrays = [params[name].copy() for name in params]
        if like is not None:
            arrays = [one.reshape(np.shape(other)).astype(np.asarray(other).dtype) for one, other in zip(arrays, like)]
        if told.number == 0:
            loss, samples, metrics = client.evaluate(arrays, config)
            return None, samples, {**_numbers(metrics), "loss": loss, "correct": round(metrics.get("accuracy", 0) * samples)}
        trained, samples, metrics = client.fit(arrays, config)
        if len(trained) != len(params):
            raise ValueError(f"the client's fit returned {len(trained)} arrays, the task has {len(params)}")
        new = {name: np.asarray(one).reshape(params[name].shape) for name, one in zip(params, trained)}
        return new, samples, _numbers(metrics)

    return train
