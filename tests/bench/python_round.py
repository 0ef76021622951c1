"""Compare a round by fed.torch with PyTorch alone: LeNet on MNIST, CPU time of one process, measured alternately.

    python_round.py [rounds=8] [steps=50] [batch=16] [codec=sbc:p=0.01]

Each round trains the same number of steps twice: by a plain loop of PyTorch, and by fed.torch in a real round, over HTTPS; which
of them is first changes with each round. A ratio is the median of the rounds', with the interval that holds it in 95 of 100 cases. It
needs torch and the package fed; FED_MNIST_DIR names MNIST's folder. The exit status is 77 where one is missing.
"""
# SPDX-License-Identifier: Apache-2.0
import statistics
import sys
import tempfile
import time

try:
    import fed
    import fed.torch
    import numpy as np
    import torch

    import python_lenet as lenet
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

OPTIONS = {"rounds": 8, "steps": 50, "batch": 16, "codec": "sbc:p=0.01"}


def train_plainly(module, batches, steps):
    """Train with a plain PyTorch loop. Returns its CPU seconds."""
    begin = time.process_time()
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02)
    total = 0.0
    for _ in range(steps):
        x, y = next(batches)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        total += float(loss.detach())
    return time.process_time() - begin


def codec_time(codec, module):
    """Return the CPU seconds of encoding a change of the module's size once."""
    change = np.random.default_rng(1).laplace(size=sum(one.numel() for one in module.parameters())).astype(np.float32)
    residual = np.zeros_like(change)
    times = []
    for _ in range(9):
        begin = time.process_time()
        fed.codecs.encode(codec, change, residual=residual)
        times.append(time.process_time() - begin)
    return statistics.median(times)


def middle(ratios):
    """Return the median, and the values around it between which it lies in 95 of 100 cases (the sign test's interval)."""
    ordered, count = sorted(ratios), len(ratios)
    away = round(0.98 * count ** 0.5)
    low, high = max(0, (count - 1) // 2 - away), min(count - 1, count // 2 + away)
    return f"{statistics.median(ratios):.3f} ({ordered[low]:.3f} to {ordered[high]:.3f})"


def main():
    options = {**OPTIONS, **{key: type(OPTIONS[key])(value) for key, value in (word.split("=") for word in sys.argv[1:])}}
    torch.set_num_threads(1)
    x, y = lenet.mnist("train")
    module = lenet.lenet()
    batches = lenet.batches(x, y, options["batch"], 1)
    plain, callback, whole = [], [], []

    class Sized:  # a data loader with a number of samples
        dataset = y

        def __iter__(self):
            return batches

    trainer = fed.torch.trainer(module, Sized(), torch.nn.functional.cross_entropy)

    def train(params, told):
        if told.number % 2 == 0:
            plain.append(train_plainly(module, batches, told.local_steps))
        begin = time.process_time()
        done = trainer(params, told)
        callback.append(time.process_time() - begin)
        if told.number % 2 == 1:
            plain.append(train_plainly(module, batches, told.local_steps))
        return done

    with tempfile.TemporaryDirectory() as home, fed.Coordinator(home + "/coordinator") as coordinator:
        fed.torch.save(module, home + "/first.safetensors")
        coordinator.submit({"model": fed.torch.layout(module), "initial": home + "/first.safetensors", "rounds": options["rounds"],
                            "cohort": 1, "local_steps": options["steps"], "learning_rate": 0.02, "codec_up": options["codec"]})
        with fed.Client(coordinator.url, coordinator.ca, home + "/device", coordinator.token()) as client:
            train_plainly(module, batches, 5)  # warm up
            last = time.process_time()

            def count(event):
                nonlocal last
                if event["outcome"] == "counted":
                    whole.append(time.process_time() - last)
                    last = time.process_time()

            client.run(train, count)
    print("| | CPU of a round, median, ms | of PyTorch alone |\n|---|---|---|")
    alone = statistics.median(plain)
    rest = [total - one - other for total, one, other in zip(whole, plain, callback)]
    print(f"| PyTorch alone, {options['steps']} steps | {1e3 * alone:.1f} | 1 |")
    print(f"| the same by `fed.torch` | {1e3 * statistics.median(callback):.1f} | {middle([a / b for a, b in zip(callback, plain)])} |")
    print(f"| download, codec, residual, upload | {1e3 * statistics.median(rest):.1f} | {statistics.median(rest) / alone:.3f} |")
    both = [a + b for a, b in zip(callback, rest)]
    print(f"| a device's whole round | {1e3 * statistics.median(both):.1f} | {middle([a / b for a, b in zip(both, plain)])} |")
    print(f"| of these, {options['codec']} alone | {1e3 * codec_time(options['codec'], module):.1f} | |")


if __name__ == "__main__":
    main()
