"""Converts named tensors to the text of a task's model and to safetensors files, and back."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pathlib
from typing import Mapping, Sequence

import numpy as np

from ._native import Error

MOST = 65536  # tensors of a model
LONGEST_NAME = 127  # characters of a tensor's name


def layout(trained: Mapping[str, Sequence[int]], statistics: Mapping[str, Sequence[int]] = {}) -> str:
    """The text of a task's model, "tensors NAME 20x1x5x5 | statistics NAME 20", from shapes by name. A scalar is a tensor of
    one value. Raises ValueError if there are more than 65,536 tensors, or if a name has more than 127 characters."""

    def shape(sizes: Sequence[int]) -> str:
        return "x".join(str(size) for size in sizes) or "1"

    for name in (*trained, *statistics):
        if len(name) > LONGEST_NAME:
            raise ValueError(f"a tensor's name has at most {LONGEST_NAME} characters, and this one has {len(name)}: {name}")
    words = [f"{name} {shape(sizes)}" for name, sizes in trained.items()]
    words += [f"statistics {name} {shape(sizes)}" for name, sizes in statistics.items()]
    if len(words) > MOST:
        raise ValueError(f"a model has at most {MOST:,} tensors, and this one has {len(words):,}")
    return "tensors " + " | ".join(words)


def save(arrays: Mapping[str, np.ndarray], path: str | os.PathLike[str]) -> None:
    """Write arrays as float32 into a safetensors file, in their order."""
    head, parts, at = {}, [], 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array, "<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": list(array.shape) or [1], "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def load(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The float32 tensors of a safetensors file, in the file's order and shapes. Raises Error if a tensor has
    another type."""
    data = pathlib.Path(path).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    arrays: dict[str, np.ndarray] = {}
    for name, tensor in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        if tensor["dtype"] != "F32":
            raise Error(f"{os.fspath(path)}: {name} is {tensor['dtype']}; only tensors of type F32 can be read")
        begin, end = tensor["data_offsets"]
        arrays[name] = np.frombuffer(data[start + begin:start + end], "<f4").reshape(tensor["shape"]).copy()
    return arrays
