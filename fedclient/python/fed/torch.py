"""PyTorch: a module as a task's model, a module as a device's trainer, and gradients compressed between processes.

    print(fed.torch.layout(module))                     # for the task's "model"
    fed.torch.save(module, "first.safetensors")         # for the task's "initial"

    with fed.Client(server, "ca.pem", "state", token) as client:
        fed.torch.run(client, module, loader, torch.nn.functional.cross_entropy)

    ddp.register_comm_hook(fed.torch.Residuals(), fed.torch.hook("3lc:s=1.75"))
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import os
from typing import Any, Callable, Iterable, Iterator, Mapping

import numpy as np
import torch

from . import _tensors, codecs
from .client import Client, Decline, Round, Train

__all__ = ["Residuals", "hook", "layout", "load", "run", "save", "trainer"]


def _module_tensors(module: torch.nn.Module) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The module's parameters, and its running statistics, which are the buffers of floats; both by name."""
    parameters = {name: tensor.detach() for name, tensor in module.named_parameters()}
    kept = module.state_dict().keys()
    statistics = {name: tensor for name, tensor in module.named_buffers() if name in kept and tensor.is_floating_point()}
    for name, tensor in itertools.chain(parameters.items(), statistics.items()):
        if tensor.dtype != torch.float32:
            raise TypeError(f"{name} is {tensor.dtype}; only float32 can be sent: convert the module with .float()")
    return parameters, statistics


def layout(module: torch.nn.Module) -> str:
    """The module's tensors as the text of a task's "model": "tensors conv1.weight 20x1x5x5 | ...". Running statistics
    come last. A scalar is a tensor of one value. Raises ValueError: the text is too long for a task."""
    parameters, statistics = _module_tensors(module)
    return _tensors.layout({name: tensor.shape for name, tensor in parameters.items()},
                           {name: tensor.shape for name, tensor in statistics.items()})


def save(module: torch.nn.Module, path: str | os.PathLike[str]) -> None:
    """Write the module's tensors as safetensors, for a task's "initial"."""
    parameters, statistics = _module_tensors(module)
    _tensors.save({name: tensor.cpu().numpy() for name, tensor in (*parameters.items(), *statistics.items())}, path)


def load(module: torch.nn.Module, params: Mapping[str, np.ndarray]) -> None:
    """Copy a model's arrays into the module. They may be those of a callback, or of Coordinator.model(). Raises Decline if
    they are not the module's tensors."""
    parameters, statistics = _module_tensors(module)
    own = {**parameters, **statistics}
    _check(own, params)
    for name, tensor in own.items():
        tensor.copy_(torch.from_numpy(params[name]).reshape(tensor.shape))


def _endless(loader: Iterable[Any]) -> Iterator[Any]:
    """The batches of the loader, without end: after its last batch the loader begins again, and may shuffle anew."""
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            raise ValueError("the loader has no batches")


def _source(loader: Iterable[Any] | Callable[[Round], Iterable[Any]]) -> Callable[[Round], tuple[Iterator[Any], int]]:
    """A function that returns a round's batches, and the number of samples that the device has."""
    if callable(loader):
        make = loader

        def anew(told: Round) -> tuple[Iterator[Any], int]:
            given = make(told)
            return _endless(given), _samples(given)

        return anew
    endless, samples = _endless(loader), _samples(loader)
    return lambda told: (endless, samples)


def _samples(loader: Any) -> int:
    """The number of samples in this device's data; for a loader without a data set, the number of batches."""
    return len(getattr(loader, "dataset", loader))


def trainer(module: torch.nn.Module, loader: Iterable[Any] | Callable[[Round], Iterable[Any]], loss: Callable[..., torch.Tensor],
            optimizer: Callable[..., torch.optim.Optimizer] | None = None) -> Train:
    """A callback for Client.run. Each round it loads the model into the module, takes the task's local_steps batches
    (x, y) of the loader, and returns the module's tensors.

    loader     batches; a round continues where the last one ended. Or a function that gets the Round and returns that
               round's batches: then a device that was killed takes the same batches again
    loss       loss(module(x), y), a tensor of one value
    optimizer  optimizer(parameters, lr=...), called anew each round with the task's learning_rate; torch.optim.SGD if None.
               Moments are not kept from one round to the next
    """
    source = _source(loader)
    device = next(module.parameters()).device

    def train(params: dict[str, np.ndarray], told: Round) -> tuple[None, int, dict[str, float]]:
        load(module, params)
        batches, samples = source(told)
        steps = (optimizer or torch.optim.SGD)(module.parameters(), lr=told.learning_rate)
        module.train()
        total = 0.0
        for step in range(told.local_steps):
            x, y = next(batches)
            steps.zero_grad()
            value = loss(module(x.to(device)), y.to(device))
            value.backward()  # type: ignore[no-untyped-call,unused-ignore]
            steps.step()
            total += float(value.detach())
            told.progress(step + 1, told.local_steps)
            told.wanted()
        parameters, statistics = _module_tensors(module)
        for name, tensor in (*parameters.items(), *statistics.items()):
            params[name][...] = tensor.cpu().numpy().reshape(params[name].shape)
        return None, samples, {"loss": total / told.local_steps}

    return train


def _check(own: Mapping[str, torch.Tensor], params: Mapping[str, np.ndarray]) -> None:
    """Decline a task whose tensors are not the module's."""
    for name in sorted(own.keys() | params.keys()):
        if name not in own:
            raise Decline(f"the task has a tensor {name}, this device's module has not: change the task's model or the module")
        if name not in params:
            raise Decline(f"this device's module has a tensor {name}, the task has not: change the task's model or the module")
        if (tuple(own[name].shape) or (1,)) != params[name].shape:
            raise Decline(f"{name} has the shape {params[name].shape} in the task, and {tuple(own[name].shape)} here")


def run(client: Client, module: torch.nn.Module, loader: Iterable[Any] | Callable[[Round], Iterable[Any]],
        loss: Callable[..., torch.Tensor], optimizer: Callable[..., torch.optim.Optimizer] | None = None,
        on_event: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Take part with this module until the task is finished: Client.run with trainer(...)."""
    client.run(trainer(module, loader, loss, optimizer), on_event)


class Residuals:
    """The state of a hook: the residual of this process for each of DDP's buckets. DDP makes other buckets after the
    first step; a bucket of another size begins with zeros."""

    def __init__(self) -> None:
        self.of: dict[int, torch.Tensor] = {}

    def bucket(self, index: int, buffer: torch.Tensor) -> torch.Tensor:
        found = self.of.get(index)
        if found is None or found.numel() != buffer.numel():
            found = self.of[index] = torch.zeros(buffer.numel())
        return found


def _all_gather_bytes(message: bytes) -> list[bytes]:
    """Every process's message, in the order of ranks."""
    world = torch.distributed.get_world_size()
    own = torch.frombuffer(bytearray(message), dtype=torch.uint8)
    length = torch.tensor([own.numel()])
    lengths = [torch.zeros_like(length) for _ in range(world)]
    torch.distributed.all_gather(lengths, length)
    room = int(max(lengths))
    padded = torch.zeros(room, dtype=torch.uint8)
    padded[:own.numel()] = own
    parts = [torch.zeros_like(padded) for _ in range(world)]
    torch.distributed.all_gather(parts, padded)
    return [bytes(part[:int(n)].numpy()) for part, n in zip(parts, lengths)]


def hook(spec: str) -> Callable[[Residuals, Any], torch.futures.Future[torch.Tensor]]:
    """A communication hook for DistributedDataParallel, on gloo: gradients are sent through a codec with error feedback.

        ddp.register_comm_hook(fed.torch.Residuals(), fed.torch.hook("3lc:s=1.75"))

    Each process gathers all messages and adds them in the order of ranks, so all get the same bits. The residual is in
    the state; each process has its own. Raises fed.Error: an unknown codec.
    """
    codecs.encode(spec, np.zeros(1, np.float32))  # an unknown codec is refused here, not in the first backward pass

    # The function has no annotations: PyTorch compares annotations with its own types, and refuses
    # strings.
    def exchange(state, bucket):  # type: ignore[no-untyped-def]
        buffer = bucket.buffer()
        flat = buffer.detach().cpu().contiguous()
        residual, total = state.bucket(bucket.index(), flat), torch.zeros_like(flat)
        sizes = [gradient.numel() for gradient in bucket.gradients()]  # encode tensor by tensor: a codec's scale is for one tensor
        parts = [codecs.encode(spec, x, residual=r) for x, r in zip(torch.split(flat, sizes), torch.split(residual, sizes))]
        packs = _all_gather_bytes(b"".join(len(part).to_bytes(4, "little") + part for part in parts))
        for pack in packs:
            at = 0
            for values in torch.split(total, sizes):
                end = at + 4 + int.from_bytes(pack[at:at + 4], "little")
                codecs.decode_add(pack[at + 4:end], values, 1.0 / len(packs))
                at = end
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(total.to(buffer.device))
        return done

    return exchange
