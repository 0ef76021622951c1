"""Caffe's LeNet as a PyTorch module, and MNIST for it. The benchmarks of the Python package use this file."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib

import numpy as np
import torch


def lenet():
    """Return the model lenet5-caffe, with 431,080 parameters."""
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 20, 5), torch.nn.MaxPool2d(2), torch.nn.Conv2d(20, 50, 5), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(800, 500), torch.nn.ReLU(), torch.nn.Linear(500, 10))


def mnist(part):
    """Return pictures (N, 1, 28, 28) with values from 0 to 1, and labels; part is "train" or "t10k"."""
    folder = pathlib.Path(os.environ.get("FED_MNIST_DIR", "build/data/mnist"))
    images = np.frombuffer((folder / f"{part}-images-idx3-ubyte").read_bytes(), np.uint8)[16:]
    labels = np.frombuffer((folder / f"{part}-labels-idx1-ubyte").read_bytes(), np.uint8)[8:]
    return torch.from_numpy(images.reshape(-1, 1, 28, 28) / np.float32(255)), torch.from_numpy(labels.astype(np.int64))


def batches(x, y, size, seed):
    """Yield batches without end, drawn with replacement."""
    random = np.random.default_rng(seed)
    while True:
        chosen = torch.from_numpy(random.integers(0, len(y), size))
        yield x[chosen], y[chosen]


def accuracy(module, x, y):
    with torch.no_grad():
        return float((module(x).argmax(1) == y).float().mean())
