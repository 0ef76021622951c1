"""fed.torch: modules that devices train. Skipped without PyTorch. test_hook.py has data parallel training."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import fed
import numpy as np
from coordinator import CoordinatorTest

try:
    import fed.torch
    import torch
except ImportError:
    torch = None

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

    def test_what_requires_a_gradient_travels(self):
        module = small_net()
        module[0].requires_grad_(False)
        self.assertEqual(fed.torch.layout(module), "tensors 1.weight 4 | 1.bias 4 | 4.weight 3x144 | 4.bias 3 | "
                                                   "statistics 1.running_mean 4 | statistics 1.running_var 4")
        heads = dict(select=lambda name, tensor: name.startswith(("0.", "4.")) and name.endswith("bias"))
        self.assertEqual(fed.torch.layout(module, **heads), "tensors 0.bias 4 | 4.bias 3")
        fed.torch.save(module, self.folder + "/some.safetensors", **heads)
        self.assertEqual(list(fed._tensors.load(self.folder + "/some.safetensors")), ["0.bias", "4.bias"])
        other, params = small_net(), {"0.bias": np.full(4, 2, np.float32), "4.bias": np.full(3, 3, np.float32)}
        fed.torch.load(other, params, **heads)
        self.assertEqual((float(other[0].bias[0].detach()), float(other[4].bias[0].detach())), (2, 3))
        with self.assertRaisesRegex(ValueError, "nothing would travel"):
            fed.torch.layout(module.requires_grad_(False))

    def test_names_are_the_modules_own(self):
        compiled = torch.compile(torch.nn.Sequential(torch.nn.Linear(2, 1)), backend="eager")
        within = torch.nn.Sequential(torch.compile(torch.nn.Linear(2, 1), backend="eager"))
        for module in (compiled, within, torch.nn.DataParallel(compiled)):
            self.assertEqual(fed.torch.layout(module), "tensors 0.weight 1x2 | 0.bias 1")

    def test_tied_weights_travel_once(self):
        module = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
        module[1].weight = module[0].weight
        self.assertEqual(fed.torch.layout(module), "tensors 0.weight 3x3")
        fed.torch.load(module, {"0.weight": np.eye(3, dtype=np.float32)})
        self.assertEqual(float(module[1].weight[2, 2].detach()), 1)

    def test_store_is_the_opposite_of_load(self):
        for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            module = small_net().to(kind)
            fed.torch.save(module, self.folder + "/kind.safetensors")
            saved = fed._tensors.load(self.folder + "/kind.safetensors")
            params = {name: np.zeros_like(one) for name, one in saved.items()}
            fed.torch.store(module, params)
            other = small_net().to(kind)
            fed.torch.load(other, params)
            for name, one in module.state_dict().items():
                if one.is_floating_point():
                    np.testing.assert_array_equal(params[name], saved[name])
                    self.assertTrue(torch.equal(other.state_dict()[name], one), name)
                    self.assertEqual(other.state_dict()[name].dtype, kind)

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


if __name__ == "__main__":
    unittest.main()
