#!/usr/bin/env python3
"""Measure how long a round over HTTPS takes where its clients train for a millisecond: the round's gap.

    round_gap.py DATA [programs=build/release/bin] [clients=100] [cohort=10] [rounds=5,35] [repeats=3] [deadline=600]

`programs` names folders with fedsim and fedserver. Each repeat runs each folder in turn, with the smaller and the larger number of
rounds. One line for each folder: the wall time of a round, median and 90th percentile over the second half of the longer run, when all
have enrolled; wall time of that run; CPU time of a round, of all processes, which is the difference between the two runs; digests of the models. DATA has MNIST.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OPTIONS = {"programs": "build/release/bin", "clients": "100", "cohort": "10", "rounds": "5,35", "repeats": "3", "deadline": "600"}


def run(folder, data, options, rounds, out):
    """Run fedsim once. Returns its wall time, the CPU time of its processes, the rounds' wall times, and the model's digest."""
    command = [
        os.path.join(folder, "fedsim"), "run", f"data={data}", "transport=https", "model=lr", "optimizer=sgd:lr=0.05", "codec_up=float32",
        "local_steps=10", "batch=10", "evaluate_every=1000000", f"clients={options['clients']}", f"cohort={options['cohort']}",
        f"goal={options['cohort']}", f"deadline_s={options['deadline']}", f"rounds={rounds}", "--out", out
    ]
    before, began = os.times(), time.monotonic()
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wall, after = time.monotonic() - began, os.times()
    if done.returncode != 0:
        sys.exit(f"round_gap.py: {' '.join(command)} failed:\n{done.stdout}")
    with open(os.path.join(out, "rounds.csv"), encoding="utf-8") as f:
        at = [float(row["wall_s"]) for row in csv.DictReader(f)]
    digest = json.loads(pathlib.Path(out, "summary.json").read_text(encoding="utf-8"))["model_digest"]
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu, [b - a for a, b in zip(at, at[1:])], digest


def main():
    options = dict(OPTIONS)
    words = sys.argv[1:]
    if not words or any(word.partition("=")[0] not in OPTIONS for word in words[1:]):
        sys.exit(__doc__)
    options.update(word.split("=", 1) for word in words[1:])
    few, many = (int(text) for text in options["rounds"].split(","))
    folders = options["programs"].split(",")
    found = {folder: {"gaps": [], "wall": [], "cpu": [], "digests": []} for folder in folders}
    for _ in range(int(options["repeats"])):
        for folder in folders:
            with tempfile.TemporaryDirectory() as scratch:
                short = run(folder, words[0], options, few, os.path.join(scratch, "few"))
                long = run(folder, words[0], options, many, os.path.join(scratch, "many"))
            found[folder]["gaps"] += long[2][len(long[2]) // 2:]
            found[folder]["wall"].append(long[0])
            found[folder]["cpu"].append((long[1] - short[1]) / (many - few))
            found[folder]["digests"].append(long[3])
    print("| programs | a round: median, 90th percentile, ms | run, s | CPU of a round, ms | models |")
    print("|---|--:|--:|--:|---|")
    for folder, f in found.items():
        deciles = statistics.quantiles(f["gaps"], n=10)
        print(f"| {folder} | {1e3 * statistics.median(f['gaps']):.0f}, {1e3 * deciles[8]:.0f} | "
              f"{', '.join(f'{wall:.1f}' for wall in f['wall'])} | {', '.join(f'{1e3 * cpu:.1f}' for cpu in f['cpu'])} | "
              f"{len(set(f['digests']))} |")


main()
