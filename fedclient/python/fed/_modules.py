"""What of a PyTorch module travels, and under which names. fed.torch uses it."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Callable, Optional

import torch

Select = Optional[Callable[[str, torch.Tensor], bool]]

# parts that torch.compile and checkpoint_wrapper put into names
_WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module")


def _unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The module within DistributedDataParallel, DataParallel and torch.compile."""
    while True:
        if isinstance(module, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            module = module.module
        elif isinstance(inner := module._modules.get("_orig_mod"), torch.nn.Module):
            module = inner
        else:
            return module


def _namer(module: torch.nn.Module) -> Callable[[str], str]:
    """A function from PyTorch's name of a tensor to the name under which it travels. PEFT's names lose the adapter's name, as in
    PEFT's own files: a task's exported model is an adapter_model.safetensors."""
    adapters = getattr(module, "peft_config", {})
    left_out = {*_WRAPPERS, *(adapters if len(adapters) == 1 else ())}
    return lambda name: ".".join(part for part in name.split(".") if part not in left_out)


def tensors(module: torch.nn.Module, select: Select = None) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The module's parameters that travel, and its running statistics, which are the buffers of floats; both by name. A parameter
    with two names (tied weights) has the first. Raises TypeError: a tensor that float32 can't hold; ValueError: none travels."""
    module = _unwrapped(module)
    named = _namer(module)
    parameters = {named(name): tensor.detach() for name, tensor in module.named_parameters()
                  if (tensor.requires_grad if select is None else select(named(name), tensor))}
    buffers = dict(module.named_buffers())
    kept = module.state_dict().keys() if buffers else ()  # without those that are not saved
    statistics = {named(name): tensor for name, tensor in buffers.items()
                  if name in kept and tensor.is_floating_point() and (select is None or select(named(name), tensor))}
    for name, one in parameters.items():
        if not one.is_floating_point():
            raise TypeError(f"{name} is {one.dtype}, which can't travel as float32: leave it out by select=")
    if not parameters:
        raise ValueError("no parameter of the module requires a gradient, so nothing would travel: unfreeze some, or name them by select=")
    return parameters, statistics


def names(module: torch.nn.Module) -> dict[int, str]:
    """The names of a module's parameters, by id()."""
    named = _namer(_unwrapped(module))
    return {id(tensor): named(name) for name, tensor in _unwrapped(module).named_parameters()}
