"""PyTorch's side of bench_train: it reads commands, one on each line, and trains for a moment at each `slice`.

    case NET BATCH OPTIMIZER    a net of torch_models.py, in all ways -> "ready"
    slice WAY SECONDS           -> samples and the CPU seconds that they took; "0 1": this PyTorch lacks the way

A way is a layout, "nchw" or "nhwc" (channels_last). With "-compiled" behind it, torch.compile has made the loss and its
gradients; the optimizer stays eager, since its foreach kernels are faster than compiled ones on small nets.

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
    sys.exit(77)  # PyTorch is missing

LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
COMPILED = "-compiled"
WAYS = [*LAYOUTS, *(layout + COMPILED for layout in LAYOUTS if hasattr(torch, "compile"))]
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
WARM_UP_STEPS = 3


def blas():
    """Return the BLAS library that a matrix product has loaded; for OpenBLAS also the kernels that it chose."""
    torch.ones(64, 64).mm(torch.ones(64, 64))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = re.findall(r"/\S*/lib(?:blas|openblas|mkl_rt|blis)\S*\.so\S*", maps.read())
    if not paths:
        return f"{'MKL' if torch.backends.mkl.is_available() else 'a BLAS'} of its own"
    library = ctypes.CDLL(paths[0])
    try:
        library.openblas_get_config.restype = ctypes.c_char_p
        return f"{paths[0]} ({library.openblas_get_config().decode()})"
    except AttributeError:
        return paths[0]


def capability():
    return re.search(r"CPU capability usage: (\S+)", torch.__config__.show())[1]


class Trainer:
    """One net in one way. It trains with the same batch again and again."""

    def __init__(self, net, batch, optimizer, way):
        self.net, shape = torch_models.build(net)
        layout = way.removesuffix(COMPILED)
        self.batch = batch
        self.x = torch.rand(batch, *shape)
        self.label = torch.arange(batch) % 10
        if len(shape) == 3:
            self.net = self.net.to(memory_format=LAYOUTS[layout])
            self.x = self.x.to(memory_format=LAYOUTS[layout])
        self.loss = self.compute_loss if way == layout else torch.compile(self.compute_loss, dynamic=False)
        self.optimizer = OPTIMIZERS[optimizer](self.net.parameters(), lr=1e-4, foreach=True)
        for _ in range(WARM_UP_STEPS):
            self.step()

    def compute_loss(self):
        return functional.cross_entropy(self.net(self.x), self.label)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()

    def slice(self, seconds):
        samples, start, end = 0, time.process_time(), time.monotonic() + seconds
        while time.monotonic() < end:  # this clock needs no system call
            self.step()
            samples += self.batch
        return samples, time.process_time() - start


def main():
    torch.set_num_threads(1)
    if hasattr(torch, "compile") and os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
        import torch._inductor.config as inductor

        inductor.cpp.simdlen = 256
    torch.set_flush_denormal(True)
    print(f"PyTorch {torch.__version__} ({capability()}), BLAS {blas()}", flush=True)
    trainers = {}
    for line in sys.stdin:
        command, *words = line.split()
        if command == "case":
            net, batch, optimizer = words
            if hasattr(torch, "compiler"):
                torch.compiler.reset()  # otherwise the compiler takes the next net for another shape of the last one
            trainers = {way: Trainer(net, int(batch), optimizer, way) for way in WAYS}
            print("ready", flush=True)
        else:
            way, seconds = words
            print(*trainers[way].slice(float(seconds)) if way in trainers else (0, 1), flush=True)


if __name__ == "__main__":
    main()
