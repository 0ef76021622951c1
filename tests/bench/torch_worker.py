"""PyTorch's side of bench_train: trains for a moment whenever it is told to, one line a command.

    case NET BATCH OPTIMIZER    a net of torch_models.py, in both layouts -> "ready"
    slice LAYOUT SECONDS        "nchw" or "nhwc" (channels_last) -> samples and the CPU seconds that they took

The first line that it writes says which PyTorch this is, and which BLAS it calls.
"""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import re
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))

try:
    import torch
    from torch.nn import functional

    import torch_models
except ImportError:
    sys.exit(77)  # bench_train says so

LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
WARM_UP_STEPS = 3


def blas():
    """The library that a matrix product has loaded; of OpenBLAS also the kernels that it chose."""
    torch.ones(64, 64).mm(torch.ones(64, 64))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = re.findall(r"/\S*/lib(?:blas|openblas|mkl_rt|blis)\S*\.so\S*", maps.read())
    if not paths:
        return "a BLAS of its own"
    library = ctypes.CDLL(paths[0])
    try:
        library.openblas_get_config.restype = ctypes.c_char_p
        return f"{paths[0]} ({library.openblas_get_config().decode()})"
    except AttributeError:
        return paths[0]


def capability():
    return re.search(r"CPU capability usage: (\S+)", torch.__config__.show())[1]


class Trainer:
    """One net in one layout, with the batch that it sees again and again."""

    def __init__(self, net, batch, optimizer, layout):
        self.net, shape = torch_models.build(net)
        self.batch = batch
        self.x = torch.rand(batch, *shape)
        self.label = torch.arange(batch) % 10
        if len(shape) == 3:
            self.net = self.net.to(memory_format=LAYOUTS[layout])
            self.x = self.x.to(memory_format=LAYOUTS[layout])
        self.optimizer = OPTIMIZERS[optimizer](self.net.parameters(), lr=1e-4, foreach=True)
        for _ in range(WARM_UP_STEPS):
            self.step()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(self.net(self.x), self.label).backward()
        self.optimizer.step()

    def slice(self, seconds):
        samples, start, end = 0, time.process_time(), time.monotonic() + seconds
        while time.monotonic() < end:  # which needs no system call, as in bench_train
            self.step()
            samples += self.batch
        return samples, time.process_time() - start


def main():
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    print(f"PyTorch {torch.__version__} ({capability()}), BLAS {blas()}", flush=True)
    trainers = {}
    for line in sys.stdin:
        command, *words = line.split()
        if command == "case":
            net, batch, optimizer = words
            trainers = {layout: Trainer(net, int(batch), optimizer, layout) for layout in LAYOUTS}
            print("ready", flush=True)
        else:
            layout, seconds = words
            print(*trainers[layout].slice(float(seconds)), flush=True)


if __name__ == "__main__":
    main()
