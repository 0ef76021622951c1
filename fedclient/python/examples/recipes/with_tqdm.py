"""tqdm: a bar for a task's rounds, and one for the steps of a device's training.

    pip install tqdm
    python with_tqdm.py
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import tempfile
from typing import Any

import numpy as np
from tqdm import tqdm

import fed

ROUNDS, STEPS = 5, 10


def train(params: dict[str, np.ndarray], told: fed.Round) -> tuple[None, int, dict[str, float]]:
    """Move the values towards 1, as a stand-in for a training of yours."""
    for step in range(told.local_steps):
        params["values"] += told.learning_rate * (1 - params["values"])
        told.progress(step + 1, told.local_steps)
    return None, 10, {"loss": float(((params["values"] - 1) ** 2).mean())}


def main() -> None:
    with tempfile.TemporaryDirectory() as name, tqdm(desc="rounds", total=ROUNDS) as rounds, tqdm(desc="steps", total=STEPS) as steps:
        def progress(told: fed.Round, done: int, total: int) -> None:
            steps.n, steps.total = done, total
            steps.refresh()

        def event(done: dict[str, Any]) -> None:
            if done["outcome"] == "counted":
                rounds.set_postfix(loss=f"{done['loss']:.4f}")
                rounds.update()

        folder = pathlib.Path(name)
        with fed.Coordinator(folder / "coordinator") as coordinator:
            coordinator.submit({"name": "bars", "model": "vector 10", "rounds": ROUNDS, "cohort": 1, "local_steps": STEPS, "learning_rate": 0.05,
                                "codec_up": "float32"})
            with fed.Client(coordinator.url, coordinator.ca, folder / "device", coordinator.token(), progress=progress) as client:
                client.run(train, event)


if __name__ == "__main__":
    main()
