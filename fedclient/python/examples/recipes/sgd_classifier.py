"""scikit-learn: two devices train an SGDClassifier on digits.

    pip install scikit-learn
    python sgd_classifier.py

The classifier's coefficients are the task's model: two arrays, which the callback puts into the classifier and takes out again.
"""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import pathlib
import tempfile
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

import fed

DEVICES, ROUNDS = 2, 10
MODEL = "tensors coef 10x64 | intercept 10"


def put(params: dict[str, np.ndarray], rate: float) -> Any:
    """Return a classifier that has the model's coefficients. They are float64, as scikit-learn wants them."""
    classifier = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=rate)
    classifier.classes_ = np.arange(10)
    classifier.coef_, classifier.intercept_ = params["coef"].astype(np.float64), params["intercept"].astype(np.float64)
    return classifier


def device(number: int, coordinator: fed.Coordinator, folder: pathlib.Path, token: str) -> None:
    x, y = load_digits(return_X_y=True)
    x, y = x[number:1500:DEVICES] / 16, y[number:1500:DEVICES]

    def train(params: dict[str, np.ndarray], told: fed.Round) -> tuple[dict[str, Any], int, dict[str, float]]:
        if told.optimizer != "sgd":
            raise fed.Decline(f"SGDClassifier trains with sgd, not with {told.optimizer}")
        classifier = put(params, told.learning_rate)
        random = np.random.default_rng([number, told.number])
        for step in range(told.local_steps):
            chosen = random.integers(0, len(y), told.batch)
            classifier.partial_fit(x[chosen], y[chosen])
            told.progress(step + 1, told.local_steps)
        said = classifier.predict_proba(x)[np.arange(len(y)), y]
        return {"coef": classifier.coef_, "intercept": classifier.intercept_}, len(y), {"loss": float(-np.log(said + 1e-9).mean())}

    with fed.Client(coordinator.url, coordinator.ca, folder / f"device{number}", token) as client:
        client.run(train)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with fed.Coordinator(folder / "coordinator") as coordinator:
            task = coordinator.submit({"name": "digits", "model": MODEL, "rounds": ROUNDS, "cohort": DEVICES, "minimum": DEVICES,
                                       "local_steps": 40, "batch": 16, "learning_rate": 0.2, "codec_up": "eden", "codec_down": "float32"})
            tokens = coordinator.tokens(DEVICES)
            with concurrent.futures.ThreadPoolExecutor(DEVICES) as pool:
                list(pool.map(lambda number: device(number, coordinator, folder, tokens[number]), range(DEVICES)))
            classifier = put(coordinator.model(task), 0.05)
    x, y = load_digits(return_X_y=True)
    print(f"accuracy {classifier.score(x[1500:] / 16, y[1500:]):.1%} on pictures that no device has")


if __name__ == "__main__":
    main()
