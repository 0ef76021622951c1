"""The codecs: float32 arrays to few bytes and back.

    residual = np.zeros_like(gradient)
    message = fed.codecs.encode("sbc:p=0.01", gradient, residual=residual)
    again = fed.codecs.decode(message)

A message is an envelope of one tensor, and names the codec that made it. Specs and formats are those of the C library
(docs/codec-formats.md). Arrays are NumPy's, or PyTorch's on the processor; their values are not copied.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from . import _native

__all__ = ["decode", "decode_add", "encode", "names"]


def names() -> list[str]:
    """The names of all codecs."""
    found: list[str] = []
    while (name := _native.library.fedpy_codec_name(len(found))) is not None:
        found.append(name.decode())
    return found


def _values(what: str, x: Any, writable: bool = False) -> np.ndarray:
    """x as a NumPy array of float32 with the same memory. Raises TypeError or ValueError if that is not possible."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        if x.device.type != "cpu":
            raise TypeError(f"{what} is on {x.device}: move it to the processor with .cpu()")
        x = x.detach().numpy()
    if not isinstance(x, np.ndarray) or x.dtype != np.float32:
        kind = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
        raise TypeError(f"{what} is {kind}; it must be an array or a tensor of float32")
    if not x.flags.c_contiguous or (writable and not x.flags.writeable):
        raise ValueError(f"{what} must be contiguous" + (" and writable" if writable else ""))
    return x


def encode(spec: str, x: Any, residual: Any = None) -> bytes:
    """Compress an array.

    spec      a codec with its parameters: "sbc:p=0.01", "3lc:s=1.75+runs", "float32"
    x         float32, of any shape
    residual  float32 of the same shape, zeros at first. It is added to x, and then holds what the message leaves out.
              None: what the message leaves out is lost

    Raises Error: an unknown codec, a NaN or an infinity in x.
    """
    x = _values("x", x)
    if residual is not None:
        residual = _values("residual", residual, writable=True)
        if residual.shape != x.shape:
            raise ValueError(f"residual has the shape {residual.shape}, x has {x.shape}")
    message, length = ctypes.c_void_p(), ctypes.c_size_t()
    _native.call("encode", spec.encode(), x.ctypes.data, x.size,
                 None if residual is None else residual.ctypes.data, ctypes.byref(message), ctypes.byref(length))
    try:
        return ctypes.string_at(message, length.value)
    finally:
        _native.library.fedpy_free(message)


def decode(message: bytes, shape: tuple[int, ...] | None = None, max_values: int = 1 << 28) -> np.ndarray:
    """The values of a message: float32 of the given shape, or flat.

    max_values  a few bytes can stand for billions of zeros, so a message of more values is refused

    Raises Error: the message is damaged, or too long. ValueError: it has not as many values as the shape.
    """
    count = ctypes.c_size_t()
    message = bytes(message)
    _native.call("count", message, len(message), ctypes.byref(count))
    if shape is not None and int(np.prod(shape, dtype=np.int64)) != count.value:
        raise ValueError(f"the message has {count.value} values, which do not fill the shape {tuple(shape)}")
    if count.value > max_values:
        raise _native.Error(f"the message has {count.value} values, more than max_values={max_values} allows", _native.ERANGE)
    y = np.empty(count.value, np.float32)
    _native.call("decode", message, len(message), y.ctypes.data, y.size)
    return y if shape is None else y.reshape(shape)


def decode_add(message: bytes, y: Any, weight: float = 1.0) -> None:
    """Add weight * the values of a message to y. y is float32 with as many values, of any shape. An error leaves y as it
    was."""
    y = _values("y", y, writable=True)
    message = bytes(message)
    _native.call("add", message, len(message), weight, y.ctypes.data, y.size)
