"""MLflow: write a task's rounds as metrics, and its keys as parameters.

    pip install mlflow-skinny sqlalchemy alembic
    python to_mlflow.py sqlite:///mlflow.db

follow() is all that a program of your own needs.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import tempfile
import threading
import time
from typing import Any

import mlflow
import numpy as np

import fed

TASK: dict[str, Any] = {"name": "metrics", "model": "vector 10", "rounds": 5, "cohort": 1, "learning_rate": 0.5, "codec_up": "float32"}


def follow(coordinator: fed.Coordinator, task: int) -> None:
    """Log each round's numbers once it is committed, until the task is finished."""
    written, over = 0, False
    while not over:
        over = all(one["state"] == "finished" for one in coordinator.tasks() if one["id"] == task)
        rounds = list(coordinator.rounds(task))
        for row in rounds[written:]:
            told = {name: row[name] for name in ("loss", "accuracy", "test_loss", "update_bytes", "delta_bytes") if row[name] is not None}
            mlflow.log_metrics(told, step=row["round"])
        written = len(rounds)
        time.sleep(0 if over else 0.2)


def train(params: dict[str, np.ndarray], told: fed.Round) -> tuple[None, int, dict[str, float]]:
    """Move the values towards 1, as a stand-in for a training of yours."""
    values = params["values"]
    loss = float(((values - 1) ** 2).mean())
    values += told.learning_rate * (1 - values)
    return None, 10, {"loss": loss}


def main(where: str) -> None:
    mlflow.set_tracking_uri(where)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with fed.Coordinator(folder / "coordinator") as coordinator, mlflow.start_run() as run:
            task = coordinator.submit(TASK)
            mlflow.log_params(TASK)
            with fed.Client(coordinator.url, coordinator.ca, folder / "device", coordinator.token()) as client:
                device = threading.Thread(target=client.run, args=(train,))
                device.start()
                follow(coordinator, task)
                device.join()
            losses = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    print(f"MLflow has {len(losses)} losses, the last is {losses[-1].value:.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
