"""Data for many clients: who holds which samples.

    parts = fed.data.partition(labels, clients=100, dirichlet=0.5)      # a list: each client's indices
    shards = [(x[part], labels[part]) for part in parts]
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import operator
from typing import Any, Sequence

import numpy as np

from . import _native
from ._native import Error

__all__ = ["partition"]

_CLASSES = 256  # FEDTRAIN_CLASSES


def partition(labels: Any = None, *, clients: int, dirichlet: float | None = None, classes_per_client: int | None = None,
              quantity: float | None = None, groups: Any = None, sizes: Sequence[int] | None = None, samples: int | None = None,
              seed: int = 1) -> list[np.ndarray]:
    """Split samples among clients. Returns a list: for each client the indices of its samples, uint32.

    labels              the class of each sample, whole numbers from 0 to 255; None: `samples` says how many there are
    dirichlet           alpha: few classes a client where it is small, as the split dirichlet:alpha=... of fedsim
    classes_per_client  k: that many classes a client, as classes:k=...
    quantity            alpha: few clients have most samples where it is small, as quantity:alpha=...
    groups              the group of each sample, such as its author: any values. Whole groups are dealt out, so clients have
                        very different numbers of samples, as with group
    sizes               how many samples each client gets; samples that are left belong to nobody
    seed                of the split

    With none of these, samples are shuffled and dealt out, as with iid. The same labels, clients and seed give the shards
    that fedsim's clients have. Only `sizes` is none of fedsim's splits. Raises Error: the samples can't be split so.
    """
    ways = {"dirichlet": dirichlet, "classes_per_client": classes_per_client, "quantity": quantity, "groups": groups, "sizes": sizes}
    chosen = [name for name, value in ways.items() if value is not None]
    if len(chosen) > 1:
        raise Error(f"{' and '.join(chosen)} are both given: choose one of them")
    clients = operator.index(clients)
    label = None if labels is None else _whole(labels)
    count = _count(label, groups, samples)
    if sizes is not None:
        return _by_sizes(count, clients, sizes, seed)
    if groups is not None:
        kinds, of = np.unique(np.asarray(groups), return_inverse=True)
        return _split("group", None, np.ascontiguousarray(of.reshape(-1), np.uint32), count, len(kinds), clients, seed)
    spec = (f"dirichlet:alpha={float(dirichlet)!r}" if dirichlet is not None else
            f"classes:k={operator.index(classes_per_client)}" if classes_per_client is not None else
            f"quantity:alpha={float(quantity)!r}" if quantity is not None else "iid")
    classes = int(label.max()) + 1 if label is not None and count > 0 else 0
    return _split(spec, label, None, count, classes, clients, seed)


def _whole(labels: Any) -> np.ndarray:
    """The labels as uint8. Raises Error: they are not classes from 0 to 255."""
    given = np.asarray(labels).reshape(-1)
    if given.dtype.kind not in "iub" and not (given.dtype.kind == "f" and bool((given == np.floor(given)).all())):
        raise Error(f"labels are {given.dtype}; they must be whole numbers, a class for each sample")
    if given.size and (given.min() < 0 or given.max() >= _CLASSES):
        raise Error(f"labels go from {given.min()} to {given.max()}; they must be from 0 to {_CLASSES - 1}: number the classes anew, "
                    "as by numpy.unique(labels, return_inverse=True)")
    return np.ascontiguousarray(given, np.uint8)


def _count(label: np.ndarray | None, groups: Any, samples: int | None) -> int:
    counts = {"labels": None if label is None else label.size, "groups": None if groups is None else np.asarray(groups).size,
              "samples": None if samples is None else operator.index(samples)}
    known = {name: value for name, value in counts.items() if value is not None}
    if not known:
        raise Error("how many samples are there? Give labels, or samples=N")
    if len(set(known.values())) > 1:
        raise Error(f"{' and '.join(f'{name} has {value:,}' for name, value in known.items())}: give one for each sample")
    return next(iter(known.values()))


def _split(spec: str, label: np.ndarray | None, group: np.ndarray | None, count: int, kinds: int, clients: int,
           seed: int) -> list[np.ndarray]:
    if not 0 <= clients < 1 << 31 or count >= 1 << 32:
        raise Error(f"{clients:,} clients can't share {count:,} samples: there are limits of 2^31 clients and 2^32 samples")
    index, start = np.empty(count, np.uint32), np.empty(clients + 1, np.uint64)
    _native.call("partition", spec.encode(), None if label is None else label.ctypes.data, None if group is None else group.ctypes.data,
                 count, kinds, clients, operator.index(seed), index.ctypes.data, start.ctypes.data)
    return [index[int(a):int(b)] for a, b in zip(start[:-1], start[1:])]


def _by_sizes(count: int, clients: int, sizes: Sequence[int], seed: int) -> list[np.ndarray]:
    ends = np.cumsum([operator.index(size) for size in sizes])
    if len(sizes) != clients:
        raise Error(f"sizes has {len(sizes):,} numbers for {clients:,} clients: give one for each")
    if min(sizes, default=0) < 0 or (len(ends) and ends[-1] > count):
        raise Error(f"sizes add up to {int(ends[-1]):,}, and there are {count:,} samples: no size is below 0, and the sum is {count:,} at most")
    if clients == 0:
        raise Error("there are no clients to split the data among: give at least 1")
    deck = _split("iid", None, None, count, 0, 1, seed)[0] if count else np.empty(0, np.uint32)
    return [deck[end - size:end] for size, end in zip(sizes, ends)]
