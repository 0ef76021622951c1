"""Opacus: two devices train with differentially private SGD, and tell what privacy they have spent.

    pip install torch opacus
    python with_opacus.py

Each device clips its samples' gradients and adds noise to them, so what it sends is private towards everybody, the coordinator too.
What it has spent is in its folder: a device that is started again must not forget it.
"""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import os
import pathlib
import tempfile
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine

import fed
import fed.torch

DEVICES, ROUNDS, DELTA, MOST = 2, 5, 1e-3, 8.0


def net() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def points(number: int) -> torch.utils.data.TensorDataset:
    x = torch.randn(400, 8, generator=torch.Generator().manual_seed(number))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > x[:, 1]).long())


def device(number: int, coordinator: fed.Coordinator, folder: pathlib.Path, token: str) -> None:
    module, state = net(), folder / f"device{number}"
    engine, spent = PrivacyEngine(), state / "spent.pt"
    loader = torch.utils.data.DataLoader(points(number), batch_size=40)
    # Opacus wraps the module: `module` itself goes on to hold the values, which fed.torch copies.
    private, optimizer, sampled = engine.make_private(module=module, optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
                                                      data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
    batches = (batch for _ in iter(int, 1) for batch in sampled)  # without end

    def train(params: dict[str, np.ndarray], told: fed.Round) -> tuple[None, int, dict[str, float]]:
        if told.optimizer != "sgd":
            raise fed.Decline(f"this device trains with sgd, not with {told.optimizer}")
        if spent.exists():
            engine.accountant.load_state_dict(torch.load(spent))
        if len(engine.accountant) > 0 and engine.get_epsilon(DELTA) > MOST:
            raise fed.Decline(f"this device has spent its epsilon of {MOST:g}")
        fed.torch.load(module, params)
        for group in optimizer.param_groups:
            group["lr"] = told.learning_rate
        total = 0.0
        for _ in range(told.local_steps):
            x, y = next(batches)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(private(x), y)
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            optimizer.step()
            total += loss.item()
        # Written before anything is sent: a power cut can count a round twice, never not at all.
        torch.save(engine.accountant.state_dict(), spent.with_suffix(".new"))
        os.replace(spent.with_suffix(".new"), spent)
        fed.torch.store(module, params)
        return None, 400, {"loss": total / told.local_steps, "epsilon": engine.get_epsilon(DELTA)}

    with fed.Client(coordinator.url, coordinator.ca, state, token) as client:
        client.run(train)


def main() -> None:
    warnings.simplefilter("ignore")  # Opacus warns that its random numbers are for experiments
    torch.set_num_threads(1)
    first = net()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fed.torch.save(first, folder / "first.safetensors")
        with fed.Coordinator(folder / "coordinator") as coordinator:
            task = coordinator.submit({"name": "private", "model": fed.torch.layout(first), "initial": folder / "first.safetensors",
                                       "rounds": ROUNDS, "cohort": DEVICES, "minimum": DEVICES, "local_steps": 10, "learning_rate": 0.5})
            tokens = coordinator.tokens(DEVICES)
            with concurrent.futures.ThreadPoolExecutor(DEVICES) as pool:
                list(pool.map(lambda number: device(number, coordinator, folder, tokens[number]), range(DEVICES)))
            last = list(coordinator.rounds(task))[-1]
            fed.torch.load(first, coordinator.model(task))
    x, y = points(9).tensors
    accuracy = (first(x).argmax(1) == y).float().mean().item()
    print(f"accuracy {accuracy:.1%}; each device spent epsilon {last['devices:epsilon']:.2f} at delta {DELTA:g}")


if __name__ == "__main__":
    main()
