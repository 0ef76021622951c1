"""The C library: its file, its functions, and its errors as exceptions."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import os
import pathlib

ERROR_BYTES = 400
RANK = 8
ERANGE, EBUSY, ECANCELED, EDECLINED = 13, 15, 16, 17  # fed/status.h


class Error(Exception):
    """A call of the library failed. The text is the library's message; `status` is its number (fed/status.h)."""

    def __init__(self, text: str, status: int = 0):
        super().__init__(text)
        self.status = status


TRAIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
MAY_TRAIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
ROOM = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
STOPPED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
EVENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_float, ctypes.c_char_p)


class Callbacks(ctypes.Structure):
    """fedpy_callbacks"""

    _fields_ = [("train", TRAIN), ("may_train", MAY_TRAIN), ("room", ROOM), ("stopped", STOPPED), ("log", LOG), ("user", ctypes.c_void_p)]


class Floor(ctypes.Structure):
    """fedpy_floor"""

    _fields_ = [("helper", ctypes.c_char_p), ("least_devices", ctypes.c_uint32), ("most_epsilon", ctypes.c_float), ("private_only", ctypes.c_int)]


_text, _size, _address, _float = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_float
_sizes, _words = ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_uint32)

# The functions of fedclient/python/fedpy.h. The last argument of a function with a status is the buffer for its message.
_FUNCTIONS = {
    "codec_name": (_text, [_size]),
    "encode": (ctypes.c_int, [_text, _address, _size, _address, ctypes.POINTER(_address), _sizes, _text]),
    "count": (ctypes.c_int, [_address, _size, _sizes, _text]),
    "add": (ctypes.c_int, [_address, _size, _float, _address, _size, _text]),
    "decode": (ctypes.c_int, [_address, _size, _address, _size, _text]),
    "free": (None, [_address]),
    "version": (_text, []),
    "optimizer": (ctypes.c_int, [_text, _float, ctypes.POINTER(ctypes.c_double), _text]),
    "partition": (ctypes.c_int, [_text, _address, _address, _size, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, _address, _address,
                                 _text]),
    "client_open": (ctypes.c_int, [_text, _text, _text, _text, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Floor), ctypes.POINTER(Callbacks),
                                   ctypes.POINTER(_address), _text]),
    "client_close": (None, [_address]),
    "client_stop": (None, [_address]),
    "client_token": (ctypes.c_int, [_address, _text, _text]),
    "client_step": (ctypes.c_int, [_address, _words, ctypes.POINTER(_float), _text]),
    "client_run": (ctypes.c_int, [_address, EVENT, _text]),
    "round_values": (_address, [_address, _sizes]),
    "round_number": (ctypes.c_uint32, [_address]),
    "round_version": (ctypes.c_uint32, [_address]),
    "round_text": (_text, [_address, _text]),
    "round_number_of": (ctypes.c_double, [_address, _text]),
    "round_stays": (ctypes.c_int, [_address, _size]),
    "round_tensor": (ctypes.c_int, [_address, _size, ctypes.POINTER(_text), _words, _sizes, _sizes]),
    "round_left_ms": (ctypes.c_uint32, [_address]),
    "round_wanted": (ctypes.c_int, [_address, _text]),
    "round_metric": (ctypes.c_int, [_address, _text, ctypes.c_double, _text]),
    "round_result": (None, [_address, ctypes.c_uint32, ctypes.POINTER(_float), ctypes.c_uint32]),
}


def _load() -> ctypes.CDLL:
    """The library beside this file, or the one that FED_PYTHON_LIBRARY names (a build tree's)."""
    path = os.environ.get("FED_PYTHON_LIBRARY") or str(pathlib.Path(__file__).with_name("libfedpy.so"))
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"the library of the package fed can't be loaded: {error}; install it by "
                          "`pip install ./fedclient/python`") from error
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, "fedpy_" + name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()
version: str = library.fedpy_version().decode()


def call(name: str, *arguments: object) -> None:
    """Call a function that returns a status. Other Python threads may run meanwhile. Raises Error."""
    error = ctypes.create_string_buffer(ERROR_BYTES)
    status = getattr(library, "fedpy_" + name)(*arguments, error)
    if status != 0:
        raise Error(error.value.decode("utf-8", "replace"), status)
