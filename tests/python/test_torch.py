"""fed.torch: modules that devices train, and the hook for data parallel training. Skipped without PyTorch."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import unittest

import fed
import numpy as np
from coordinator import CoordinatorTest

try:
    import fed.torch
    import torch
except ImportError:
    torch = None

RANKS = 2
WORKER = """
import os, sys, numpy as np, torch, fed.torch
rank, meeting, spec = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
torch.manual_seed(3)
module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
model = torch.nn.parallel.DistributedDataParallel(module)
if spec != "none":
    model.register_comm_hook(fed.torch.Residuals(), fed.torch.hook(spec))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
random = np.random.default_rng(rank)
for _ in range(60):
    x = torch.from_numpy(random.normal(size=(16, 8)).astype(np.float32))
    optimizer.zero_grad()
    loss = ((model(x) - x.sum(1, keepdim=True).tanh()) ** 2).mean()
    loss.backward()
    optimizer.step()
flat = torch.cat([p.detach().flatten() for p in module.parameters()])
print(float(loss.detach()), flat.numpy().tobytes().hex(), flush=True)
torch.distributed.barrier()  # nobody's connections close while another rank still uses them
os._exit(0)  # PyTorch 2.13 now and then aborts a process that ends in the usual way: docs/python.md
"""


def small_net():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(4 * 6 * 6, 3))


def pictures(seed, count=64):
    random = np.random.default_rng(seed)
    label = random.integers(0, 3, count)
    x = random.normal(size=(count, 1, 8, 8)).astype(np.float32)
    x[np.arange(count), 0, label, :] += 2
    return torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(label))


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Torch(CoordinatorTest):
    def test_a_layout_has_parameters_first(self):
        self.assertEqual(fed.torch.layout(small_net()),
                         "tensors 0.weight 4x1x3x3 | 0.bias 4 | 1.weight 4 | 1.bias 4 | 4.weight 3x144 | 4.bias 3 | "
                         "statistics 1.running_mean 4 | statistics 1.running_var 4")
        self.assertEqual(fed.torch.layout(torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(200)))).count("|"), 399)
        with self.assertRaisesRegex(TypeError, "0.weight is torch.float64"):
            fed.torch.layout(torch.nn.Sequential(torch.nn.Linear(1, 1)).double())

    def federate(self, codec_up):
        """Let two devices with data of their own train small_net. Return the accuracy of the result on other data."""
        first = small_net()
        fed.torch.save(first, self.folder + "/first.safetensors")
        self.task(model=fed.torch.layout(first), initial=self.folder + "/first.safetensors", rounds=10, cohort=2, local_steps=4, learning_rate=0.1,
                  codec_up=codec_up, codec_down="3lc:s=1")

        def device(number, client):
            module = small_net()
            order = torch.Generator().manual_seed(number)
            loader = torch.utils.data.DataLoader(pictures(number), batch_size=16, shuffle=True, generator=order)
            fed.torch.run(client, module, loader, torch.nn.functional.cross_entropy)

        self.run_devices(range(2), device)
        seen = []

        def measure(params, told):
            fed.torch.load(first, params)
            with torch.no_grad():
                first.eval()
                x, y = pictures(9, 300).tensors
                right = int((first(x).argmax(1) == y).sum())
            seen.append(right / 300)
            return None, 300, {"correct": right, "loss": 0}

        with self.client("judge", "evaluator", evaluate=True) as client:
            for _ in range(100):
                if client.step(measure)["outcome"] == "evaluated":
                    break
        return seen[-1]

    def test_a_module_learns_from_two_devices(self):
        self.assertGreater(self.federate("float32"), 0.8)

    def test_a_module_learns_from_sparse_updates(self):
        self.assertGreater(self.federate("sbc:p=0.1"), 0.7)

    def test_another_module_declines(self):
        self.task(model=fed.torch.layout(small_net()), rounds=1, cohort=1)
        loader = torch.utils.data.DataLoader(pictures(0), batch_size=16)
        train = fed.torch.trainer(torch.nn.Linear(8, 3), loader, torch.nn.functional.cross_entropy)
        with self.client() as client:
            for _ in range(100):
                done = client.step(train)
                if done["outcome"] == "declined":
                    break
        self.assertIn("the task has a tensor 0.bias, this device's module has not", done["reason"])

    def data_parallel(self, spec):
        meeting = f"file://{self.folder}/meeting_of_{spec.partition(':')[0]}"
        ranks = [subprocess.Popen([sys.executable, "-c", WORKER, str(rank), meeting, spec], stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, OMP_NUM_THREADS="1")) for rank in range(RANKS)]
        said = [rank.communicate(timeout=120)[0].split() for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0] * RANKS)
        self.assertEqual(said[0][1], said[1][1])  # same bits of the parameters
        return sum(float(one[0]) for one in said) / RANKS, np.frombuffer(bytes.fromhex(said[0][1]), np.float32)

    def test_the_hook_exchanges_gradients(self):
        loss, plain = self.data_parallel("none")
        _, exact = self.data_parallel("float32")
        np.testing.assert_allclose(exact, plain, atol=1e-5)
        coarse, parameters = self.data_parallel("3lc:s=1.75")
        self.assertLess(coarse, loss + 0.1)
        self.assertFalse(np.array_equal(parameters, exact))

    def test_the_hook_refuses_an_unknown_codec(self):
        with self.assertRaisesRegex(fed.Error, "nosuch"):
            fed.torch.hook("nosuch")


if __name__ == "__main__":
    unittest.main()
