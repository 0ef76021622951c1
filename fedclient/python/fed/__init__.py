"""Federated learning: codecs, and devices with a trainer in Python. The work is done by the project's C libraries."""
# SPDX-License-Identifier: Apache-2.0
from . import codecs
from ._native import Error
from .client import Client, Decline, Round

__all__ = ["Client", "Decline", "Error", "Round", "codecs"]
