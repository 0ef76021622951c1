"""Our optimizers' spec strings as PyTorch's classes."""
# SPDX-License-Identifier: Apache-2.0
import math

import torch


def numbers(text):
    return {key: float(value) for key, value in (pair.split("=") for pair in text.split(",") if pair)}


class Optimizer:
    """PyTorch's optimizer for a spec: momentum, sgd, adam or adamw, with or without "+cosine" and "+clip:norm"."""

    def __init__(self, spec, net):
        (rule, of), *more = [(name, numbers(rest)) for name, _, rest in (part.partition(":") for part in spec.split("+"))]
        parts = dict(more)
        self.net, self.clip = net, parts.get("clip", {}).get("norm")
        lr, decay = of.get("lr", 1e-3), of.get("decay", 0.01 if rule == "adamw" else 0.0)
        if rule in ("adam", "adamw"):
            make = torch.optim.Adam if rule == "adam" else torch.optim.AdamW
            self.rule = make(net.parameters(), lr=lr, weight_decay=decay)
        else:
            self.rule = torch.optim.SGD(net.parameters(), lr=lr, weight_decay=decay, nesterov=of.get("nesterov", 0) > 0,
                                        momentum=of.get("m", 0.9) if rule == "momentum" else 0)
        steps = parts["cosine"]["steps"] if "cosine" in parts else 0
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.rule, lambda t: (1 + math.cos(math.pi * min(t / steps, 1))) / 2 if steps else 1.0)

    def step(self, loss):
        self.rule.zero_grad()
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.rule.step()
        self.schedule.step()
