"""PyTorch's all-reduce by gloo, for comparison: one of FED_SIZE ranks. They connect at the first of FED_ADDRESSES.

    gloo_worker.py floats=N steps=N      rank 0 prints what bench_exchange prints

The exit status is 77 where PyTorch is not installed.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as distributed
except ImportError:
    sys.exit(77)

os.environ.setdefault("USE_LIBUV", "0")  # Debian builds PyTorch without libuv
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
WARM_UP = 2


def main():
    options = dict(word.split("=", 1) for word in sys.argv[1:])
    floats, steps = int(options["floats"]), int(options["steps"])
    rank, size = int(os.environ["FED_RANK"]), int(os.environ["FED_SIZE"])
    first = os.environ["FED_ADDRESSES"].split(",")[0]
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://{first}", rank=rank, world_size=size)
    grad = torch.arange(floats, dtype=torch.float32) % 1000 * 1e-9
    times = []
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            cpu, times = time.process_time(), []
        begin = time.monotonic()
        distributed.all_reduce(grad)
        times.append(time.monotonic() - begin)
    cpu = (time.process_time() - cpu) / steps
    if rank == 0:
        print(json.dumps({"floats": floats, "seconds": statistics.median(times), "fastest": min(times), "slowest": max(times),
                          "cpu": cpu}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
