"""Federated learning: coordinators, devices with a trainer in Python, simulations, codecs. The work is done by the
project's C programs and libraries. fed.torch and fed.flower are imported by themselves."""
# SPDX-License-Identifier: Apache-2.0
from . import codecs, data, sim, strategy
from ._native import Error, version as __version__
from .client import Client, Decline, Round
from .coordinator import Coordinator
from .simulate import simulate

__all__ = ["__version__", "Client", "Coordinator", "Decline", "Error", "Round", "codecs", "data", "sim", "simulate", "strategy"]
