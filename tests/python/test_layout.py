"""Models of many tensors with long names: they travel as a layout of their own, and exported checkpoints have the names."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import fed
import numpy as np
from coordinator import CoordinatorTest
from fed import _tensors

LAYERS = 24


def shapes():
    """The tensors of a small transformer of 24 layers with adapters, as PEFT names them; names of up to 97 characters."""
    found = {}
    for layer in range(LAYERS):
        stem = f"base_model.model.decoder.layers.{layer}.attention.self_attention.query_key_value"
        for part, shape in (("lora_A.default.weight", (2, 3)), ("lora_B.default.weight", (3, 2)), ("bias", (3,))):
            found[f"{stem}.{part}"] = shape
        for part in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
            found[f"decoder.layers.{layer}.{part}"] = (2,)
    return found


class Layout(CoordinatorTest):
    def test_many_tensors_with_long_names_go_end_to_end(self):
        tensors = shapes()
        self.assertEqual(len(tensors), 7 * LAYERS)
        self.assertGreater(max(map(len, tensors)), 63)
        text = _tensors.layout(tensors)
        self.assertGreater(len(text), 4095)
        first = {name: np.full(shape, 0.5, np.float32) for name, shape in tensors.items()}
        _tensors.save(first, self.folder + "/first.safetensors")
        self.task(model=text, initial=self.folder + "/first.safetensors", rounds=3, cohort=2)

        def train(params, told):
            self.assertEqual(told.model, text)
            self.assertEqual({name: array.shape for name, array in params.items()}, tensors)
            for number, array in enumerate(params.values()):
                array += number % 8
            return None, 10, {"loss": 0.0}

        def device(number, client):
            client.run(train)

        self.run_devices(range(2), device)
        self.coordinator.wait(timeout=60)
        self.coordinator.command("export", self.folder + "/last.safetensors")
        last = _tensors.load(self.folder + "/last.safetensors")
        self.assertEqual(list(last), list(tensors))
        for number, (name, array) in enumerate(last.items()):
            np.testing.assert_allclose(array, 0.5 + 3 * (number % 8), err_msg=name)
        self.assertRegex(self.coordinator.status()["task"]["model"], r"^layout 168 tensors \d+ values sha256 [0-9a-f]{64}$")

    def test_an_edge_aggregator_passes_the_layout_on(self):
        names = {f"decoder.layers.{layer}.attention.output.weight": (2, 3) for layer in range(200)}
        text = _tensors.layout(names)
        upstream = self.coordinator
        self.task(model=text, rounds=2, cohort=1)
        edge = fed.Coordinator(self.folder + "/edge", options=["--quiet", "--upstream", upstream.url, "--upstream-ca", str(upstream.ca),
                                                               "--upstream-token", upstream.token(), "--edge-cohort", "2"]).start()
        self.addCleanup(edge.kill)

        def train(params, told):
            self.assertEqual((told.model, list(params)), (text, list(names)))
            for array in params.values():
                array += 1
            return None, 10, {"loss": 0.0}

        self.coordinator = edge
        self.run_devices(range(2), lambda number, client: client.run(train))
        upstream.wait(timeout=60)
        for array in upstream.model().values():
            np.testing.assert_allclose(array, 2)

    def test_what_is_too_much_is_said_at_once(self):
        with self.assertRaisesRegex(ValueError, "65,536 tensors, and this one has 65,537"):
            _tensors.layout({f"t{number}": (1,) for number in range(65537)})
        with self.assertRaisesRegex(ValueError, "at most 127 characters, and this one has 128"):
            _tensors.layout({"a" * 128: (1,)})
        with self.assertRaisesRegex(fed.Error, "two tensors have this one"):
            self.task(model=_tensors.layout({f"t{number}": (1,) for number in range(2000)}) + " | t0 1", rounds=1, cohort=1)


if __name__ == "__main__":
    unittest.main()
