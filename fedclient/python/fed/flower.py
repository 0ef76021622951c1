"""Makes a device of Flower's ClientApp, or of its NumPyClient. For a NumPyClient Flower itself is not needed: any object with fit and
evaluate will do.

    first = client.get_parameters({})                      # Flower's list of arrays, or an ArrayRecord
    fed.flower.layout(first)                               # for the task's "model"
    fed.flower.save(first, "first.safetensors")            # for the task's "initial"
    fed.Client(server, ca, state, token).run(fed.flower.trainer(client, like=first))
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numbers
import os
import time
from typing import Any, Mapping, Sequence, Union

import numpy as np

from . import _tensors
from .client import Round, Train

__all__ = ["layout", "save", "trainer"]

Arrays = Union[Sequence[Any], Mapping[str, Any]]  # a list of arrays, or an ArrayRecord

# What Flower's examples and templates call the loss and the accuracy, in this order of preference
LOSSES = {"train": ("train_loss", "train-loss", "loss"), "evaluate": ("eval_loss", "eval-loss", "test_loss", "loss")}
ACCURACIES = ("accuracy", "eval_acc", "eval_accuracy", "eval-accuracy", "test_accuracy", "acc")
EXAMPLES = ("num-examples", "num_examples")


def _array(one: Any) -> np.ndarray:
    """An array of a list, or an Array of an ArrayRecord."""
    return np.asarray(one.numpy() if hasattr(one, "numpy") else one)


def _arrays(arrays: Arrays) -> dict[str, np.ndarray]:
    if isinstance(arrays, Mapping):
        return {name: _array(one) for name, one in arrays.items()}
    return {f"array{k}": _array(one) for k, one in enumerate(arrays)}


def layout(arrays: Arrays) -> str:
    """A client's arrays as the text of a task's "model": "tensors array0 20x1x5x5 | array1 20". An ArrayRecord has names of its own."""
    return _tensors.layout({name: array.shape for name, array in _arrays(arrays).items()})


def save(arrays: Arrays, path: str | os.PathLike[str]) -> None:
    """Write a client's arrays as safetensors, for a task's "initial"."""
    _tensors.save({name: array.astype(np.float32) for name, array in _arrays(arrays).items()}, path)


def _told(kind: str, metrics: Mapping[str, Any], samples: int, loss: Any = None) -> dict[str, float]:
    """The metrics that are numbers. Flower also allows texts and bytes, which have no mean. What is the loss is called "loss"; the
    accuracy of an evaluation counts as its "correct", too."""
    told = {name: float(value) for name, value in metrics.items() if isinstance(value, numbers.Real) and name not in EXAMPLES}
    found = next((name for name in LOSSES[kind] if name in told), None)
    if found is not None:
        told["loss"] = told.pop(found)
    if loss is not None:
        told["loss"] = float(loss)
    if kind == "evaluate":
        accuracy = next((told[name] for name in ACCURACIES if name in told), 0.0)
        told["correct"] = round(accuracy * samples)
    return told


def trainer(client: Any, like: Arrays | None = None, context: Any = None) -> Train:
    """A callback for Client.run that calls client.fit, or client.evaluate if the device measures models. Of a ClientApp it calls
    the function of @app.train() or @app.evaluate(), or the client of its client_fn.

    like     arrays whose shapes and types the client gets, such as client.get_parameters({}) or an ArrayRecord of its model; None:
             float32, as in the task
    context  a ClientApp's flwr.app.Context, with the node_config and run_config of this device; None: one whose run_config is the
             task's "app". It is kept from round to round

    The config has "server_round", "learning_rate", "local_steps", "batch" and the keys of the task's "app"; that of a message spells
    "server-round", "learning-rate" and "local-steps", and has "lr", as in Flower's templates. Metrics of the client that are numbers
    go to the coordinator. Its loss is "train_loss" or "loss" ("eval_loss" of an evaluation). Without one there is no loss.
    """
    app = None if hasattr(client, "fit") else _App(client, context)

    def train(params: dict[str, np.ndarray], told: Round) -> Any:
        arrays = {name: one.copy() for name, one in params.items()}
        if like is not None:
            for name, other in zip(arrays, _arrays(like).values()):
                arrays[name] = arrays[name].reshape(other.shape).astype(other.dtype)
        kind = "evaluate" if told.number == 0 else "train"
        config = {"server_round": told.number, "learning_rate": told.learning_rate, "local_steps": told.local_steps,
                  "batch": told.batch, **told.app}
        loss: Any = None
        trained: Sequence[Any] = ()
        if app is not None:
            trained, samples, metrics = app.call(kind, arrays, told, config)
        elif kind == "evaluate":
            loss, samples, metrics = client.evaluate(list(arrays.values()), config)
        else:
            trained, samples, metrics = client.fit(list(arrays.values()), config)
        if kind == "evaluate":
            return None, samples, _told(kind, metrics, samples, loss)
        if len(trained) != len(params):
            raise ValueError(f"the client's fit returned {len(trained)} arrays, the task has {len(params)}")
        new = {name: np.asarray(one).reshape(params[name].shape) for name, one in zip(params, trained)}
        return new, samples, _told(kind, metrics, samples)

    return train


class _App:
    """A ClientApp: it is called with a message, and answers with one."""

    def __init__(self, app: Any, context: Any):
        if not callable(app):
            raise TypeError(f"{type(app).__name__} has no fit, and is no ClientApp")
        self.app, self.context = app, context

    def call(self, kind: str, arrays: dict[str, np.ndarray], told: Round, config: dict[str, Any]) -> tuple[list[np.ndarray], int, Any]:
        """Returns the arrays, in the order of those given, the samples and the metrics."""
        from flwr.app import Context, RecordDict  # type: ignore[import-not-found,unused-ignore]
        if self.context is None:
            self.context = Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config=dict(told.app))
        if getattr(self.app, "_call", None) is not None:  # ClientApp(client_fn)
            return self._call_client(kind, list(arrays.values()), config)
        answer = self._answer(kind, self._content(arrays, told))
        metrics = {name: value for record in answer.metric_records.values() for name, value in record.items()}
        samples = next((int(metrics[name]) for name in EXAMPLES if name in metrics), None)
        if samples is None:
            raise ValueError(f"the ClientApp's answer to \"{kind}\" has no metric \"num-examples\": how many samples this device has")
        return ([] if kind == "evaluate" else self._in_order(answer, arrays)), samples, metrics

    def _answer(self, kind: str, content: Any) -> Any:
        """The content of the answer to a message. The message names no SuperLink, for there is none."""
        from flwr.app import DEFAULT_TTL, Message, Metadata  # type: ignore[import-not-found,unused-ignore]
        run, node = self.context.run_id, self.context.node_id
        told = Metadata(run_id=run, message_id="", src_node_id=0, dst_node_id=node, reply_to_message_id="", group_id="",
                        created_at=time.time(), ttl=DEFAULT_TTL, message_type=kind)
        message: Any = Message  # its types do not tell of `metadata`
        answer = self.app(message(content=content, metadata=told), self.context)
        if answer.has_error():
            raise RuntimeError(f"the ClientApp answers with an error: {answer.error.reason}")
        return answer.content

    @staticmethod
    def _content(arrays: dict[str, np.ndarray], told: Round) -> Any:
        from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict  # type: ignore[import-not-found,unused-ignore]
        config = {"server-round": told.number, "learning-rate": told.learning_rate, "lr": told.learning_rate,
                  "local-steps": told.local_steps, "batch": told.batch, **told.app}
        return RecordDict({"arrays": ArrayRecord({name: Array(one) for name, one in arrays.items()}), "config": ConfigRecord(config)})

    @staticmethod
    def _in_order(answer: Any, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The answer's arrays by the names of those given; where it has other names, by their places, as a list of arrays has."""
        records = list(answer.array_records.values())
        if len(records) != 1:
            raise ValueError(f"the ClientApp's answer to \"train\" has {len(records)} records of arrays; it must have one, the trained model")
        new = _arrays(records[0])
        return [new[name] for name in arrays] if new.keys() == arrays.keys() else list(new.values())

    def _call_client(self, kind: str, arrays: list[np.ndarray], config: dict[str, Any]) -> tuple[list[np.ndarray], int, Any]:
        """Call the client of a client_fn, by the messages that Flower makes for it."""
        from flwr.common import EvaluateIns, FitIns, ndarrays_to_parameters, parameters_to_ndarrays  # type: ignore[import-not-found,unused-ignore]
        from flwr.compat.common import recorddict_compat as records  # type: ignore[import-not-found,unused-ignore]
        given = ndarrays_to_parameters(arrays)
        content = (records.evaluateins_to_recorddict(EvaluateIns(given, config), True) if kind == "evaluate" else
                   records.fitins_to_recorddict(FitIns(given, config), True))
        answer = self._answer(kind, content)
        if kind == "evaluate":
            measured = records.recorddict_to_evaluateres(answer)
            return [], measured.num_examples, {"loss": measured.loss, **measured.metrics}
        trained = records.recorddict_to_fitres(answer, False)
        return parameters_to_ndarrays(trained.parameters), trained.num_examples, trained.metrics
