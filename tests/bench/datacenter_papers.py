#!/usr/bin/env python3
"""Reproduce the papers' tables with worker groups of fedworker. `tc tbf` limits each line; all designs of a table are in one run.

    datacenter_papers.py 3lc         3LC, tables 1 and 2: speed-up over float32 at three rates, accuracy, bits a value
    datacenter_papers.py inceptionn  INCEPTIONN, table III and figures 12, 14, 15: star and ring, with and without compression
    datacenter_papers.py sizes       INCEPTIONN, figures 12 and 15 for larger nets: exchanges of as many values, no training
    datacenter_papers.py parts       INCEPTIONN, table II: the parts of a step of HDC, star and ring
    datacenter_papers.py cdsgd       CD-SGD, figures 6 to 9: five rules with 2 and 4 workers, and the correction's period k
    datacenter_papers.py overlap     how much of an exchange a step waits for, where compute takes longer than the exchange
    datacenter_papers.py growth      what an exchange costs from 2 to 16 workers, beside the cost model, which goes on to 1,024

    --build DIR   where bin/fedworker is (build/release)      --data DIR   MNIST (FED_MNIST_DIR, or build/data/mnist)
    --steps N     of each training for accuracy (600)         --quick      few steps, one rate: does the command work?
    --timed N     steps of overlap's trainings (40)           --rates R,R    of 3lc (10mbit,100mbit,1gbit)
    --only TEXT   designs of 3lc whose name contains TEXT

Accuracy is measured with threads of one process, because all links give the same bits; times with processes in network
namespaces, which need root. Times are means of a step, from fedworker's summary.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import os
import subprocess
import sys
import tempfile

import datacenter

TIMED_STEPS = {"10mbit": 4, "100mbit": 15, "1gbit": 40}
SECONDS = 900  # limit of a training that hangs


class Trainer:
    def __init__(self, options):
        self.options = options
        self.program = os.path.join(options.build, "bin", "fedworker")
        self.common = ["--data", options.data]

    def words(self, workers, words, steps, summary):
        return [self.program, "train", *self.common, "--workers", str(workers), "--steps", str(steps), "--summary", summary, *words]

    def here(self, words, workers=4, steps=None):
        """Train with threads; return the summary, or None if the training diverged."""
        with tempfile.TemporaryDirectory() as folder:
            summary = os.path.join(folder, "summary.json")
            command = self.words(workers, words, steps or self.options.steps, summary)
            run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            if run.returncode != 0:
                if "diverged" in run.stderr:
                    return None
                raise SystemExit(f"{' '.join(command)}: {run.stderr}")
            return read(summary)

    def lines(self, words, rate, workers=4, extra=0, hosts=datacenter.Lines, steps=None):
        """Train with one process for each worker, behind lines of a rate; return the summary. extra: number of aggregators."""
        steps = steps or (2 if self.options.quick else TIMED_STEPS[rate])
        with tempfile.TemporaryDirectory() as folder, hosts(workers + extra, rate) as lines:
            secret, summary = os.path.join(folder, "secret"), os.path.join(folder, "summary.json")
            first = f"{lines.address(0)}:7400"
            more = ["--link", "tcp", "--congestion", "reno", "--secret-file", secret]
            make_secret(secret)

            def command(rank):
                where = ["--listen", first] if rank == 0 else ["--join", first]
                return self.words(workers, [*words, *more, *where], steps, summary)

            lines.run(command, SECONDS)
            return read(summary)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def make_secret(path):
    with open(path, "w", encoding="ascii") as file:
        file.write(os.urandom(32).hex() + "\n")
    os.chmod(path, 0o600)


def percent(summary):
    return f"{100 * summary['test_accuracy']:6.2f}" if summary else "diverged"


def coded(codec, rule="bitsgd"):
    return ["--sync", rule, "--codec", codec, "--pull", codec]


LENET = ["--model", "lenet5-caffe", "--batch", "8", "--optimizer", "sgd", "--lr", "0.05"]
DESIGNS = [("float32", ["--sync", "ssgd"])] + [(codec, coded(codec)) for codec in (
    "int8", "stoch3", "onebit", "topk:p=0.25", "topk:p=0.05")] + [
    ("2 local steps", ["--sync", "local:n=2"])] + [(f"3lc:s={s}", coded(f"3lc:s={s}")) for s in ("1", "1.5", "1.75", "1.9")]


def bits(summary):
    """Bits that a worker sends and receives for each parameter and step, both ways."""
    values = summary["parameters"] * summary["steps"] * summary["workers"]
    return 8 * sum(summary["sent_bytes"]) / values


def table_3lc(trainer, options):
    rates = ["100mbit"] if options.quick else options.rates.split(",")
    base = {}
    print(f"{'design':14s} {'accuracy':>9s} {'bits':>6s}" + "".join(f" {rate:>9s} {'speed-up':>8s}" for rate in rates))
    for name, words in DESIGNS:
        if options.only not in name:
            continue
        accuracy = trainer.here([*LENET, *words])
        row = f"{name:14s} {percent(accuracy):>9s} {bits(accuracy) if accuracy else float('nan'):6.2f}"
        for rate in rates:
            seconds = trainer.lines([*LENET, *words], rate)["mean_step_s"]
            base.setdefault(rate, seconds)
            row += f" {1000 * seconds:7.1f}ms {base[rate] / seconds:7.2f}x"
        print(row, flush=True)


HDC = ["--model", "hdc", "--batch", "25", "--optimizer", "momentum", "--lr", "0.05"]
BOUNDS = [("float32", ["--sync", "ssgd"])] + [(f"inceptionn:e={e}", ["--sync", "bitsgd", "--codec", f"inceptionn:e={e}"])
                                              for e in (10, 8, 6)]


def exchange(lines, options, **words):
    return datacenter.bench(lines, options.build, floats=1149010, steps=3 if options.quick else 12, congestion="reno", **words)


def table_inceptionn(trainer, options):
    print("HDC on MNIST, 4 workers, ring (table III, figure 14)")
    print(f"{'codec':16s} {'accuracy':>9s} {'bytes':>7s} {'became 0':>9s}")
    whole = None
    for name, words in BOUNDS:
        got = trainer.here([*HDC, "--collective", "ring", *words, *(["--pull", name] if name != "float32" else [])])
        sent = sum(got["sent_bytes"]) if got else float("nan")
        whole = whole or sent
        zero = 100 * got["zeroed"] if got else float("nan")
        print(f"{name:16s} {percent(got):>9s} {whole / sent:6.1f}x {zero:8.1f}%", flush=True)
    rate = "1gbit"
    print(f"\nms an exchange of HDC's 1,149,010 values at {rate} (figures 12 and 15)")
    print(f"{'workers':>7s} {'star':>9s} {'star+inc.':>10s} {'ring':>9s} {'ring+inc.':>10s} {'star/ring':>10s}")
    for workers in (2, 4) if options.quick else (2, 3, 4, 6, 8):
        row = []
        for collective, extra in (("owners:aggregators=1", 1), ("ring", 0)):
            with datacenter.Lines(workers + extra, rate) as lines:
                for codec in (None, "inceptionn:e=10"):
                    row.append(1000 * exchange(lines, options, collective=collective, codec=codec, pull=codec)["seconds"])
        print(f"{workers:7d} {row[0]:9.1f} {row[1]:10.1f} {row[2]:9.1f} {row[3]:10.1f} {row[0] / row[2]:10.2f}", flush=True)


# nets of INCEPTIONN, their values, and workers that 24 GiB of memory have room for
SIZES = [("ResNet-50", 25_600_000, 4), ("AlexNet", 61_000_000, 4), ("VGG-16", 138_000_000, 2)]


def table_sizes(trainer, options):
    """What an exchange of a larger net's gradient costs. Nothing is trained: the values are random."""
    del trainer
    rate = "1gbit"
    print(f"seconds an exchange at {rate}; values are random, nine in ten below 2^-10")
    print(f"{'net':10s} {'values':>12s} {'workers':>7s} {'star':>8s} {'star+inc.':>10s} {'ring':>8s} {'ring+inc.':>10s} {'star/ring':>10s}")
    for name, floats, workers in SIZES[:1] if options.quick else SIZES:
        row = []
        for collective, extra in (("owners:aggregators=1", 1), ("ring", 0)):
            with datacenter.Lines(workers + extra, rate) as lines:
                for codec in (None, "inceptionn:e=10"):
                    got = datacenter.bench(lines, options.build, 600, floats=floats // 100 if options.quick else floats, steps=3,
                                           congestion="reno", collective=collective, codec=codec, pull=codec)
                    row.append(got["seconds"])
        print(f"{name:10s} {floats:12,d} {workers:7d} {row[0]:8.3f} {row[1]:10.3f} {row[2]:8.3f} {row[3]:10.3f} "
              f"{row[0] / row[2]:10.2f}", flush=True)


def table_parts(trainer, options):
    """The parts of a step: what a worker computes, what the aggregator or a worker sums, what a step waits for."""
    rate = "1gbit"
    print(f"ms a step of HDC, 4 workers at {rate}; sum, encode and decode are of all ranks, by the number of workers")
    print(f"{'collective':10s} {'codec':16s} {'step':>7s} {'compute':>8s} {'waiting':>8s} {'share':>6s} {'sum':>6s} {'encode':>7s} {'decode':>7s}")
    for collective, extra in (("star", 1), ("ring", 0)):
        for codec in ("float32", "inceptionn:e=10"):
            words = ["--sync", "bitsgd", "--codec", codec, "--pull", codec] if codec != "float32" else ["--sync", "ssgd"]
            got = trainer.lines([*HDC, "--collective", collective, *words], rate, 4, extra)
            step, compute, waiting, added, encode, decode = (
                1000 * got[key] / got["steps"] for key in ("step_s", "compute_s", "exposed_s", "sum_s", "encode_s", "decode_s"))
            print(f"{collective:10s} {codec:16s} {step:7.1f} {compute:8.1f} {waiting:8.1f} {100 * waiting / step:5.1f}% {added:6.2f} "
                  f"{encode:7.2f} {decode:7.2f}", flush=True)


TWOBIT = "twobit:t=0.01"
RULES = [("ssgd", "float32"), ("odsgd", "float32"), ("bitsgd", TWOBIT), ("cdsgd:n=%d,k=2", TWOBIT)]
WARM_UP = 20  # warm-up steps of cdsgd
LENET5 = ["--model", "lenet5-caffe", "--batch", "32", "--optimizer", "sgd", "--lr", "0.1"]


def rule_words(rule, codec, warm_up):
    return ["--sync", rule % warm_up if "%d" in rule else rule, "--codec", codec]


def table_cdsgd(trainer, options):
    rate = "1gbit"
    sizes = (2,) if options.quick else (2, 4)
    print(f"{'rule':18s} {'codec':14s} {'workers':>7s} {'accuracy':>9s} "
          f"{'ms a step at ' + rate:>18s} {'compute':>8s} {'exchange':>8s} {'exposed':>8s} {'model':>7s}")
    sweep = [(f"cdsgd:n=%d,k={k}", TWOBIT) for k in (5, 10, 20, 0)]
    for workers in sizes:
        for rule, codec in RULES + (sweep if workers == sizes[-1] else []):
            accuracy = trainer.here([*LENET5, *rule_words(rule, codec, WARM_UP)], workers)
            got = trainer.lines([*LENET5, *rule_words(rule, codec, 1), "--rate", "1000"], rate, workers)
            means = [1000 * got[key] / got["steps"] for key in ("compute_s", "exchange_s", "exposed_s")]
            print(f"{rule.replace('%d', str(WARM_UP)):18s} {codec:14s} {workers:7d} {percent(accuracy):>9s} "
                  f"{1000 * got['mean_step_s']:18.1f} {means[0]:8.1f} {means[1]:8.1f} {means[2]:8.1f} "
                  f"{1000 * got['predicted_step_s']:7.1f}", flush=True)


def table_overlap(trainer, options):
    """Where compute takes longer than the exchange: how much of the exchange does a step still wait for?"""
    rate = "1gbit"
    print(f"ms a step at {rate}, 2 workers, {options.timed} steps")
    print(f"{'rule':18s} {'batch':>5s} {'step':>7s} {'compute':>8s} {'exchange':>9s} {'exposed':>8s} {'model':>7s}")
    for batch in ("128", "256"):
        for rule, codec in RULES:
            words = ["--model", "lenet5-caffe", "--batch", batch, "--optimizer", "sgd", "--lr", "0.1", "--rate", "1000"]
            got = trainer.lines([*words, *rule_words(rule, codec, 1)], rate, 2, steps=options.timed)
            means = [1000 * got[key] / got["steps"] for key in ("compute_s", "exchange_s", "exposed_s")]
            print(f"{rule.replace('%d', '1'):18s} {batch:>5s} {1000 * got['mean_step_s']:7.1f} {means[0]:8.1f} "
                  f"{means[1]:9.1f} {means[2]:8.1f} {1000 * got['predicted_step_s']:7.1f}", flush=True)


def table_growth(trainer, options):
    del trainer
    rate, floats = "100mbit", 431080
    print(f"ms an exchange of {floats:,} values at {rate}; eff: bytes that a rank sends / (rate x time)")
    print(f"{'workers':>7s} {'owners':>9s} {'eff':>5s} {'ring':>9s} {'eff':>5s} {'3lc:s=1.75':>11s}")
    for workers in (2, 4) if options.quick else (2, 4, 8, 12, 16):
        with datacenter.Lines(workers, rate) as lines:
            row = f"{workers:7d}"
            for words in ({"collective": "owners"}, {"collective": "ring"}, {"codec": "3lc:s=1.75", "pull": "3lc:s=1.75"}):
                got = datacenter.bench(lines, options.build, floats=floats, steps=4 if options.quick else 8, congestion="reno",
                                       **words)
                row += f" {1000 * got['seconds']:9.1f}"
                if "codec" not in words:
                    row += f" {8 * got['bytes'] / datacenter.RATES[rate] / got['seconds']:5.2f}"
            print(row, flush=True)


TABLES = {"3lc": table_3lc, "inceptionn": table_inceptionn, "sizes": table_sizes, "parts": table_parts, "cdsgd": table_cdsgd,
          "overlap": table_overlap, "growth": table_growth}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--data", default=os.environ.get("FED_MNIST_DIR", "build/data/mnist"))
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--timed", type=int, default=TIMED_STEPS["1gbit"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rates", default="10mbit,100mbit,1gbit")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("datacenter_papers.py: namespaces and tc need root")
    if options.quick:
        options.steps = 20
    TABLES[options.table](Trainer(options), options)


if __name__ == "__main__":
    main()
