#!/usr/bin/env python3
"""Compare the seconds of an exchange: ours, MPI_Allreduce (its default, and the segmented ring) and gloo, in one run.

    allreduce.py [--rate machine|10mbit|100mbit|1gbit|none] [--ranks N] [--floats N,N] [--rounds N] [--steps N] [--build DIR]
                 [--python COMMAND] [--only DESIGN,DESIGN] [--realtime]

machine: ranks are processes or threads of this machine, which share its memory; MPI then uses that too. Else each rank is in
a network namespace behind a line of that rate (datacenter.py), which needs root.

Designs take turns, round after round, so that other load on the machine affects all of them. The table has the median over the
rounds of each design's median step, the fastest step, and CPU seconds a rank and step. "left" means that the sum is left where
it lies, for an optimizer to read; "copied", and all of MPI and gloo, put it into the caller's memory. gloo is left out where
PyTorch is not installed; --python "chroot DIR python3" takes another system's.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

import datacenter

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 120  # limit of a run that hangs
SKIPPED = 77
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1"}
SEGMENTED_RING = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_allreduce_algorithm": "5",
                  "OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize": "262144"}
# A replacement for rsh: mpirun calls it with an address and the command that starts a daemon there.
AGENT = """#!/bin/sh
host=$1; shift
rank=${host##*.}; rank=$((rank - 1))
exec nice -n @NICE@ ip netns exec @TAG@r$rank unshare --uts sh -c "hostname host$rank; $*"
"""


def priority(realtime):
    """The words before a command that give it a higher priority than other programs; realtime: than all of them."""
    return datacenter.REALTIME if realtime else ["nice", "-n", str(datacenter.NICE)]


class Machine:
    """All ranks on this machine."""

    def __init__(self, ranks, realtime):
        self.ranks, self.first = ranks, priority(realtime)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, command):
        """Like datacenter.Lines.run, but on the loopback interface."""
        addresses = ",".join(f"127.0.0.1:{datacenter.PORT + rank}" for rank in range(self.ranks))
        group = [subprocess.Popen([*self.first, *command(rank)], stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, FED_RANK=str(rank), FED_SIZE=str(self.ranks), FED_ADDRESSES=addresses))
                 for rank in range(self.ranks)]
        try:
            outputs = [child.communicate(timeout=SECONDS)[0] for child in group]
        finally:
            for child in group:
                child.kill()
                child.wait()
        if any(child.returncode for child in group):
            raise SystemExit(max(child.returncode for child in group))
        return outputs

    def mpirun(self):
        return ["mpirun", "-n", str(self.ranks)]


class Lines(datacenter.Lines):
    """Each rank behind a line of its own; mpirun reaches the namespaces too."""

    def mpirun(self):
        if not hasattr(self, "agent"):
            self.agent = tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False)
            self.agent.write(AGENT.replace("@TAG@", self.tag).replace("@NICE@", str(datacenter.NICE)))
            self.agent.close()
            os.chmod(self.agent.name, 0o755)
        hosts = ",".join(self.address(rank) for rank in range(self.ranks))
        return [*self.prefix(0), "unshare", "--uts", "sh", "-c", "hostname host0; exec \"$@\"", "sh", "mpirun", "-n", str(self.ranks),
                "--host", hosts, "--mca", "plm_rsh_agent", self.agent.name, "--mca", "plm_rsh_no_tree_spawn", "1",
                "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]

    def __exit__(self, *what):
        super().__exit__(*what)
        if hasattr(self, "agent"):
            os.unlink(self.agent.name)


class Table:
    def __init__(self, place, options):
        self.place, self.options = place, options
        self.got = {}
        self.left_out = set()

    def ours(self, *words):
        return [os.path.abspath(os.path.join(self.options.build, "bin/bench_exchange")), *words]

    def once(self, command, environment=None):
        """Run one command, which starts all ranks, and return what rank 0 prints."""
        first = priority(self.options.realtime)
        run = subprocess.run(["timeout", "-k", "10", str(SECONDS), *first, *command], stdout=subprocess.PIPE, text=True, check=True,
                             env={**os.environ, **ROOT, **(environment or {})})
        return run.stdout

    def gloo(self, words):
        with open(os.path.join(HERE, "gloo_worker.py"), encoding="utf-8") as file:
            text = file.read()
        interface = "lo" if isinstance(self.place, Machine) else "eth0"
        return self.place.run(lambda rank: ["env", f"GLOO_SOCKET_IFNAME={interface}", *shlex.split(self.options.python), "-c", text, *words])[0]

    def designs(self, floats, steps):
        words = [f"floats={floats}", f"steps={steps}"]
        mpirun = self.place.mpirun
        theirs = os.path.abspath(os.path.join(self.options.build, "bin/bench_allreduce"))
        size = f"size={self.options.ranks}"
        designs = {}
        if isinstance(self.place, Machine):
            designs["threads, owners, left"] = lambda: self.once(self.ours("link=threads", size, "leave=1", *words))
            designs["threads, owners, copied"] = lambda: self.once(self.ours("link=threads", size, *words))
        else:
            for collective in ("owners", "ring"):
                designs[f"tcp, {collective}, copied"] = lambda collective=collective: self.place.run(
                    lambda rank: self.ours("link=tcp", f"collective={collective}", f"congestion={self.options.congestion}", *words))[0]
        designs["mpi, owners, copied"] = lambda: self.once([*mpirun(), *self.ours("link=mpi", *words)])
        for spec in self.options.codecs.split():
            link = "threads" if isinstance(self.place, Machine) else "tcp"
            coded = [f"link={link}", f"codec={spec}", f"pull={spec}", *words]
            designs[f"{link}, owners, {spec}"] = (
                (lambda coded=coded: self.once(self.ours(*coded, size, "leave=1"))) if link == "threads" else
                (lambda coded=coded: self.place.run(lambda rank: self.ours(*coded, f"congestion={self.options.congestion}"))[0]))
        designs["MPI_Allreduce"] = lambda: self.once([*mpirun(), theirs, *words])
        designs["MPI_Allreduce, segmented ring"] = lambda: self.once(
            [*mpirun(), *(word for key, value in SEGMENTED_RING.items() for word in ("-x", f"{key}={value}")), theirs, *words], SEGMENTED_RING)
        designs["gloo"] = lambda: self.gloo(words)
        only = self.options.only
        return {name: run for name, run in designs.items() if not only or any(word in name for word in only.split(","))}

    def measure(self, floats, steps):
        for _ in range(self.options.rounds):
            for name, run in self.designs(floats, steps).items():
                if name in self.left_out:
                    continue
                try:
                    self.got.setdefault((floats, name), []).append(json.loads(run()))
                except SystemExit as end:
                    if str(SKIPPED) not in str(end.code):
                        raise
                    self.left_out.add(name)
                    del self.got[(floats, name)]

    def print(self):
        print("| values | design | s, median | fastest | CPU s a rank | MPI_Allreduce ÷ this: median, fastest |")
        print("|---|---|---|---|---|---|")
        for (floats, name), runs in self.got.items():
            theirs = self.got.get((floats, "MPI_Allreduce"))
            median, fastest = statistics.median(run["seconds"] for run in runs), min(run["fastest"] for run in runs)
            cpu = statistics.median(run["cpu"] for run in runs) / (self.options.ranks if name.startswith("threads") else 1)
            ratio = ""
            if theirs:
                ratio = (f"{statistics.median(run['seconds'] for run in theirs) / median:.2f}, "
                         f"{min(run['fastest'] for run in theirs) / fastest:.2f}")
            print(f"| {floats:,} | {name} | {median:.3g} | {fastest:.3g} | {cpu:.3g} | {ratio} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="machine", choices=["machine", *datacenter.RATES])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--floats", default="430000,11200000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--congestion", default="reno")
    parser.add_argument("--codecs", default="", help="specs of push and pull, with blanks between: '3lc:s=1.75'")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="")
    parser.add_argument("--realtime", action="store_true", help="on one machine: ranks go before all other programs")
    options = parser.parse_args()
    with Machine(options.ranks, options.realtime) if options.rate == "machine" else Lines(options.ranks, options.rate) as place:
        table = Table(place, options)
        for floats in map(int, options.floats.split(",")):
            table.measure(floats, options.steps)
        table.print()


if __name__ == "__main__":
    main()
