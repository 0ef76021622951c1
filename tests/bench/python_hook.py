"""Compare fed's hook for DistributedDataParallel with PyTorch's: LeNet on MNIST by some processes, on lines of 100 Mbit and 1 Gbit.

    python_hook.py [steps=100] [batch=16] [goal=0.9] [ranks=4] [rates=100mbit,1gbit] [hooks=NAME,NAME]

Each process is a host of deploy/nic.sh, without NICs: a network namespace of its own, whose line tc limits. The table has the
bytes that host 1's line carried both ways after 20 steps, when PowerSGD's warm-up is over, CPU time of all processes, and the time to an accuracy of `goal` on 1,000 pictures of the
test set; the time of measuring it, every 10 steps, is left out. It needs root, ip, tc, torch and the package fed; FED_MNIST_DIR
names MNIST's folder. The exit status is 77 where one is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import gc
import json
import os
import pathlib
import subprocess
import sys
import time

try:
    import fed.torch
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    import python_lenet as lenet
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = {"steps": 100, "batch": 16, "goal": 0.9, "ranks": 4, "rates": "100mbit,1gbit",
           "hooks": "none,fp16,torch-powersgd,powersgd:rank=1,3lc:s=1,3lc:s=1.75"}
EVERY, TEST, WARM = 10, 1000, 20


def register(model, name):
    if name == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == "torch-powersgd":  # PyTorch's defaults, but the earliest start that it allows
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name != "none":
        model.register_comm_hook(fed.torch.Residuals(model), fed.torch.hook(name))


def line_bytes():
    """Return the bytes that this host's line has carried, sent and received."""
    return sum(int(pathlib.Path(f"/sys/class/net/eth0/statistics/{one}_bytes").read_text()) for one in ("tx", "rx"))


def train(rank, name, data, test, options):
    """Train from the first step. Returns what this process has measured."""
    module = lenet.lenet()
    # One bucket, because PyTorch aborts PowerSGD with two buckets on gloo.
    model = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=25)
    register(model, name)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9)
    batches = lenet.batches(data[0][rank::options["ranks"]], data[1][rank::options["ranks"]], options["batch"], rank)
    seconds, reached, accuracy, cpu = 0.0, None, 0.0, 0.0
    before = 0
    for step in range(1, options["steps"] + 1):
        torch.distributed.barrier()
        if step == WARM + 1:
            before = line_bytes()
        begin, used = time.monotonic(), time.process_time()
        optimizer.zero_grad()
        pictures, labels = next(batches)
        torch.nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
        seconds, cpu = seconds + time.monotonic() - begin, cpu + time.process_time() - used
        if rank == 0 and step % EVERY == 0:
            accuracy = lenet.accuracy(module, *test)
            if reached is None and accuracy >= options["goal"]:
                reached = (step, seconds)
    return {"seconds": seconds, "cpu": cpu, "reached": reached, "accuracy": accuracy, "bytes": line_bytes() - before}


def work(rank, options):
    """Main function of one process: train with each hook, and print a line for each."""
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    torch.set_num_threads(1)
    data, test = lenet.mnist("train"), [one[:TEST] for one in lenet.mnist("t10k")]
    torch.distributed.init_process_group("gloo", init_method="tcp://10.78.0.1:29500", rank=rank, world_size=options["ranks"])
    for name in options["hooks"].split(","):
        print(json.dumps(train(rank, name, data, test, options)), flush=True)
        gc.collect()  # frees the hook (docs/python.md)
    torch.distributed.destroy_process_group()


def lab(*words):
    return subprocess.run([ROOT / "deploy" / "nic.sh", *words], stdout=subprocess.PIPE, text=True, check=True,
                          env=dict(os.environ, NIC_LAB="pyhook")).stdout


def measure(rate, options):
    """Yield for each hook what all processes have printed."""
    lab("up", str(options["ranks"]), rate, "plain")
    try:
        started = [subprocess.Popen(["ip", "netns", "exec", f"pyhook-h{rank + 1}", sys.executable, "-W", "ignore", __file__, "work",
                                     str(rank), json.dumps(options)], stdout=subprocess.PIPE, text=True) for rank in range(options["ranks"])]
        for _ in options["hooks"].split(","):
            said = [one.stdout.readline() for one in started]
            if not all(said):
                sys.exit(f"a process failed: {[one.wait() for one in started]}")
            yield [json.loads(line) for line in said]
        for one in started:
            one.wait(60)
    finally:
        lab("down")


def main():
    if sys.argv[1:2] == ["work"]:
        return work(int(sys.argv[2]), json.loads(sys.argv[3]))
    options = {**OPTIONS, **{key: type(OPTIONS[key])(value) for key, value in (word.split("=", 1) for word in sys.argv[1:])}}
    print(f"| line | hook | kB a step after 20, host 1 | s a step | CPU s a step, all | steps to {options['goal']:.0%} | s to {options['goal']:.0%} | last accuracy |\n"
          "|---|---|---|---|---|---|---|---|")
    for rate in options["rates"].split(","):
        for name, told in zip(options["hooks"].split(","), measure(rate, options)):
            first, steps = told[0], options["steps"]
            needed, seconds = first["reached"] or ("-", float("nan"))
            print(f"| {rate} | {name} | {first['bytes'] / (steps - WARM) / 1e3:.1f} | {first['seconds'] / steps:.3f} "
                  f"| {sum(one['cpu'] for one in told) / steps:.3f} | {needed} | {seconds:.1f} | {first['accuracy']:.1%} |", flush=True)


if __name__ == "__main__":
    main()
