#!/usr/bin/env python3
# Epsilons of Gaussian noise, by a second implementation: PyPI's dp-accounting 0.6.0. `privacy.py ROOT` compares with
# vectors/privacy/gaussian.txt, and is skipped where dp-accounting is missing. `privacy.py ROOT --write` writes that file.
# SPDX-License-Identifier: Apache-2.0
"""Compare the golden epsilons of tests/vectors/privacy/gaussian.txt with those of dp-accounting."""

import math
import random
import sys

HEAD = """\
# Epsilons of Gaussian noise by dp-accounting 0.6.0: made by tests/vectors/privacy.py, and only added to.
# z participations apart delta epsilon_rdp epsilon_pld
"""


def coefficients(apart):
    """Return the band of the square root of the prefix sum."""
    c = [1.0]
    for j in range(1, apart):
        c.append(c[-1] * (2 * j - 1) / (2 * j))
    return c


def epsilons(accounting, z, participations, apart, delta):
    """Return the epsilons of dp-accounting's RDP accountant and of its PLD accountant."""
    # what a device sees is one Gaussian mechanism: its columns are orthogonal
    length = math.sqrt(participations * sum(c * c for c in coefficients(apart)))
    event = accounting.GaussianDpEvent(z / length)
    best = 1 + math.sqrt(2 * math.log(1 / delta)) * z / length
    orders = [1 + (best - 1) * 1.002 ** k for k in range(-1500, 400)]
    rdp = accounting.rdp.RdpAccountant(orders).compose(event).get_epsilon(delta)
    pld = accounting.pld.PLDAccountant().compose(event).get_epsilon(delta)
    return float(rdp), float(pld)


def rows(accounting, count=200):
    draw = random.Random(1)
    for _ in range(count):
        participations = draw.choice([1, 2, 3, 5, 10, 20, 30, 100, 300])
        apart = draw.choice([1, 1, 1, 2, 5, 10, 20, 64])
        delta = draw.choice([1e-3, 1e-5, 1e-6, 2.5e-3, 1e-8])
        z = round(math.sqrt(participations) * math.exp(draw.uniform(math.log(0.25), math.log(20))), 6)
        yield z, participations, apart, delta, *epsilons(accounting, z, participations, apart, delta)


def compare(accounting, path):
    """Return what differs from the file's rows."""
    count = 0
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#"):
                continue
            z, participations, apart, delta, rdp, pld = line.split()
            again = epsilons(accounting, float(z), int(participations), int(apart), float(delta))
            for name, written, made in zip(("RDP", "PLD"), (rdp, pld), again):
                if abs(float(written) - made) > 1e-9 * max(1, made):
                    return f"{path}:{number}: {name}: {written} is written, dp-accounting says {made!r}"
            count += 1
    return None if count >= 200 else f"{path}: {count} rows; 200 are expected"


def main():
    path = f"{sys.argv[1]}/tests/vectors/privacy/gaussian.txt"
    try:
        import dp_accounting  # pylint: disable=import-outside-toplevel
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError:
        print("skipped: dp-accounting is not installed (pip install dp-accounting==0.6.0)")
        return 77
    if sys.argv[2:] == ["--write"]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(HEAD)
            for z, participations, apart, delta, rdp, pld in rows(dp_accounting):
                file.write(f"{z} {participations} {apart} {delta} {rdp!r} {pld!r}\n")
        return 0
    wrong = compare(dp_accounting, path)
    print(wrong or "the golden epsilons are those of dp-accounting")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
