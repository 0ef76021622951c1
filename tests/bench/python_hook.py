"""The hook for DistributedDataParallel beside PyTorch's own: LeNet on MNIST by four processes, on lines of 100 Mbit and 1 Gbit.

    python_hook.py [steps=200] [batch=16] [rates=100mbit,1gbit] [hooks=NAME,NAME]

Each process is a host of deploy/nic.sh, without cards: a network namespace of its own, whose line tc limits. The table has the
bytes that host 1's line carried both ways, CPU time of all processes, and the time to an accuracy of 95 % on the test set; the
time of measuring it, every 20 steps, is left out. It needs root, ip, tc, torch and the package fed; FED_MNIST_DIR names MNIST's
folder. It ends with 77 where one is missing.
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
OPTIONS = {"steps": 200, "batch": 16, "rates": "100mbit,1gbit",
           "hooks": "float32,fp16,powersgd,3lc:s=1.75,3lc:s=1.75+runs,sbc:p=0.01"}
RANKS, GOAL, EVERY = 4, 0.95, 20


def register(model, name):
    if name == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == "powersgd":  # PyTorch's defaults but for the start, which is after 1,000 steps
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=10)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name != "float32":
        model.register_comm_hook(fed.torch.Residuals(), fed.torch.hook(name))


def work(rank, name, options):
    """One process. Rank 0 tells what happened."""
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="tcp://10.78.0.1:29500", rank=rank, world_size=RANKS)
    module = lenet.lenet()
    model = torch.nn.parallel.DistributedDataParallel(module)
    register(model, name)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9)
    x, y = lenet.mnist("train")
    batches = lenet.batches(x[rank::RANKS], y[rank::RANKS], options["batch"], rank)
    test = [one[:2000] for one in lenet.mnist("t10k")]
    seconds, reached, accuracy, cpu = 0.0, None, 0.0, 0.0
    for step in range(1, options["steps"] + 1):
        torch.distributed.barrier()
        begin, used = time.monotonic(), time.process_time()
        optimizer.zero_grad()
        pictures, labels = next(batches)
        torch.nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
        seconds, cpu = seconds + time.monotonic() - begin, cpu + time.process_time() - used
        if rank == 0 and step % EVERY == 0:
            accuracy = lenet.accuracy(module, *test)
            if reached is None and accuracy >= GOAL:
                reached = (step, seconds)
    print("result", json.dumps({"seconds": seconds, "cpu": cpu, "reached": reached, "accuracy": accuracy}), flush=True)
    del model, optimizer  # docs/python.md says why
    gc.collect()
    torch.distributed.destroy_process_group()


def lab(*words):
    return subprocess.run([ROOT / "deploy" / "nic.sh", *words], stdout=subprocess.PIPE, text=True, check=True,
                          env=dict(os.environ, NIC_LAB="pyhook")).stdout


def line_bytes():
    """What host 1's line carried: sent and received."""
    return sum(int(word) for word in lab("bytes").splitlines()[0].split()[1:])


def measure(name, rate, options):
    lab("up", str(RANKS), rate, "plain")
    try:
        before = line_bytes()
        started = [subprocess.Popen(["ip", "netns", "exec", f"pyhook-h{rank + 1}", sys.executable, __file__, "work", str(rank), name,
                                     json.dumps(options)], stdout=subprocess.PIPE, text=True) for rank in range(RANKS)]
        told = []
        for one in started:
            said = one.communicate(timeout=900)[0]
            if one.returncode != 0:
                sys.exit(f"a process ended with {one.returncode}")
            told.append(json.loads(said[said.index("result ") + 7:].splitlines()[0]))
        return {**told[0], "cpu": sum(one["cpu"] for one in told), "bytes": line_bytes() - before}
    finally:
        lab("down")


def main():
    if sys.argv[1:2] == ["work"]:
        return work(int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
    options = {**OPTIONS, **{key: type(OPTIONS[key])(value) for key, value in (word.split("=", 1) for word in sys.argv[1:])}}
    print("| line | hook | kB a step, host 1 | s a step | CPU s a step, all | steps to 95 % | s to 95 % | last accuracy |\n"
          "|---|---|---|---|---|---|---|---|")
    for rate in options["rates"].split(","):
        for name in options["hooks"].split(","):
            row = measure(name, rate, options)
            steps, seconds = row["reached"] or ("-", float("nan"))
            print(f"| {rate} | {name} | {row['bytes'] / options['steps'] / 1e3:.1f} | {row['seconds'] / options['steps']:.3f} "
                  f"| {row['cpu'] / options['steps']:.3f} | {steps} | {seconds:.1f} | {row['accuracy']:.1%} |", flush=True)


if __name__ == "__main__":
    main()
