"""Count the CPU time of Flower's masks of SecAgg+, for results/private-sums.md: python_secagg.py [VALUES]

Its own functions make masks of 32-bit values and add them up. A device of SecAgg+ with 60 neighbours makes 61. A server that unmasks
360 of 400 devices makes 360 of those that came, and for each of the 40 that went one for each neighbour that came: 54 of 60.
Keys, shares of secrets and messages are not counted. Needs PyPI's flwr (1.42.0).
"""
# SPDX-License-Identifier: Apache-2.0
import sys
import time

import flwr
import numpy as np
from flwr.common.secure_aggregation.ndarrays_arithmetic import parameters_addition
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

NEIGHBOURS, CAME, WENT = 60, 360, 40
RANGE = 2**32


def masks(count, values):
    """Return the CPU seconds of so many masks, added up."""
    total = [np.zeros((values,), dtype=np.int64)]
    start = time.process_time()
    for k in range(count):
        total = parameters_addition(total, pseudo_rand_gen(b"%032d" % k, RANGE, [(values,)]))
    return time.process_time() - start


def main(values):
    masks(3, values)
    device = NEIGHBOURS + 1
    server = CAME + WENT * NEIGHBOURS * CAME // (CAME + WENT)
    print(f"flwr {flwr.__version__}, {values} values")
    print(f"a device: {device} masks, {masks(device, values):.2f} s")
    print(f"the server: {server} masks, {masks(server, values):.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 431080)
