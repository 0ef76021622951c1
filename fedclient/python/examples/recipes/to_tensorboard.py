"""TensorBoard: write a task's rounds as scalars while it runs.

    pip install torch tensorboard
    python to_tensorboard.py LOGS && tensorboard --logdir LOGS

follow() is all that a program of your own needs.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import tempfile
import threading
import time

import numpy as np
from torch.utils.tensorboard import SummaryWriter

import fed

ROUNDS = 5


def follow(coordinator: fed.Coordinator, task: int, writer: SummaryWriter) -> None:
    """Write each round's numbers once it is committed, until the task is finished."""
    written, over = 0, False
    while not over:
        over = all(one["state"] == "finished" for one in coordinator.tasks() if one["id"] == task)
        rounds = list(coordinator.rounds(task))
        for row in rounds[written:]:
            for name in ("loss", "accuracy", "test_loss", "update_bytes", "delta_bytes"):
                if row[name] is not None:  # a round without a loss has no figure
                    writer.add_scalar(name, row[name], row["round"], row["committed_ms"] / 1000)
        written = len(rounds)
        time.sleep(0 if over else 0.2)
    writer.flush()


def train(params: dict[str, np.ndarray], told: fed.Round) -> tuple[None, int, dict[str, float]]:
    """Move the values towards 1, as a stand-in for a training of yours."""
    values = params["values"]
    loss = float(((values - 1) ** 2).mean())
    values += told.learning_rate * (1 - values)
    return None, 10, {"loss": loss}


def main(logs: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with fed.Coordinator(folder / "coordinator") as coordinator:
            task = coordinator.submit({"name": "scalars", "model": "vector 10", "rounds": ROUNDS, "cohort": 1, "learning_rate": 0.5, "codec_up": "float32"})
            with SummaryWriter(logs) as writer, fed.Client(coordinator.url, coordinator.ca, folder / "device", coordinator.token()) as client:
                device = threading.Thread(target=client.run, args=(train,))
                device.start()
                follow(coordinator, task, writer)
                device.join()
    print(f"{ROUNDS} rounds are in {logs}")


if __name__ == "__main__":
    main(sys.argv[1])
