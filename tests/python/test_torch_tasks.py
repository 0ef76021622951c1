"""fed.torch.trainer: the task's optimizer, batches of all kinds, and other types than float32. Skipped without PyTorch."""
# SPDX-License-Identifier: Apache-2.0
import collections
import math
import os
import pathlib
import re
import tempfile
import types
import unittest

import fed
import numpy as np
from coordinator import CoordinatorTest

try:
    import fed.torch
    import torch
except ImportError:
    torch = None


def told(**keys):
    """Return what a callback gets of a task, without a coordinator."""
    return types.SimpleNamespace(**{"number": 1, "task": 1, "slot": 0, "personal": False, "private": (), "own_is_new": False, "optimizer": "sgd", "learning_rate": 0.1,
                                    "local_steps": 3, "progress": lambda done, total: None, "wanted": lambda: None, **keys})


def line(values=(1.0, -2.0, 3.0)):
    """Return a module whose gradient is all its input, and its model."""
    module = torch.nn.Linear(len(values), 1, bias=False)
    return module, {"weight": np.array([values], np.float32)}


def mean(module, batch):
    return module(batch).mean()


def reference(spec, rate, first, gradients, taken=0, state=None):
    """The formulas of fed/optimizer_spec.h, in binary64. Return the weights and the state (p, q)."""
    rule, *parts = spec.split("+")
    read = lambda text: {key: float(value) for key, value in (word.split("=") for word in text.partition(":")[2].split(",") if word)}
    name, own = rule.partition(":")[0], read(rule)
    parts = {text.partition(":")[0]: read(text) for text in parts}
    rate, decay = own.get("lr", rate), own.get("decay", 0.01 if name == "adamw" else 0)
    b1, b2, eps = own.get("b1", 0.9), own.get("b2", 0.999), own.get("eps", 1e-8)
    w, w0 = np.array(first, float), np.array(first, float)
    p, q = state or (np.zeros_like(w), np.zeros_like(w))
    for g in gradients:
        g, now = np.array(g, float), rate
        warmup = parts.get("warmup", {}).get("steps", 0)
        if taken + 1 < warmup:
            now *= (taken + 1) / warmup
        after = max(0, taken - warmup)
        if "step" in parts:
            now *= parts["step"].get("factor", 0.1) ** (after // parts["step"]["every"])
        if "cosine" in parts:
            low = parts["cosine"].get("low", 0)
            now *= low + (1 - low) * 0.5 * (1 + math.cos(math.pi * min(1, after / parts["cosine"]["steps"])))
        if "prox" in parts:
            g = g + parts["prox"]["mu"] * (w - w0)
        if "value" in parts.get("clip", {}):
            g = np.clip(g, -parts["clip"]["value"], parts["clip"]["value"])
        if "norm" in parts.get("clip", {}):
            g = g * min(1, parts["clip"]["norm"] / np.sqrt((g ** 2).sum()))
        if name == "adamw":
            w = w * (1 - now * decay)
        else:
            g = g + decay * w
        if name in ("sgd", "momentum"):
            m = own.get("m", 0.9) if name == "momentum" else 0
            p = m * p + g
            w = w - now * (g + m * p if own.get("nesterov") else p)
        else:
            p, q = b1 * p + (1 - b1) * g, b2 * q + (1 - b2) * g ** 2
            w = w - now * (p / (1 - b1 ** (taken + 1))) / (np.sqrt(q / (1 - b2 ** (taken + 1))) + eps)
        taken += 1
    return w, (p, q)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TaskOptimizer(unittest.TestCase):
    INPUTS = [(0.5, -1.0, 2.0), (1.5, 0.25, -0.75), (-0.5, 3.0, 0.1)]

    def trained(self, train, params, **keys):
        train(params, told(**keys))
        return params["weight"][0]

    def test_it_is_honoured_with_its_numbers(self):
        for spec in ("sgd", "sgd:lr=0.02,decay=0.1", "momentum", "momentum:m=0.5,nesterov=1,decay=0.01", "adam", "adam:b1=0.5,b2=0.9,eps=1e-3",
                     "adamw:decay=0.3", "sgd+clip:norm=0.5", "momentum+clip:value=0.7,norm=1", "sgd+prox:mu=0.4", "sgd+warmup:steps=3",
                     "adamw+warmup:steps=1+cosine:steps=4,low=0.1", "sgd+step:every=2,factor=0.5"):
            with self.subTest(spec=spec):
                module, params = line()
                batches = [torch.tensor([one]) for one in self.INPUTS]
                # The trainer gets the rate that the spec stands for, as from a coordinator.
                rate = 0.02 if "lr" in spec else 0.1
                got = self.trained(fed.torch.trainer(module, batches, step=mean), params, optimizer=spec, learning_rate=rate)
                np.testing.assert_allclose(got, reference(spec, 0.1, (1.0, -2.0, 3.0), self.INPUTS)[0], rtol=1e-5)

    def test_it_remembers_from_round_to_round(self):
        for spec in ("momentum", "adam", "sgd+cosine:steps=5"):
            for restart in (False, True):
                with self.subTest(spec=spec, restart=restart), tempfile.TemporaryDirectory() as folder:
                    module, params = line()
                    batches = [torch.tensor([one]) for one in self.INPUTS]
                    make = lambda: fed.torch.trainer(module, batches, step=mean, state=folder)
                    train = make()
                    self.trained(train, params, optimizer=spec, number=1)
                    lost = {"weight": params["weight"].copy()}
                    self.trained(train, lost, optimizer=spec, number=2)  # power fails before this round is durable
                    got = self.trained(make() if restart else train, params, optimizer=spec, number=2)
                    np.testing.assert_allclose(got, reference(spec, 0.1, (1.0, -2.0, 3.0), self.INPUTS * 2)[0], rtol=1e-5)
                    again, params = line()
                    got = self.trained(train, params, optimizer=spec, number=1, task=2)  # another task begins as new
                    np.testing.assert_allclose(got, reference(spec, 0.1, (1.0, -2.0, 3.0), self.INPUTS)[0], rtol=1e-5)

    def test_a_copy_for_this_device_alone_leaves_no_trace(self):
        for spec in ("momentum", "adam"):
            with self.subTest(spec=spec), tempfile.TemporaryDirectory() as folder:
                module, params = line()
                train = fed.torch.trainer(module, lambda _: [torch.tensor([one]) for one in self.INPUTS], step=mean, state=folder)
                self.trained(train, params, optimizer=spec, number=1)
                shared = tuple(params["weight"][0])
                own = {"weight": params["weight"].copy()}
                got = self.trained(train, own, optimizer=spec, number=2, local_steps=2, personal=True)
                np.testing.assert_allclose(got, reference(spec, 0.1, shared, self.INPUTS[:2])[0], rtol=1e-5)  # it begins as new
                got = self.trained(train, params, optimizer=spec, number=2)
                np.testing.assert_allclose(got, reference(spec, 0.1, (1.0, -2.0, 3.0), self.INPUTS * 2)[0], rtol=1e-5)

    def test_private_layers_begin_as_the_module_has_them(self):
        """Once, in each task: what the module was before its first task, not what a task left in it."""
        module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        first = {name: tensor.detach().numpy().copy() for name, tensor in module.named_parameters()}
        names = ("1.weight", "1.bias")
        train = fed.torch.trainer(module, [torch.ones(1, 2)], step=mean)
        zeros = {name: np.zeros_like(array) for name, array in first.items()}
        for task in (1, 2):
            params = {name: array.copy() for name, array in zeros.items()}
            arrays = dict(params)
            train(params, told(task=task, local_steps=1, optimizer="sgd:lr=0.000000000001", private=names, own_is_new=True))
            for name, array in arrays.items():  # the callback's own memory, which the library has lent
                np.testing.assert_allclose(array, first[name] if name in names else zeros[name], atol=1e-9)
            with torch.no_grad():
                module[1].weight += 1  # what a training leaves in the module
        params = {name: array.copy() for name, array in zeros.items()}
        train(params, told(task=1, number=2, local_steps=1, optimizer="sgd:lr=0.000000000001", private=names))
        np.testing.assert_allclose(params["1.weight"], 0, atol=1e-9)  # it is what the library has kept

    def test_a_copy_of_no_steps_is_left_as_it_is(self):
        module, params = line()
        train = fed.torch.trainer(module, [torch.ones(1, 3)], step=mean)
        arrays, samples, metrics = train(params, told(local_steps=0, personal=True))
        self.assertEqual((samples, metrics), (1, {}))
        np.testing.assert_array_equal(params["weight"], [[1.0, -2.0, 3.0]])

    def test_its_numbers_are_those_of_the_headers(self):
        found = re.search(r"enum \{\s*FEDPY_RULE(.*?)FEDPY_OPTIMIZER_NUMBERS", pathlib.Path(
            os.environ["FED_ROOT"], "fedclient/python/fedpy.h").read_text(encoding="utf-8"), re.S)[1]
        self.assertEqual(["rule"] + [name.lower() for name in re.findall(r"\bFEDPY_(\w+),", found)], list(fed._optimizer.NUMBERS))
        rules = re.search(r"enum fed_rule \{(.*?)\}", pathlib.Path(
            os.environ["FED_ROOT"], "common/include/fed/optimizer_spec.h").read_text(encoding="utf-8"), re.S)[1]
        self.assertEqual([name.lower() for name in re.findall(r"FED_(\w+)", rules)], list(fed._optimizer.RULES))

    def test_stateless_forgets(self):
        module, params = line()
        train = fed.torch.trainer(module, [torch.tensor([one]) for one in self.INPUTS], step=mean)
        self.trained(train, params, optimizer="momentum+stateless", number=1)
        second = tuple(params["weight"][0])
        got = self.trained(train, params, optimizer="momentum+stateless", number=2)
        np.testing.assert_allclose(got, reference("momentum", 0.1, second, self.INPUTS)[0], rtol=1e-5)

    def test_one_that_can_not_be_had_declines(self):
        module, params = line()
        train = fed.torch.trainer(module, [torch.ones(1, 3)], step=mean)
        for spec, why in (("momentum+mask", "\"\\+mask\""), ("sgd+scaffold", "\"\\+scaffold\""), ("sgd+stall", "\"\\+stall\""),
                          ("lion", "unknown optimizer \"lion\"")):
            with self.assertRaisesRegex(fed.Decline, why):
                self.trained(train, params, optimizer=spec)
        np.testing.assert_array_equal(params["weight"], line()[1]["weight"])

    def test_one_of_the_devices_own_is_taken_in_its_place(self):
        module, params = line()
        train = fed.torch.trainer(module, [torch.ones(1, 3)], None, torch.optim.SGD, step=mean)
        np.testing.assert_allclose(self.trained(train, params, optimizer="momentum+mask", local_steps=1), (0.9, -2.1, 2.9), rtol=1e-6)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Batches(unittest.TestCase):
    def trained(self, loader, *arguments, module=None, steps=2, **keys):
        """Return the model, the samples and the loss of one round."""
        module = module or line()[0]
        params = {name: np.ones(one.shape, np.float32) for name, one in module.named_parameters()}
        _, samples, metrics = fed.torch.trainer(module, loader, *arguments, **keys)(params, told(local_steps=steps))
        return params, samples, metrics["loss"]

    def test_a_generator_trains_and_its_examples_count(self):
        params, samples, _ = self.trained((torch.ones(4, 3) for _ in range(3)), step=mean)
        self.assertEqual(samples, 8)
        np.testing.assert_allclose(params["weight"], 0.8 * np.ones((1, 3)), rtol=1e-6)
        with self.assertRaisesRegex(ValueError, "as a generator can't begin again"):
            self.trained((torch.ones(4, 3) for _ in range(1)), step=mean)

    def test_a_stream_of_data_trains(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter([torch.ones(3)] * 5)

        _, samples, _ = self.trained(torch.utils.data.DataLoader(Stream(), batch_size=2), step=mean, steps=4)
        self.assertEqual(samples, 2 + 2 + 1 + 2)
        self.assertEqual(self.trained(Stream(), step=mean, samples=70)[1], 70)

    def test_a_batch_of_three_parts_has_two_inputs(self):
        class Sum(torch.nn.Linear):
            def forward(self, one, other):
                return super().forward(one + other)

        batch = [torch.ones(4, 3), torch.ones(4, 3), torch.zeros(4, 1)]
        _, _, loss = self.trained([batch], lambda said, y: (said - y).mean(), module=Sum(3, 1, bias=False), steps=1)
        self.assertEqual(loss, 6)

    def test_a_dict_goes_in_by_name_and_the_module_gives_the_loss(self):
        Said = collections.namedtuple("Said", "loss")

        class Named(torch.nn.Linear):
            def forward(self, x, labels):
                return Said((super().forward(x) - labels).mean())

        batch = {"labels": torch.zeros(4, 1), "x": torch.ones(4, 3)}
        _, samples, loss = self.trained([batch], module=Named(3, 1, bias=False), steps=1)
        self.assertEqual(loss, 3)
        with self.assertRaisesRegex(TypeError, "the batch is a dict, and there is a loss.* say step="):
            self.trained([batch], torch.nn.functional.mse_loss, module=Named(3, 1, bias=False))
        with self.assertRaisesRegex(TypeError, "the batch is a Tensor, and there is no loss"):
            self.trained([batch["x"]])

    def test_a_step_is_a_function_of_module_and_batch(self):
        batch = [[{"x": torch.ones(2, 3)}], "a text"]
        _, _, loss = self.trained([batch], step=lambda module, given: module(given[0][0]["x"]).sum(), steps=1)
        self.assertEqual(loss, 6)
        with self.assertRaisesRegex(ValueError, "loss or step"):
            fed.torch.trainer(line()[0], [batch], torch.nn.functional.mse_loss, step=mean)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Types(unittest.TestCase):
    def test_an_update_has_no_rounding_of_the_modules_type(self):
        """A bfloat16 has 8 digits: 1.001 would come back as 1.0 if the module's values were the update."""
        module = torch.nn.Linear(2, 1, bias=False).bfloat16()
        params = {"weight": np.array([[1.001, -2.003]], np.float32)}
        batch = torch.tensor([[1.0, 0.0]], dtype=torch.bfloat16)
        fed.torch.trainer(module, [batch], step=mean)(params, told(local_steps=1, learning_rate=0.5))
        np.testing.assert_allclose(params["weight"], [[0.501, -2.003]], rtol=1e-6)
        self.assertEqual(module.weight.dtype, torch.bfloat16)

    def test_float64_trains(self):
        module = torch.nn.Linear(2, 1, bias=False).double()
        params = {"weight": np.array([[1.25, 2.0]], np.float32)}
        fed.torch.trainer(module, [torch.ones(1, 2, dtype=torch.float64)], step=mean)(params, told(local_steps=1, learning_rate=0.5))
        np.testing.assert_allclose(params["weight"], [[0.75, 1.5]], rtol=1e-6)

    def test_whole_numbers_are_refused(self):
        with self.assertRaisesRegex(TypeError, "which can't travel as float32: leave it out by select="):
            fed.torch.layout(torch.nn.ParameterDict({"count": torch.nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)}),
                             select=lambda name, tensor: True)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class WithACoordinator(CoordinatorTest):
    def test_a_compiled_half_frozen_module_trains_with_the_tasks_adam(self):
        def module():
            torch.manual_seed(3)
            net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).bfloat16()
            net[0].requires_grad_(False)
            return torch.compile(net, backend="eager")

        def batches():
            for number in range(100):
                x = torch.from_numpy(np.random.default_rng(number).normal(size=(8, 3))).bfloat16()
                yield {"x": x, "y": x.sum(1, keepdim=True)}

        first = module()
        fed.torch.save(first, self.folder + "/first.safetensors")
        task = self.task(model=fed.torch.layout(first), initial=self.folder + "/first.safetensors", rounds=3, cohort=1, local_steps=4,
                         optimizer="adam:lr=0.05")
        own = module()
        with self.client() as client:
            fed.torch.run(client, own, batches(), step=lambda net, batch: (net(batch["x"]) - batch["y"]).square().mean())
        got = self.coordinator.model(task)
        self.assertEqual(list(got), ["2.weight", "2.bias"])

        net, given = module(), batches()
        optimizer = torch.optim.Adam([net[2].weight, net[2].bias] if isinstance(net, torch.nn.Sequential) else
                                     [one for one in net.parameters() if one.requires_grad], 0.05)
        for _ in range(12):
            batch = next(given)
            optimizer.zero_grad()
            (net(batch["x"]) - batch["y"]).square().mean().backward()
            optimizer.step()
        params = {name: np.zeros_like(one) for name, one in got.items()}
        fed.torch.store(net, params)
        for name, one in got.items():
            np.testing.assert_allclose(one, params[name], atol=0.03)  # the rounds' models have more digits than bfloat16
        self.assertGreater(abs(got["2.bias"][0] - float(module().state_dict()["_orig_mod.2.bias"][0])), 0.1)


if __name__ == "__main__":
    unittest.main()
