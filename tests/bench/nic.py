#!/usr/bin/env python3
"""Measure the software NIC: hosts in network namespaces, each behind fednic, compared with plain TCP in the same run.

    nic.py [PART...]     all parts, or some of them:
      pure         bench_nic: the NIC's code without sockets
      throughput   one stream of marked floats through two NICs, MTU packets and TSO; unmarked flows through them
      training     INCEPTIONN's figures 12 and 13: star and ring, with and without the NIC, seconds a step and to equal accuracy
      exchange     figure 15: an exchange of 2 to 8 workers, beside the cost model with measured terms
      cpu          what the codec costs the hosts: none, in software, in the NIC

    --build DIR   where bin/fednic, bin/fedworker, bin/fedtrain, bin/bench_exchange and bin/bench_nic are (build/release)
    --data DIR    MNIST (FED_MNIST_DIR, or build/data/mnist)       --seconds N   of each stream (3)
    --rates R,R   of training and exchange (100mbit,1gbit)         --quick       does the command work?

It needs root, ip, tc, ethtool and /dev/net/tun; it removes what it made. Floats are gradients of LeNet after 100 steps on
MNIST. All hosts and all NICs share this machine's cores.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import array
import contextlib
import json
import os
import re
import resource
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import datacenter
import datacenter_papers

MARK = 0x28  # FEDNIC_MARKED
PIECE = 1 << 20
BOUND = "10"
TICK = os.sysconf("SC_CLK_TCK")


class NICs(datacenter.Lines):
    """Lines whose hosts have a NIC: nic0 has the host's address, and fednic forwards between nic0 and eth0."""

    program = None

    def __init__(self, ranks, rate="none", words=(), direct=False):
        super().__init__(ranks, rate, direct)
        self.words, self.nics = list(words), []
        self.folder = tempfile.TemporaryDirectory()

    def __exit__(self, *what):
        for nic in self.nics:
            nic.terminate()
        super().__exit__(*what)
        self.folder.cleanup()

    def add(self, rank):
        name = self.names[rank]
        control = os.path.join(self.folder.name, f"{rank}.sock")
        nic = subprocess.Popen([*self.prefix(rank), self.program, "--tun", "nic0", "--wire", "eth0", "--bound", "2^-" + BOUND,
                                 "--control", control, *self.words], stdout=subprocess.PIPE, text=True)
        self.children.append(nic)
        self.nics.append(nic)
        for line in nic.stdout:
            if "ready" in line:
                break
        else:
            raise SystemExit(f"{self.program} ended before it was ready")
        self.inside(name, "ip", "addr", "add", self.address(rank) + "/16", "dev", "nic0")
        self.inside(name, "ip", "link", "set", "nic0", "up")


def device(lines):
    return "nic0" if isinstance(lines, NICs) else "eth0"


def wire_bytes(lines, rank):
    """Return the bytes that a rank's line has sent and received."""
    text = subprocess.run(["ip", "-n", lines.names[rank], "-s", "-j", "link", "show", "eth0"], capture_output=True, check=True).stdout
    stats = json.loads(text)[0]["stats64"]
    return stats["tx"]["bytes"], stats["rx"]["bytes"]


class Spent:
    """Measure CPU seconds from the object's creation to read(): of child processes that have ended, of the NICs, and of the machine."""

    def __init__(self, lines):
        self.nics = getattr(lines, "nics", [])
        self.begin = self.now()

    def now(self):
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        nics = 0
        for nic in self.nics:
            with open(f"/proc/{nic.pid}/stat", encoding="ascii") as file:
                nics += sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / TICK
        with open("/proc/stat", encoding="ascii") as file:
            numbers = list(map(int, file.readline().split()[1:]))
        busy = (sum(numbers[:8]) - numbers[3] - numbers[4]) / TICK
        return used.ru_utime + used.ru_stime, nics, busy

    def read(self):
        workers, nics, busy = (b - a for a, b in zip(self.begin, self.now()))
        return {"workers": workers, "nics": nics, "rest": max(0.0, busy - workers - nics)}


def read_weights(path):
    with open(path, "rb") as file:
        data = file.read()
    head = struct.unpack("<Q", data[:8])[0]
    tensors = json.loads(data[8:8 + head])
    end = max(tensor["data_offsets"][1] for name, tensor in tensors.items() if not name.startswith(("__", "optimizer")))
    return array.array("f", data[8 + head:8 + head + end])


def gradients(options, folder, count):
    """Make a file of `count` gradients. A gradient is the weights less those after one step of sgd at rate 1; each has its own samples."""
    program = os.path.join(options.build, "bin", "fedtrain")
    common = [program, "train", "--model", "lenet5-caffe", "--data", options.data, "--batch", "16"]
    begin, after, path = (os.path.join(folder, name) for name in ("begin", "after", "gradients"))
    subprocess.run([*common, "--steps", "100", "--optimizer", "momentum:lr=0.02", "--checkpoint", begin], check=True,
                   stdout=subprocess.DEVNULL, timeout=120)
    weights = read_weights(begin)
    with open(path, "wb") as file:
        for k in range(count):
            subprocess.run([*common, "--steps", "1", "--optimizer", "sgd:lr=1", "--seed", str(k + 2), "--init", begin, "--checkpoint",
                            after], check=True, stdout=subprocess.DEVNULL, timeout=120)
            array.array("f", (a - b for a, b in zip(weights, read_weights(after)))).tofile(file)
            os.unlink(after)
    return path, len(weights)


def part_pure(options):
    with tempfile.TemporaryDirectory() as folder:
        path, _ = gradients(options, folder, 4)
        one = os.path.join(folder, "gradient.f32")
        os.rename(path, one)
        subprocess.run([os.path.join(options.build, "bin", "bench_nic"), one], check=True, timeout=120)


def send(address, path, seconds, mark):
    with open(path, "rb") as file:
        data = memoryview(file.read())
    with socket.socket() as stream:
        if mark:
            stream.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, MARK)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        stream.settimeout(10)
        stream.connect((address, datacenter.PORT))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for at in range(0, len(data), PIECE):
                stream.sendall(data[at:at + PIECE])


def receive(seconds):
    """Receive a stream, and print its bytes and seconds without the first half second, and the bytes of all."""
    buffer = bytearray(PIECE)
    with socket.create_server(("", datacenter.PORT)) as server:
        server.settimeout(seconds + 10)
        print("ready", flush=True)
        stream, _ = server.accept()
        with stream:
            stream.settimeout(10)
            begin = last = time.monotonic() + 0.5
            count = early = 0
            while got := stream.recv_into(buffer):
                last = time.monotonic()
                count, early = (count + got, early) if last > begin else (count, early + got)
    print(json.dumps({"bytes": count, "seconds": last - begin, "all": count + early}))


def stream(lines, options, path, tso, mark):
    """Return Gbit/s from rank 0 to rank 1, and the bytes on the line for each payload byte."""
    for rank in range(2):
        # Set it at eth0, too: the kernel forwards segments to eth0 before it cuts them.
        for name in {"eth0", device(lines)}:
            subprocess.run(["ip", "netns", "exec", lines.names[rank], "ethtool", "-K", name, "tso", "on" if tso else "off"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    me = [sys.executable, os.path.abspath(__file__)]
    seconds = str(options.seconds)
    before = wire_bytes(lines, 0)[0]
    receiver = lines.start(1, [*me, "receive", seconds])
    if receiver.stdout.readline().strip() != "ready":
        raise SystemExit("nic.py receive did not begin")
    sender = lines.start(0, [*me, "send", lines.address(1), path, seconds, "mark" if mark else "plain"])
    sender.communicate(timeout=options.seconds + 30)
    got = json.loads(receiver.communicate(timeout=30)[0])
    return 8e-9 * got["bytes"] / got["seconds"], (wire_bytes(lines, 0)[0] - before) / got["all"]


# Columns: name, whether hosts have NICs, fednic's options, whether the stream is marked, goals (for MTU, for TSO, and
# whether they are fractions of veth's speed).
STREAMS = [("veth alone", False, [], False, None),
           ("marked, two nics", True, [], True, (1.2, 4.0, False)),
           ("unmarked, two nics", True, [], False, None),
           ("unmarked, past the nics", True, ["--bypass"], False, (0.8, 0.8, True))]


def part_throughput(options):
    rounds = 1 if options.quick else 3
    got = {}
    with tempfile.TemporaryDirectory() as folder:
        path, _ = gradients(options, folder, 1)
        for _ in range(rounds):
            for name, nics, words, mark, _ in STREAMS:
                with hosts(nics, 2, "none", words, direct=True) as lines:
                    for tso in (False, True):
                        got.setdefault((name, tso), []).append(stream(lines, options, path, tso, mark))
    print(f"| Gbit/s of one stream, median of {rounds} | MTU | of veth | TSO | of veth | bytes of the line a byte, MTU, TSO | goal MTU, TSO |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    median = {key: [statistics.median(run[k] for run in runs) for k in (0, 1)] for key, runs in got.items()}
    for name, _, _, _, goal in STREAMS:
        row = f"| {name} |"
        for tso in (False, True):
            row += f" {median[name, tso][0]:.2f} | {median[name, tso][0] / median['veth alone', tso][0]:.2f} |"
        goals = "" if goal is None else f"{goal[0]}, {goal[1]}" + (" of veth" if goal[2] else "")
        print(f"{row} {median[name, False][1]:.3f}, {median[name, True][1]:.3f} | {goals} |", flush=True)


def hosts(nics, ranks, rate, words=(), direct=False):
    return NICs(ranks, rate, words, direct) if nics else datacenter.Lines(ranks, rate, direct)


LENET = ["--model", "lenet5-caffe", "--batch", "16", "--optimizer", "momentum:lr=0.02"]
MODELS = [("LeNet", LENET, 98.3), ("HDC", datacenter_papers.HDC, 96.5)]
STEPS = {"10mbit": 4, "100mbit": 8, "1gbit": 40}
PLAIN = ["--sync", "ssgd"]


def with_nic(kind):
    return ["--sync", "bitsgd", "--nic", f"{kind}:e={BOUND}"]


# Columns: name in the paper, name in the table, number of aggregators, whether the NIC compresses.
DESIGNS = [("WA", "star", 1, False), ("WA+C", "star", 1, True), ("INC", "ring", 0, False), ("INC+C", "ring", 0, True)]
ACCURACY = re.compile(r"step (\d+):.* accuracy ([0-9.]+) %")


def steps_to(trainer, words, wanted, epochs):
    """Return the steps until an epoch ends with a test accuracy of `wanted` percent. It trains with threads: all links give the same bits."""
    command = [trainer.program, "train", *trainer.common, "--workers", "4", "--epochs", str(epochs), *words]
    with subprocess.Popen(["timeout", "-k", "5", "240", *command], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            found = ACCURACY.search(line)
            if found and float(found.group(2)) >= wanted:
                run.terminate()
                return int(found.group(1))
    return None


def part_training(options):
    trainer = datacenter_papers.Trainer(options)
    print("| model | line | design | ms a step | compute | waiting for the exchange | step, of WA | same digest as inline |")
    print("|---|---|---|--:|--:|--:|--:|---|")
    seconds = {}
    for model, words, _ in MODELS:
        for rate in options.rates.split(","):
            for name, collective, extra, nic in DESIGNS:
                more = ["--collective", collective, *(with_nic("packet") if nic else PLAIN)]
                got = trainer.lines([*words, *more], rate, 4, extra, steps=2 if options.quick else STEPS[rate],
                                    hosts=lambda ranks, rate, nic=nic: hosts(nic, ranks, rate))
                same = ""
                if nic:
                    inline = trainer.here([*words, "--collective", collective, *with_nic("inline")], steps=got["steps"])
                    same = "yes" if inline["digest"] == got["digest"] else "NO"
                step, compute, exposed = (1000 * got[key] / got["steps"] for key in ("step_s", "compute_s", "exposed_s"))
                seconds[model, rate, name] = step / 1000
                print(f"| {model} | {rate} | {name} | {step:.1f} | {compute:.1f} | {exposed:.1f} | "
                      f"{step / 1000 / seconds[model, rate, 'WA']:.3f} | {same} |", flush=True)
    equal_accuracy(options, trainer, seconds)


def equal_accuracy(options, trainer, seconds):
    most = 1 if options.quick else 6
    rates = options.rates.split(",")
    print("\n| model | accuracy | steps, WA | steps, INC+C |" + "".join(f" seconds at {rate}, WA | INC+C | times as fast |" for rate in rates))
    print("|---|--:|--:|--:|" + "--:|--:|--:|" * len(rates))
    for model, words, wanted in MODELS:
        plain = steps_to(trainer, [*words, "--collective", "star", *PLAIN], wanted, most)
        coded = steps_to(trainer, [*words, "--collective", "ring", *with_nic("inline")], wanted, most)
        row = f"| {model} | {wanted} % | {plain or 'not'} | {coded or 'not'} |"
        for rate in rates:
            times = [steps * seconds[model, rate, name] if steps else None for steps, name in ((plain, "WA"), (coded, "INC+C"))]
            row += "".join(f" {t:.1f} |" if t else " |" for t in times)
            row += f" {times[0] / times[1]:.2f} |" if all(times) else " |"
        print(row, flush=True)


def terms(options, rate):
    """Measure alpha and the cost of a message in us, and the line's Mbit/s, between two hosts by link tcp alone."""
    with datacenter.Lines(2, rate) as lines:
        def raw(**words):
            return datacenter.bench(lines, options.build, raw=1, congestion="reno", **words)
        alpha = raw(floats=2, steps=200)["seconds"] / 2
        many = raw(floats=2 * 65536, bucket=256, steps=5)
        message = many["seconds"] / (2 * 65536 * 4 / 256)
        if datacenter.RATES[rate] is not None:
            message = max(0.5e-6, message - 256 * 8 / datacenter.RATES[rate])
        whole = raw(floats=1 << 20, steps=5 if datacenter.RATES[rate] != 10e6 else 3)
    return 1e6 * alpha, 1e6 * message, 8e-6 * whole["bytes"] / whole["seconds"]


def nic_gbit(options, ranks, path, floats):
    """Return Gbit/s of float32 that each of `ranks` NICs on this machine handles, in both directions at once."""
    with hosts(True, ranks, "none") as lines:
        got = datacenter.bench(lines, options.build, raw=1, congestion="reno", floats=floats, values=path, nic=f"packet:e={BOUND}", steps=20)
    return 8e-9 * got["bytes"] / got["seconds"]


def predicted(options, workers, rate, ratio, gbit, alpha, message):
    """Return {way: (ms with float32, ms with NICs)} as fedworker predict computes them."""
    command = [os.path.join(options.build, "bin", "fedworker"), "predict", "--model", "lenet5-caffe", "--rate", str(max(1, round(rate))),
               "--workers", str(workers), "--codec", f"inceptionn:e={BOUND}", "--pull", f"inceptionn:e={BOUND}", "--ratio", f"{ratio:.3f}",
               "--nic-gbit", f"{gbit:.4f}", "--latency-us", f"{alpha:.2f}", "--message-us", f"{message:.3f}", "--compute-ms", "1"]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    row = re.search(rf"^ *{workers} (.*)$", text, re.M).group(1)
    plain, coded = (list(map(float, half.split())) for half in row.split("|"))
    return {way: (plain[k], coded[k]) for k, way in enumerate(("star", "ring", "owners", "central", "gather"))}


def timed_exchange(options, nic, workers, rate, collective, path, floats):
    """Return the ms of an exchange, the float32 bytes in one direction of the busiest line, and the bytes that this line carried with headers."""
    extra = 1 if collective == "star" else 0
    steps = 2 if options.quick else {"10mbit": 3, "100mbit": 4}.get(rate, 12)
    with hosts(nic, workers + extra, rate) as lines:
        busiest = workers if extra else 0
        before = wire_bytes(lines, busiest)
        got = datacenter.bench(lines, options.build, collective="owners:aggregators=1" if extra else "ring", floats=floats, steps=steps,
                               values=path, congestion="reno", nic=f"packet:e={BOUND}" if nic else None)
        carried = max(after - sent for after, sent in zip(wire_bytes(lines, busiest), before))
    return 1000 * got["seconds"], datacenter.leg_bytes(got, workers, extra), carried / (steps + 2)


def part_exchange(options):
    sizes = (2, 4) if options.quick else (2, 3, 4, 6, 8)
    with tempfile.TemporaryDirectory() as folder:
        path, floats = gradients(options, folder, max(sizes))
        nics = {workers: nic_gbit(options, workers, path, floats) for workers in sizes}
        for rate in options.rates.split(","):
            alpha, message, mbit = terms(options, rate)
            print(f"\nms an exchange of {floats:,} values at {rate}. Measured terms: alpha {alpha:.0f} us, a message {message:.2f} us, "
                  f"the line {mbit:.1f} Mbit/s, nics of " + ", ".join(f"{w} hosts {g:.2f}" for w, g in nics.items()) + " Gbit/s each\n")
            print("| workers |" + "".join(f" {name} | model ÷ it |" for name, *_ in DESIGNS) + " times fewer bytes: star, ring |")
            print("|--:|" + "--:|--:|" * len(DESIGNS) + "--:|")
            for workers in sizes:
                print(exchange_row(options, workers, rate, path, floats, nics, (alpha, message, mbit)), flush=True)


def exchange_row(options, workers, rate, path, floats, nics, measured):
    """Make a table row. The machine has two cores. All floats pass an aggregator's NIC, so the model gives this NIC a core of its own: the speed
    measured with two hosts."""
    alpha, message, mbit = measured
    row, ratios = f"| {workers} |", []
    for collective, way, gbit in (("star", "central", nics[2]), ("ring", "ring", nics[workers])):
        plain_ms, sent, _ = timed_exchange(options, False, workers, rate, collective, path, floats)
        nic_ms, _, carried = timed_exchange(options, True, workers, rate, collective, path, floats)
        # The ratio of bytes on the line, with headers.
        ratios.append(sent * datacenter.RATES[rate] / (1e6 * mbit) / carried)
        model = predicted(options, workers, mbit, ratios[-1], gbit, alpha, message)[way]
        row += f" {plain_ms:.1f} | {model[0] / plain_ms:.2f} | {nic_ms:.1f} | {model[1] / nic_ms:.2f} |"
    return f"{row} {ratios[0]:.1f}, {ratios[1]:.1f} |"


CODERS = [("none", False, PLAIN),
          ("software: codec inceptionn", False, datacenter_papers.coded(f"inceptionn:e={BOUND}")),
          ("the NICs: nic packet", True, with_nic("packet"))]


def part_cpu(options):
    """Measure CPU as the difference of a long and a short training, so that start-up costs do not count."""
    trainer = datacenter_papers.Trainer(options)
    few, many = (5, 15) if options.quick else (20, 120)
    rate = "1gbit"
    print(f"LeNet, ring of 4 at {rate}; CPU ms a step of all four\n")
    print("| codec | ms a step | workers | of these, codec | nics | rest of the machine |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, nic, words in CODERS:
        spent = []
        for steps in (few, many):
            def opened(ranks, rate, nic=nic, spent=spent):
                return counting(hosts(nic, ranks, rate), spent)
            got = trainer.lines([*LENET, "--collective", "ring", *words], rate, 4, hosts=opened, steps=steps)
        each = {key: 1000 * (spent[1][key] - spent[0][key]) / (many - few) for key in spent[0]}
        codec = 1000 * 4 * (got["encode_s"] + got["decode_s"]) / got["steps"]
        print(f"| {name} | {1000 * got['mean_step_s']:.1f} | {each['workers']:.1f} | {codec:.1f} | {each['nics']:.1f} | "
              f"{each['rest']:.1f} |", flush=True)


@contextlib.contextmanager
def counting(lines, spent):
    """Yield the lines; at the end, append the CPU seconds spent while they were open to the list."""
    with lines as opened:
        count = Spent(opened)
        yield opened
        spent.append(count.read())


PARTS = {"pure": part_pure, "throughput": part_throughput, "training": part_training, "exchange": part_exchange, "cpu": part_cpu}


def main():
    if sys.argv[1:2] == ["send"]:
        return send(sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5] == "mark")
    if sys.argv[1:2] == ["receive"]:
        return receive(float(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[[], *PARTS])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--data", default=os.environ.get("FED_MNIST_DIR", "build/data/mnist"))
    parser.add_argument("--rates", default="100mbit,1gbit")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        sys.exit("nic.py: namespaces and NICs need root and /dev/net/tun")
    if options.quick:
        options.seconds, options.steps = 1, 10
    NICs.program = os.path.abspath(os.path.join(options.build, "bin", "fednic"))
    for part in options.parts or PARTS:
        begin = time.monotonic()
        print(f"\n## {part}\n")
        PARTS[part](options)
        print(f"\n{time.monotonic() - begin:.0f} s", flush=True)
    return None


if __name__ == "__main__":
    main()
