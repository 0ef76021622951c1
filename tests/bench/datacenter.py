#!/usr/bin/env python3
"""Run a worker group over emulated lines: each rank in a network namespace of its own, behind a line of a given rate.

    datacenter.py run [--ranks N] [--rate R] -- COMMAND...      one command, once in each namespace
    datacenter.py efficiency [--build DIR] [--rates R,R] [--floats N,N] [--congestion C] [--designs D;D] [-- KEY=VALUE...]

R is 10mbit, 100mbit, 1gbit, or none. It needs root, ip and tc; it removes what it made, also when it is stopped.

Ranks are joined by a bridge. Each one's line is limited in both directions by `tc tbf`: in its own namespace what it sends,
at the bridge what it receives. Bursts are small (BURST): a message within a burst would not be delayed. A command finds
FED_RANK, FED_SIZE and FED_ADDRESSES ("10.77.0.1:7100,...") in its environment.

Other tables import this file:

    with datacenter.Lines(ranks=4, rate="100mbit") as lines:
        outputs = lines.run(lambda rank: ["program", ...])      # text of each rank's standard output
        lines.prefix(rank)                                      # the words before a command: ip netns exec NAME

efficiency prints, for each rate and size, the median time of a step and how much of the line it uses: bytes that a rank sends
÷ (rate × time of a step). For a star the aggregator's line counts, in one direction. Headers of Ethernet, IP and TCP leave at
most 0.957 (1,448 of 1,514 bytes).
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import os
import signal
import subprocess
import sys
import time

RATES = {"10mbit": 10e6, "100mbit": 100e6, "1gbit": 1e9, "none": None}
# size of tbf's bucket in bytes
BURST = {"10mbit": 3200, "100mbit": 16000, "1gbit": 80000}
QUEUE = 500_000  # bytes that a line may queue
PORT = 7100
NICE = -10  # a higher priority than other programs
# A session of its own may have a higher priority than others' sessions (sched(7), autogroup).
SESSION = ["setsid", "-w", "sh", "-c", "echo -20 2>/dev/null >/proc/self/autogroup; exec \"$@\"", "sh"]
REALTIME = ["chrt", "--rr", "10"]  # for exchanges, which mostly sleep: other programs then hardly delay them


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, stdout=subprocess.DEVNULL,
                   stderr=None if check else subprocess.DEVNULL)


class Lines:
    """Namespaces joined by a bridge, which has its own namespace; `with` removes them. direct: two namespaces joined by one line.
    realtime: ranks go before all other programs; not for those that compute."""

    def __init__(self, ranks, rate="none", direct=False, realtime=False):
        self.ranks, self.rate, self.direct = ranks, rate, direct
        self.first = REALTIME if realtime else None
        self.tag = f"fed{os.getpid()}"
        self.names = [f"{self.tag}r{r}" for r in range(ranks)]
        self.switch = f"{self.tag}sw"
        self.children = []

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            ip("netns", "add", self.switch)
            self.inside(self.switch, "ip", "link", "add", "br0", "type", "bridge")
            self.inside(self.switch, "ip", "link", "set", "br0", "up")
            for name in self.names:
                ip("netns", "add", name)
            for step in (self.cable, self.add):
                for rank in range(self.ranks):
                    step(rank)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        for name in self.names + [self.switch]:
            ip("netns", "del", name, check=False)

    def inside(self, name, *words):
        subprocess.run(["ip", "netns", "exec", name, *words], check=True)

    def prefix(self, rank):
        first = self.first or [*SESSION, "nice", "-n", str(NICE)]
        return [*first, "ip", "netns", "exec", self.names[rank]]

    def address(self, rank):
        return f"10.77.{rank // 250}.{rank % 250 + 1}"

    def cable(self, rank):
        """Give a rank its network interface eth0."""
        name, port = self.names[rank], f"p{rank}"
        if not self.direct:
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self.switch)
            self.inside(self.switch, "ip", "link", "set", port, "master", "br0", "up")
            self.limit(self.switch, port)
        elif rank == 0:
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", "eth0", "netns", self.names[1])
        self.inside(name, "ip", "link", "set", "lo", "up")
        self.inside(name, "ip", "link", "set", "eth0", "up")
        self.limit(name, "eth0")

    def add(self, rank):
        """Give a rank's eth0 its address."""
        self.inside(self.names[rank], "ip", "addr", "add", self.address(rank) + "/16", "dev", "eth0")

    def limit(self, name, device):
        if RATES[self.rate] is not None:
            self.inside(name, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate,
                        "burst", str(BURST[self.rate]), "limit", str(QUEUE))

    def environment(self, rank):
        addresses = ",".join(f"{self.address(r)}:{PORT}" for r in range(self.ranks))
        return dict(os.environ, FED_RANK=str(rank), FED_SIZE=str(self.ranks), FED_ADDRESSES=addresses)

    def start(self, rank, command):
        child = subprocess.Popen(self.prefix(rank) + command, env=self.environment(rank), stdout=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def run(self, command, seconds=300):
        """Run command(rank) in each namespace, all at once, and return their outputs. A failure, or the end of `seconds`, ends all."""
        group = [self.start(rank, command(rank)) for rank in range(self.ranks)]
        end = time.monotonic() + seconds
        try:
            outputs = [child.communicate(timeout=max(end - time.monotonic(), 0.1))[0] for child in group]
        finally:
            for child in group:
                child.kill()
                child.wait()
        for rank, child in enumerate(group):
            if child.returncode != 0:
                raise SystemExit(f"rank {rank} ended with {child.returncode}")
        return outputs


def bench(lines, build, seconds=300, **options):
    """Run bench_exchange, and return what it prints as a dict. Options with the value None are left out."""
    words = [f"{key}={value}" for key, value in options.items() if value is not None]
    return json.loads(lines.run(lambda rank: [os.path.join(build, "bin", "bench_exchange"), *words], seconds)[0])


def steps_for(floats, rate, ranks, coded):
    """Number of steps that take about 6 seconds, from 3 to 60. Coded steps are short, and the first ones send less."""
    if rate is None or coded:
        return 40
    step = 2 * (ranks - 1) / ranks * 4 * floats * 8 / rate / 0.9
    return max(3, min(60, round(6 / step)))


# Columns: name, number of aggregators, options of bench_exchange.
DESIGNS = [("owners", 0, {}),
           ("ring", 0, {"collective": "ring"}),
           ("star", 1, {"collective": "owners:aggregators=1"}),
           ("owners, 3lc:s=1.75", 0, {"codec": "3lc:s=1.75", "pull": "3lc:s=1.75"}),
           ("star, 3lc:s=1", 1, {"collective": "owners:aggregators=1", "codec": "3lc:s=1", "pull": "3lc:s=1"})]


def leg_bytes(got, workers, aggregators):
    """Bytes through the busiest line in one direction. In a star it is the aggregator's line, to which all workers send."""
    return got["bytes"] * (workers if aggregators else 1)


def efficiency(options):
    extra = dict(word.split("=", 1) for word in options.words)
    print("| floats | rate | design | seconds | share of the line | CPU of a rank, s |")
    print("|--:|--:|---|--:|--:|--:|")
    for rate in options.rates.split(","):
        for floats in map(int, options.floats.split(",")):
            for name, aggregators, own in DESIGNS:
                if options.designs is not None and name not in options.designs.split(";"):
                    continue
                settings = {"floats": floats, "steps": steps_for(floats, RATES[rate], options.ranks, "codec" in own),
                            "congestion": options.congestion, **own, **extra}
                with Lines(options.ranks + aggregators, rate, realtime=True) as lines:
                    got = bench(lines, options.build, **settings)
                sent = leg_bytes(got, options.ranks, aggregators)
                share = f"{sent * 8 / RATES[rate] / got['seconds']:.3f}" if RATES[rate] else ""
                print(f"| {floats} | {rate} | {name} | {got['seconds']:.4g} | {share} | {got['cpu']:.3g} |", flush=True)


def run(options):
    with Lines(options.ranks, options.rate) as lines:
        for rank, output in enumerate(lines.run(lambda rank: options.words, options.seconds)):
            for line in output.splitlines():
                print(f"{rank}: {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.set_defaults(work=run)
    one.add_argument("--rate", default="none", choices=RATES)
    one.add_argument("--seconds", type=float, default=300)
    table = commands.add_parser("efficiency")
    table.set_defaults(work=efficiency)
    table.add_argument("--build", default="build/release")
    table.add_argument("--rates", default="10mbit,100mbit,1gbit")
    table.add_argument("--floats", default="430000,11200000")
    table.add_argument("--congestion", default="reno")
    table.add_argument("--designs", help="some of them, with semicolons")
    for command in (one, table):
        command.add_argument("--ranks", type=int, default=4)
        command.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
