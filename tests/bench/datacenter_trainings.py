#!/usr/bin/env python3
"""Train with all designs of a paper's figure to the end, with worker groups of fedworker; make the page's table and plot.

    datacenter_trainings.py run 3lc        3LC, tables 1 and 2, figures 3 to 6: ResNet-20 on CIFAR-10, 10 workers, a star with an
                                           optimizer at the owner; 6,400 steps, 25 % of the paper's (--whole: 25,600)
    datacenter_trainings.py run 3lc-rate   the same at a rate of 0.25, for three of the designs
    datacenter_trainings.py run hdc        INCEPTIONN, figures 13 and 14, table III: HDC on MNIST, 4 workers, 10,000 steps
    datacenter_trainings.py run cdsgd      CD-SGD, figure 6: LeNet on MNIST, 2 and 4 workers, the paper's threshold and rates
    datacenter_trainings.py run rates      CD-SGD: at which rates a local step diverges, and plain SGD; 938 steps, 2 workers
    datacenter_trainings.py run kstep      CD-SGD, figure 9: ResNet-20 on CIFAR-10, 2 workers, k of 2 to 20; 30 epochs
    datacenter_trainings.py lines 3lc      seconds of a step of each design at 10 Mbit, 100 Mbit and 1 Gbit (as root)
    datacenter_trainings.py page NAME      print the tables of docs/results/workers-NAME.md, and write data/workers-NAME.svg

    --build DIR   where bin/fedworker is (build/release)      --data DIR     the data set (build/data/mnist, build/data/cifar10)
    --only TEXT   designs whose name contains TEXT            --seeds N      seeds 1 to N (1)
    --steps N     end after N steps of each design: a check   --results DIR  (docs/results/data)

`lines` trains a few steps with a process for each worker and one for the aggregator, in network namespaces, and writes
data/workers-NAME-lines.csv. A design that was trained here to its end goes on from there, as its messages have other sizes
than at first. `--model resnet110` measures the larger net. `page` multiplies by the steps.

A design is trained in segments. After each there is a checkpoint and a line of the CSV: step, test accuracy, bits that a
worker pushed and pulled for each value. A command that was killed goes on where it was. Checkpoints are in
build/trainings/NAME.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import csv
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

import datacenter_papers

FIELDS = ["design", "seed", "step", "accuracy", "loss", "push_bits", "pull_bits", "zeroed", "seconds", "classes"]
Row = dict[str, str]


@dataclass
class Figure:
    """The designs of a figure, and what they have in common."""

    data: str
    words: list[str]
    steps: int
    segment: int  # steps between two lines of the CSV
    designs: dict[str, list[str]] = field(default_factory=dict)
    longer: dict[str, int] = field(default_factory=dict)  # designs that train for more steps

    def steps_of(self, design: str) -> int:
        return self.longer.get(design, self.steps)


def coded(codec: str) -> list[str]:
    return ["--sync", "bitsgd", "--codec", codec, "--pull", codec]


def resnet(steps: int, rate: float = 1) -> Figure:
    # the paper's optimizer: momentum 0.9, weight decay 0.0001, the rate falls from 0.1 to 0.001 by a cosine. The paper
    # multiplies the rate by the number of workers; with the mean of ten gradients that is 1.0
    optimizer = f"momentum:lr={rate:g},decay=0.0001+cosine:steps={steps},low={rate / 100:g}"
    words = ["--model", "resnet20", "--dataset", "cifar10", "--normalise", "--augment", "crop=4,flip=1", "--workers", "10",
             "--batch", "32", "--optimizer", optimizer, "--collective", "star", "--pull-as", "model"]
    designs = {"float32": ["--sync", "bitsgd"]}
    for codec in ("int8", "stoch3", "onebit", "topk:p=0.25", "topk:p=0.05"):
        designs[codec] = coded(codec)
    designs["2 local steps"] = ["--sync", "local:n=2"]
    for s in ("1", "1.5", "1.75", "1.9"):
        designs[f"3lc:s={s}"] = coded(f"3lc:s={s}")
    return Figure("build/data/cifar10", words, steps, 312, designs)  # an epoch has 156 steps


def resnet_slow() -> Figure:
    # the rate for batches of 320, if He et al.'s 0.1 for batches of 128 grows with the batch
    figure = resnet(6400, 0.25)
    figure.designs = {name: figure.designs[name] for name in ("float32", "3lc:s=1.75", "3lc:s=1")}
    return figure


def hdc() -> Figure:
    # table I: batches of 25, rate 0.1, divided by 5 each 2,000 steps, momentum 0.9, weight decay 0.00005, 10,000 steps
    words = ["--model", "hdc", "--workers", "4", "--batch", "25", "--collective", "ring"]

    def rate(every: int) -> list[str]:
        return ["--optimizer", f"momentum:lr=0.1,decay=0.00005+step:every={every},factor=0.2"]

    designs = {"float32": [*rate(2000), "--sync", "ssgd"]}
    for e in (10, 8, 6):
        designs[f"inceptionn:e={e}"] = [*rate(2000), *coded(f"inceptionn:e={e}")]
    # figure 13: the same accuracy after one or two epochs more; an epoch has 600 steps
    longer = {"inceptionn:e=10, 1 epoch more": 10600, "inceptionn:e=10, 2 epochs more": 11200}
    for name, steps in longer.items():
        designs[name] = [*rate(steps // 5), *coded("inceptionn:e=10")]
    return Figure("build/data/mnist", words, 10000, 1000, designs, longer)


def lenet() -> Figure:
    # section 4.2: rate 0.1, local rate 0.4, threshold 0.5, k = 2, batches of 32; t = 0.01 and equal rates are ours
    words = ["--model", "lenet5-caffe", "--batch", "32", "--optimizer", "sgd:lr=0.1", "--collective", "star"]
    designs: dict[str, list[str]] = {}
    for workers in ("2", "4"):
        def add(name: str, more: list[str], count: str = workers) -> None:
            designs[f"{name}, {count} workers"] = [*more, "--workers", count]

        add("ssgd", ["--sync", "ssgd"])
        for t in ("0.5", "0.01"):
            codec = ["--codec", f"twobit:t={t}"]
            add(f"bitsgd, t = {t}", ["--sync", "bitsgd", *codec])
            # 0.2 with 2 workers: the paper's 0.4, if gradients are divided by batch and workers
            for rate in ("0.4", "0.2", "0.1") if (workers, t) == ("2", "0.5") else ("0.4", "0.1"):
                add(f"cdsgd, t = {t}, local rate {rate}", ["--sync", "cdsgd:n=20,k=2", "--local-lr", rate, *codec])
        for rate in ("0.4", "0.1"):
            add(f"odsgd, local rate {rate}", ["--sync", "odsgd", "--local-lr", rate])
    return Figure("build/data/mnist", words, 3750, 469, designs)


# the LeNet of MXNet's example; ours has no activation after the convolutions, and relu after the dense layer
TANH = "input 1x28x28 | conv 20 5x5 | tanh | maxpool 2 | conv 50 5x5 | tanh | maxpool 2 | dense 500 | tanh | dense 10"


def rates() -> Figure:
    words = ["--batch", "32", "--collective", "star", "--workers", "2"]
    designs: dict[str, list[str]] = {}
    for net, model in (("lenet5-caffe", "lenet5-caffe"), ("tanh", TANH)):
        for rate in ("0.1", "0.2", "0.4", "0.8"):
            designs[f"{net}, ssgd, rate {rate}"] = ["--model", model, "--sync", "ssgd", "--optimizer", f"sgd:lr={rate}"]
        for warm in ("20", "469"):
            for rate in ("0.1", "0.2", "0.3", "0.4"):
                designs[f"{net}, cdsgd, warm-up {warm}, local rate {rate}"] = [
                    "--model", model, "--sync", f"cdsgd:n={warm},k=2", "--local-lr", rate, "--optimizer", "sgd:lr=0.1",
                    "--codec", "twobit:t=0.5"]
    # the paper's 0.4 with 2 workers, if gradients are divided by batch and workers, to the end
    last = "tanh, cdsgd, to the end, local rate 0.2"
    designs[last] = designs["tanh, cdsgd, warm-up 20, local rate 0.2"]
    return Figure("build/data/mnist", words, 938, 469, designs, {last: 3750})


def kstep() -> Figure:
    # figure 9, section 4.3. The paper names no rates for ResNet-20; these are those of its Inception-BN on the same data
    words = ["--model", "resnet20", "--dataset", "cifar10", "--normalise", "--augment", "crop=4,flip=1", "--workers", "2",
             "--batch", "32", "--optimizer", "sgd:lr=0.4", "--collective", "star"]
    designs = {"ssgd": ["--sync", "ssgd"], "bitsgd": ["--sync", "bitsgd", "--codec", "twobit:t=0.5"]}
    for k in (2, 5, 20):
        designs[f"cdsgd, k = {k}"] = ["--sync", f"cdsgd:n=20,k={k}", "--local-lr", "0.05", "--codec", "twobit:t=0.5"]
    return Figure("build/data/cifar10", words, 23430, 781, designs)  # an epoch has 781 steps


def figure_of(name: str, whole: bool) -> Figure:
    return {"3lc": lambda: resnet(25600 if whole else 6400), "3lc-rate": resnet_slow, "hdc": hdc, "cdsgd": lenet, "rates": rates,
            "kstep": kstep}[name]()


def read_rows(path: str) -> list[Row]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


def add_row(path: str, row: Row) -> None:
    fresh = not os.path.exists(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "a", encoding="ascii", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def classes_of(design: str, told: dict[str, object]) -> str:
    """Shares of the values that travel as 2, 10, 18 and 34 bits, from the summary's counts by size."""
    spread = told.get("spread")
    if not design.startswith("inceptionn:e=") or not isinstance(spread, list) or sum(spread) == 0:
        return ""
    e = int(design.split("=")[1].split(",")[0])
    parts = [spread[e + 1:], spread[e // 2 + 1:e + 1], spread[1:e // 2 + 1], spread[:1]]
    return " ".join(f"{sum(part) / sum(spread):.5f}" for part in parts)


def bits_of(summary: dict[str, object], key: str) -> str:
    """Bits for each value and step of a worker."""
    sent = summary[key]
    values, steps = summary["parameters"], summary["counted_steps"]
    workers = summary["workers"]
    assert isinstance(sent, list) and isinstance(values, int) and isinstance(workers, int) and isinstance(steps, int)
    return f"{8 * sum(sent) / (values * workers * steps):.4f}"


def since(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """A summary whose counters are those since `before`. A summary counts from the first step on, whatever was killed."""
    told = dict(now)
    for key in ("sent_bytes", "received_bytes", "spread"):
        told[key] = [one - other for one, other in zip(now[key], before.get(key, [0] * len(now[key])))]
    for key in ("counted_steps", "coded", "step_s", "compute_s"):
        told[key] = now[key] - before.get(key, 0)
    zeroed = now["zeroed"] * now["coded"] - before.get("zeroed", 0) * before.get("coded", 0)
    told["zeroed"] = zeroed / told["coded"] if told["coded"] else 0.0
    return told


def keep_before(summary: str, path: str, begin: int) -> dict[str, Any]:
    """The summary at the segment's begin, which is kept in `path` until the next one's. {}: there is none."""
    if os.path.exists(summary):
        with open(summary, encoding="ascii") as file:
            if json.load(file)["steps"] == begin:
                os.replace(summary, path)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="ascii") as file:
        before: dict[str, Any] = json.load(file)
    return before if before["steps"] == begin and "counted_steps" in before else {}


def stem_of(name: str, design: str, seed: int) -> str:
    """The path of what a training keeps, without endings."""
    return os.path.join("build", "trainings", name, f"{design}-{seed}".replace(" ", "").replace(":", "_").replace(",", "_"))


class Runner:
    """Trains one design in segments."""

    def __init__(self, options: argparse.Namespace, figure: Figure) -> None:
        self.options, self.figure = options, figure
        self.csv = os.path.join(options.results, f"workers-{options.name}.csv")
        os.makedirs(os.path.join("build", "trainings", options.name), exist_ok=True)

    def segment(self, design: str, seed: int, begin: int, end: int) -> bool:
        """Train to this step. False: the training diverged."""
        stem = stem_of(self.options.name, design, seed)
        summary, checkpoint = f"{stem}.json", f"{stem}.safetensors"
        command = [os.path.join(self.options.build, "bin", "fedworker"), "train", *self.figure.words, "--data",
                   self.options.data or self.figure.data, "--seed", str(seed), "--steps", str(end), "--checkpoint", checkpoint,
                   "--summary", summary, *self.figure.designs[design], *(["--resume"] if begin > 0 else [])]
        if begin == 0:  # killed before the first line of the CSV
            for path in (checkpoint, summary, f"{stem}.before.json"):
                if os.path.exists(path):
                    os.remove(path)
        before = keep_before(summary, f"{stem}.before.json", begin)
        got = subprocess.run(command, capture_output=True, text=True, check=False)
        row = dict.fromkeys(FIELDS, "")
        row.update(design=design, seed=str(seed), step=str(end))
        if got.returncode != 0:
            if "diverge" not in got.stderr and "not finite" not in got.stderr:
                raise SystemExit(f"{' '.join(command)}: {got.stderr}")
            row["accuracy"] = "diverged"
            add_row(self.csv, row)
            return False
        with open(summary, encoding="ascii") as file:
            told = since(json.load(file), before)
        row.update(accuracy=f"{told['test_accuracy']:.4f}", loss=f"{told['test_loss']:.4f}",
                   push_bits=bits_of(told, "sent_bytes"), pull_bits=bits_of(told, "received_bytes"),
                   zeroed=f"{told['zeroed']:.4f}", seconds=f"{told['seconds']:.1f}", classes=classes_of(design, told))
        add_row(self.csv, row)
        return True

    def train(self, design: str, seed: int) -> None:
        mine = [row for row in read_rows(self.csv) if row["design"] == design and row["seed"] == str(seed)]
        step = int(mine[-1]["step"]) if mine else 0
        steps = self.figure.steps_of(design)
        last = min(self.options.steps or steps, steps)
        if mine and mine[-1]["accuracy"] == "diverged":
            return
        while step < last:
            end = min(step + self.figure.segment, last)
            if not self.segment(design, seed, step, end):
                print(f"{design}, seed {seed}: diverged before step {end}", flush=True)
                return
            step = end
            done = read_rows(self.csv)[-1]
            print(f"{design}, seed {seed}, step {step}: {100 * float(done['accuracy']):.2f} %, bits {done['push_bits']} pushed, "
                  f"{done['pull_bits']} pulled, {done['seconds']} s", flush=True)


def begin_trained(stem: str, folder: str, steps: int) -> tuple[list[str], dict[str, Any]]:
    """Copy what a training to its end has left. Returns the words that go on from it, and its summary; nothing: there is none.

    The sizes of messages change while a model learns, so the first steps would not tell what a step takes.
    """
    if not os.path.exists(f"{stem}.json"):
        return [], {}
    with open(f"{stem}.json", encoding="ascii") as file:
        before: dict[str, Any] = json.load(file)
    if before["steps"] != steps:
        return [], {}
    checkpoint = f"{stem}.safetensors"
    for path in [checkpoint, *glob.glob(f"{glob.escape(checkpoint)}.rank-*")]:
        shutil.copy(path, folder)
    return ["--checkpoint", os.path.join(folder, os.path.basename(checkpoint)), "--resume"], before


def time_lines(options: argparse.Namespace, figure: Figure, path: str) -> None:
    """Measure the mean step of each design at each rate. What the file has is not measured again."""
    trainer = datacenter_papers.Trainer(argparse.Namespace(
        build=options.build, data=options.data or figure.data, steps=0, quick=False))
    done = {(row["model"], row["design"], row["rate"]) for row in read_rows(path)}
    common = list(figure.words)
    workers = int(common.pop(common.index("--workers") + 1))
    common.remove("--workers")
    common[common.index("--model") + 1] = options.model
    for rate, steps in (("1gbit", 10), ("100mbit", 6), ("10mbit", 4)):
        for design, words in figure.designs.items():
            if (options.model, design, rate) in done or options.only not in design:
                continue
            with tempfile.TemporaryDirectory() as folder:
                stem = stem_of(options.name, design, 1) if options.model == "resnet20" else ""
                more, before = begin_trained(stem, folder, figure.steps_of(design))
                told = since(trainer.lines([*common, *words, *more], rate, workers=workers, extra=1,
                                           steps=before.get("steps", 0) + (options.steps or steps)), before)
            count = told["counted_steps"]
            row = {"model": options.model, "design": design, "rate": rate, "seconds": f"{told['step_s'] / count:.4f}",
                   "compute": f"{told['compute_s'] / count:.4f}", "push_bits": bits_of(told, "sent_bytes"),
                   "pull_bits": bits_of(told, "received_bytes"), "trained": str(before.get("steps", 0))}
            add_row(path, row)
            print(" ".join(row.values()), flush=True)


def print_times(rows: list[Row], timed: list[Row]) -> None:
    """Hours of the whole training at each rate: seconds of a step, by the steps."""
    steps = {design: int(own[-1]["step"]) for design, own in curves(rows).items()}
    for model in dict.fromkeys(row["model"] for row in timed):
        seconds = {(row["design"], row["rate"]): float(row["seconds"]) for row in timed if row["model"] == model}
        rates = ["10mbit", "100mbit", "1gbit"]
        print(f"\n{model}\n| design |{''.join(f' {rate}: step | speed-up | hours |' for rate in rates)}\n|---|{'--:|' * 9}")
        for design in dict.fromkeys(row["design"] for row in timed if row["model"] == model):
            cells = ""
            for rate in rates:
                step, base = seconds.get((design, rate)), seconds.get(("float32", rate))
                cells += " | | |" if step is None or base is None else (
                    f" {step:.2f} s | {base / step:.1f} | {step * steps.get(design, 0) / 3600:.1f} |")
            print(f"| {design} |{cells}")


def curves(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["design"], []).append(row)
    return found


def mean_bits(rows: list[Row], key: str) -> float:
    """The mean over all steps, from means of segments."""
    step, total = 0, 0.0
    for row in rows:
        total += float(row[key]) * (int(row["step"]) - step)
        step = int(row["step"])
    return total / step


def print_table(rows: list[Row]) -> None:
    base = None
    print("| design | accuracy | difference | steps | bits pushed | bits pulled |\n|---|--:|--:|--:|--:|--:|")
    for design, own in curves(rows).items():
        seeds = sorted({row["seed"] for row in own})
        ends = [[row for row in own if row["seed"] == seed][-1] for seed in seeds]
        if any(end["accuracy"] == "diverged" for end in ends):
            print(f"| {design} | diverged | | {ends[0]['step']} | | |")
            continue
        first = [row for row in own if row["seed"] == seeds[0]]
        accuracy = 100 * sum(float(end["accuracy"]) for end in ends) / len(ends)
        base = accuracy if base is None else base
        print(f"| {design} | {accuracy:.2f} % | {accuracy - base:+.2f} | {int(ends[0]['step']):,} | "
              f"{mean_bits(first, 'push_bits'):.3f} | {mean_bits(first, 'pull_bits'):.3f} |")


def print_classes(rows: list[Row]) -> None:
    """INCEPTIONN's table III: the values by class. The mean over all segments, first seed."""
    counted = {design: [row for row in own if row.get("classes") and row["seed"] == own[0]["seed"]]
               for design, own in curves(rows).items()}
    counted = {design: own for design, own in counted.items() if own}
    if not counted:
        return
    print("\n| design | steps | 2 bits | 10 bits | 18 bits | 34 bits | mean |\n|---|--:|--:|--:|--:|--:|--:|")
    for design, own in counted.items():
        step, total = 0, [0.0] * 4
        for row in own:
            for k, share in enumerate(row["classes"].split()):
                total[k] += float(share) * (int(row["step"]) - step)
            step = int(row["step"])
        shares = [part / step for part in total]
        mean = sum(bits * share for bits, share in zip((2, 10, 18, 34), shares))
        print(f"| {design} | {step:,} | {' | '.join(f'{100 * share:.2f} %' for share in shares)} | {mean:.2f} |")


COLOURS = ["#0a66a8", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#117a8b", "#7f8c8d", "#d35400", "#2c3e50", "#a569bd", "#58d68d"]


def plot(rows: list[Row], path: str) -> None:
    """Accuracy against steps, a line a design, first seed."""
    wide, high, left, top, right, bottom = 760, 420, 56, 16, 210, 40
    drawn = {name: [row for row in own if row["seed"] == own[0]["seed"] and row["accuracy"] != "diverged"]
             for name, own in curves(rows).items()}
    drawn = {name: own for name, own in drawn.items() if own}
    most = max(int(row["step"]) for own in drawn.values() for row in own)
    low = min(float(row["accuracy"]) for own in drawn.values() for row in own[len(own) // 4:])
    peak = max(float(row["accuracy"]) for own in drawn.values() for row in own)
    low -= 0.05 * (peak - low) + 1e-6

    def x_of(step: int) -> float:
        return left + (wide - left - right) * step / most

    def y_of(accuracy: float) -> float:
        return top + (high - top - bottom) * (1 - max(accuracy - low, 0) / (peak - low))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"><style>text {{ font: 11px sans-serif }}</style>',
           f'<rect width="{wide}" height="{high}" fill="#fff"/>']
    for k in range(6):
        value = low + (peak - low) * k / 5
        out.append(f'<line x1="{left}" x2="{wide - right}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y_of(value) + 4:.1f}" text-anchor="end">{100 * value:.1f} %</text>')
        step = most * k // 5
        out.append(f'<text x="{x_of(step):.1f}" y="{high - bottom + 16}" text-anchor="middle">{step:,}</text>')
    out.append(f'<text x="{(left + wide - right) / 2:.0f}" y="{high - 8}" text-anchor="middle">steps</text>')
    for k, (name, own) in enumerate(drawn.items()):
        points = " ".join(f"{x_of(int(row['step'])):.1f},{y_of(float(row['accuracy'])):.1f}" for row in own)
        colour = COLOURS[k % len(COLOURS)]
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
                   f'<text x="{wide - right + 10}" y="{top + 14 * k + 10}" fill="{colour}">{name}</text>')
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join([*out, "</svg>", ""]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "lines", "page"])
    parser.add_argument("name", choices=["3lc", "3lc-rate", "hdc", "cdsgd", "rates", "kstep"])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--data", default="")
    parser.add_argument("--results", default="docs/results/data")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--model", default="resnet20")
    options = parser.parse_args()
    figure = figure_of(options.name, options.whole)
    if options.whole:
        options.name += "-whole"
    path = os.path.join(options.results, f"workers-{options.name}.csv")
    lines = os.path.join(options.results, f"workers-{options.name}-lines.csv")
    if options.what == "lines":
        if options.name != "3lc":
            sys.exit("lines are measured for the designs of 3lc alone")
        time_lines(options, figure, lines)
        return
    if options.what == "page":
        rows = read_rows(path)
        if not rows:
            sys.exit(f"there is no {path} yet: datacenter_trainings.py run {options.name}")
        order = list(figure.designs)
        rows.sort(key=lambda row: (order.index(row["design"]), int(row["seed"]), int(row["step"])))
        print_table(rows)
        print_classes(rows)
        print_times(rows, read_rows(lines))
        if options.name != "rates":  # many designs, two points each
            plot(rows, path.replace(".csv", ".svg"))
        return
    runner = Runner(options, figure)
    for seed in range(1, options.seeds + 1):
        for design in figure.designs:
            if options.only in design:
                runner.train(design, seed)


if __name__ == "__main__":
    main()
