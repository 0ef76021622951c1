"""A small convolutional net, pictures for it, and a device that trains it: what test_kills.py and its processes share."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import time

import numpy as np
import torch

import fed
import fed.torch

BATCH = 8


def net():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(4, 8, 3, stride=2), torch.nn.ReLU(),
                               torch.nn.Flatten(), torch.nn.Linear(8 * 5 * 5, 10))


def pictures(number, count):
    """Return a device's own pictures and labels: of MNIST in the folder FED_MNIST_DIR, or noise if that is not set."""
    folder = os.environ.get("FED_MNIST_DIR")
    if folder is None:
        random = np.random.default_rng(number)
        return random.random((count, 1, 28, 28), np.float32), random.integers(0, 10, count)
    images, labels = (np.frombuffer(pathlib.Path(folder, name).read_bytes(), np.uint8)[head:]
                      for name, head in (("train-images-idx3-ubyte", 16), ("train-labels-idx1-ubyte", 8)))
    own = slice(number * count, (number + 1) * count)
    return images.reshape(-1, 1, 28, 28)[own].astype(np.float32) / 255, labels[own].astype(np.int64)


def batches(data, number, round_number, steps):
    """Yield the batches of a device's round, the same ones at each call."""
    random = np.random.default_rng([number, round_number])
    for _ in range(steps):
        chosen = random.integers(0, len(data[1]), BATCH)
        yield torch.from_numpy(data[0][chosen]), torch.from_numpy(data[1][chosen])


class Loader:
    """A loader with what fed.torch needs: batches, and the size of the data."""

    def __init__(self, data, number, told):
        self.dataset, self.given = data[1], batches(data, number, told.number, told.local_steps)

    def __iter__(self):
        for batch in self.given:
            time.sleep(0.02)  # so that some kills come in a training
            yield batch


def device(url, ca, folder, token, number, count):
    """Be a device, in a process of its own, which may be killed."""
    torch.set_num_threads(1)
    data = pictures(number, count)
    with fed.Client(url, ca, folder, token) as client:
        fed.torch.run(client, net(), lambda told: Loader(data, number, told), torch.nn.functional.cross_entropy)
