"""PyTorch: a module as a task's model, a module as a device's trainer, and gradients compressed between processes.

    print(fed.torch.layout(module))                     # for the task's "model"
    fed.torch.save(module, "first.safetensors")         # for the task's "initial"

    with fed.Client(server, "ca.pem", "state", token) as client:
        fed.torch.run(client, module, loader, torch.nn.functional.cross_entropy)

    ddp.register_comm_hook(fed.torch.Residuals(), fed.torch.hook("3lc:s=1.75"))

What travels are the parameters that require a gradient, and running statistics. `select`, an argument of most functions here,
chooses others: select(name, tensor) -> bool is asked about each parameter and each running statistic, frozen ones too. Devices and
the task must choose the same. Names are those of the module itself, without what DistributedDataParallel and torch.compile add.
Tensors of other types than float32 are converted to float32, and back.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Iterator, Mapping, Protocol, Union

import numpy as np
import torch

from . import _tensors
from ._hook import Residuals, hook
from ._modules import Select, tensors
from ._optimizer import Memory, Optimizer, parse
from .client import Client, Decline, Round, Train

__all__ = ["Residuals", "hook", "layout", "load", "run", "save", "store", "trainer"]

Loader = Union[Iterable[Any], Callable[[Round], Iterable[Any]]]
Step = Callable[[torch.nn.Module, Any], torch.Tensor]


def layout(module: torch.nn.Module, select: Select = None) -> str:
    """The module's tensors as the text of a task's "model": "tensors conv1.weight 20x1x5x5 | ...". Running statistics
    come last. A scalar is a tensor of one value. Raises ValueError: the text is too long for a task."""
    parameters, statistics = tensors(module, select)
    return _tensors.layout({name: tensor.shape for name, tensor in parameters.items()},
                           {name: tensor.shape for name, tensor in statistics.items()})


def _all(module: torch.nn.Module, select: Select) -> dict[str, torch.Tensor]:
    parameters, statistics = tensors(module, select)
    return {**parameters, **statistics}


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float32).numpy()


def save(module: torch.nn.Module, path: str | os.PathLike[str], select: Select = None) -> None:
    """Write the module's tensors as safetensors, for a task's "initial"."""
    _tensors.save({name: _array(tensor) for name, tensor in _all(module, select).items()}, path)


def load(module: torch.nn.Module, params: Mapping[str, np.ndarray], select: Select = None) -> None:
    """Copy a model's arrays into the module. They may be those of a callback, or of Coordinator.model(). Raises Decline if
    they are not the module's tensors."""
    _load(_all(module, select), params)


@torch.no_grad()
def _load(own: Mapping[str, torch.Tensor], params: Mapping[str, np.ndarray]) -> None:
    _check(own, params)
    for name, tensor in own.items():
        tensor.copy_(torch.from_numpy(params[name]).reshape(tensor.shape))


def store(module: torch.nn.Module, params: Mapping[str, np.ndarray], select: Select = None) -> None:
    """Copy the module's tensors into a model's arrays, which is what a callback of your own does last: the opposite of load().
    Raises Decline if the arrays are not the module's tensors."""
    own = _all(module, select)
    _check(own, params)
    for name, tensor in own.items():
        params[name][...] = _array(tensor).reshape(params[name].shape)


def _coarse(own: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies of the tensors whose type rounds float32: what they lost when they were loaded is not a change by training."""
    return {name: tensor.detach().clone() for name, tensor in own.items() if tensor.dtype in (torch.float16, torch.bfloat16)}


def _endless(loader: Iterable[Any]) -> Iterator[Any]:
    """The batches of the loader, without end: after its last batch the loader begins again, and may shuffle anew."""
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            raise ValueError("the loader has no batches")
        if iter(loader) is loader:
            raise ValueError("the loader has ended, and as a generator can't begin again: give a list, a DataLoader or another thing "
                             "that can, or a function of the round that returns its batches")


def _source(loader: Loader) -> Callable[[Round], tuple[Iterator[Any], int | None]]:
    """A function that returns a round's batches, and the number of samples that the device has; None: that is unknown."""
    if callable(loader) and not isinstance(loader, Iterable):
        make = loader

        def anew(told: Round) -> tuple[Iterator[Any], int | None]:
            given = make(told)
            return _endless(given), _samples(given)

        return anew
    endless, samples = _endless(loader), _samples(loader)
    return lambda told: (endless, samples)


def _samples(loader: Any) -> int | None:
    """The number of samples in this device's data; for a loader without a data set, the number of batches."""
    for sized in (getattr(loader, "dataset", loader), loader):
        try:
            return len(sized)
        except TypeError:
            pass
    return None


def _examples(batch: Any) -> int:
    """How many examples a batch has: the first dimension of its first tensor."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() else 1
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else ()
    return max((_examples(part) for part in parts), default=1)


def _moved(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors on the device."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: _moved(part, device) for key, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_moved(part, device) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_moved(part, device) for part in batch)
    return batch


def _step(loss: Callable[..., torch.Tensor] | None) -> Step:
    """The step of trainer(loss=...)."""
    def step(module: torch.nn.Module, batch: Any) -> torch.Tensor:
        if isinstance(batch, (list, tuple)) and len(batch) > 1 and loss is not None:
            return loss(module(*batch[:-1]), batch[-1])
        if isinstance(batch, Mapping) and loss is None:
            said = module(**batch)
            value = said.get("loss") if isinstance(said, Mapping) else getattr(said, "loss", None)
            if value is not None:
                return value  # type: ignore[no-any-return]
            raise TypeError("the module gives no loss for a batch of names: has the batch its labels? Else say step=, a function "
                            "(module, batch) -> loss")
        kind = f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, (list, tuple)) else "")
        raise TypeError(f"the batch is {kind}, " + ("and there is a loss" if loss is not None else "and there is no loss") +
                        ": with a loss a batch is (x, y) or (x1, x2, y); without one it is a dict, and the module gives the loss. For "
                        "others say step=, a function (module, batch) -> loss")

    return step


class _Optimizer(Protocol):
    """What a training step needs: a task's optimizer, or PyTorch's."""

    def zero_grad(self) -> None: ...
    def step(self) -> Any: ...


def trainer(module: torch.nn.Module, loader: Loader, loss: Callable[..., torch.Tensor] | None = None,
            optimizer: Callable[..., torch.optim.Optimizer] | None = None, *, step: Step | None = None, select: Select = None,
            samples: int | None = None, state: str | os.PathLike[str] | None = None) -> Train:
    """A callback for Client.run. Each round it loads the model into the module, takes the task's local_steps batches
    of the loader, and returns the module's tensors.

    loader     yields batches: a DataLoader, a list, an IterableDataset, a generator; a round continues where the last one ended.
               Or a function that gets the Round and returns that round's batches: then a device that was killed takes the same
               batches again
    loss       loss(module(x), y), a tensor of one value, for batches (x, y); loss(module(x1, x2), y) for (x1, x2, y). None: a batch
               is a dict, and the loss is module(**batch).loss
    optimizer  optimizer(parameters, lr=...) in place of the task's, called anew each round with the task's learning_rate; it
               remembers nothing. None: the task's, with all its numbers. A task whose optimizer can't be had is declined
    step       step(module, batch) -> loss, in place of `loss`, for all other batches and modules. It does not call backward()
    samples    how many samples this device has. None: the length of the loader's data set, or of the loader; where neither has
               one, the examples of the round
    state      a folder for what the task's optimizer remembers, such as the client's; None: it forgets when the process ends
    """
    if loss is not None and step is not None:
        raise ValueError("say loss or step, not both: a step returns the loss")
    source, memory = _source(loader), Memory(state)
    value_of = step or _step(loss)
    first: dict[str, np.ndarray] = {}  # private tensors as the module had them before its first task

    def train(params: dict[str, np.ndarray], told: Round) -> tuple[None, int, dict[str, float]]:
        trained = [one for one in module.parameters() if one.requires_grad]
        numbers = parse(told.optimizer, told.learning_rate) if optimizer is None else None
        begun = _all(module, select)
        _keep_first(begun, told, first)
        _begin_private(told, first, params)
        _load(begun, params)
        own = None if numbers is None else Optimizer(trained, numbers)
        remembers = own is not None and own.remembers and not told.personal  # an own copy's optimizer begins anew
        before = memory.before(told) if remembers else None
        if own is not None and before is not None:
            own.restore(before)
        rounded = _coarse(begun)
        batches, known = source(told)
        steps: _Optimizer = own if own is not None else optimizer(trained, lr=told.learning_rate)  # type: ignore[misc]
        known = samples or known
        loss_sum, seen = _steps(module, batches, value_of, steps, told, count=not known)
        _store_change(_all(module, select), rounded, params)
        if own is not None and remembers:
            memory.keep(told, before, own.state())
        return None, known or seen or 1, {"loss": loss_sum / told.local_steps} if told.local_steps > 0 else {}

    return train


def _keep_first(own: Mapping[str, torch.Tensor], told: Round, first: dict[str, np.ndarray]) -> None:
    """Private layers begin as the module has them, since nobody sends their first values."""
    for name in told.private:
        if name in own and name not in first:
            first[name] = _array(own[name]).copy()


def _begin_private(told: Round, first: Mapping[str, np.ndarray], params: Mapping[str, np.ndarray]) -> None:
    for name in told.private if told.own_is_new else ():
        if name in first and name in params and first[name].size == params[name].size:
            params[name][...] = first[name].reshape(params[name].shape)


def _steps(module: torch.nn.Module, batches: Iterator[Any], value_of: Step, optimizer: _Optimizer, told: Round, *,
           count: bool) -> tuple[float, int]:
    """Train a round's steps. Returns the sum of their losses and, to `count`, how many examples they had."""
    device = next(module.parameters()).device
    module.train()
    total, seen = 0.0, 0
    for done in range(told.local_steps):
        batch = _moved(next(batches), device)
        optimizer.zero_grad()
        value = value_of(module, batch)
        value.backward()  # type: ignore[no-untyped-call,unused-ignore]
        optimizer.step()
        total, seen = total + float(value.detach()), seen + (_examples(batch) if count else 0)
        told.progress(done + 1, told.local_steps)
        told.wanted()
    return total, seen


def _store_change(own: Mapping[str, torch.Tensor], rounded: Mapping[str, torch.Tensor], params: Mapping[str, np.ndarray]) -> None:
    """Put what was trained into the arrays. To those that the module rounded, add what the training changed: else an update
    would undo the digits that the module's type has not."""
    for name, tensor in own.items():
        if name in rounded:
            params[name][...] += (_array(tensor) - _array(rounded[name])).reshape(params[name].shape)
        else:
            params[name][...] = _array(tensor).reshape(params[name].shape)


def _check(own: Mapping[str, torch.Tensor], params: Mapping[str, np.ndarray]) -> None:
    """Decline a task whose tensors are not the module's."""
    for name in sorted(own.keys() | params.keys()):
        if name not in own:
            raise Decline(f"the task has a tensor {name}, this device's module has not, or does not train it: change the task's model, the "
                          "module, or what select= chooses")
        if name not in params:
            raise Decline(f"this device's module has a tensor {name}, the task has not: change the task's model, the module, or what select= "
                          "chooses")
        if (tuple(own[name].shape) or (1,)) != params[name].shape:
            raise Decline(f"{name} has the shape {params[name].shape} in the task, and {tuple(own[name].shape)} here")


def run(client: Client, module: torch.nn.Module, loader: Loader, loss: Callable[..., torch.Tensor] | None = None,
        optimizer: Callable[..., torch.optim.Optimizer] | None = None, on_event: Callable[[dict[str, Any]], None] | None = None, *,
        step: Step | None = None, select: Select = None, samples: int | None = None) -> None:
    """Take part with this module until the task is finished: Client.run with trainer(...), whose state is in the client's folder."""
    client.run(trainer(module, loader, loss, optimizer, step=step, select=select, samples=samples, state=client.folder), on_event)
