"""A PyTorch net is federated while processes are killed, and ends with the bits of a plain computation.

Device k has its own Python process. The coordinator and the devices are killed at random instants, and started again. What
comes out is compared with the rounds as docs/protocol.md describes them, computed by NumPy and PyTorch alone.
FED_TEST_KILLS says how often, FED_TEST_SEED when.
"""
# SPDX-License-Identifier: Apache-2.0
import multiprocessing
import os
import random
import time
import unittest

import fed
import numpy as np
from coordinator import CoordinatorTest

try:
    import cnn
    import fed.torch
    import torch
except ImportError:
    torch = None

ROUNDS, STEPS, RATE = 6, 5, 0.05
SAMPLES = [40, 50, 60]  # samples of each device
FOLD = 2.0 ** 30  # unit of sums (docs/protocol.md)


def train_plainly(model, number, samples, round_number):
    """Train one device's round. Return the model after it, as an array for each tensor."""
    module = cnn.net()
    with torch.no_grad():
        for parameter, values in zip(module.parameters(), model):
            parameter.copy_(torch.from_numpy(values))
    for x, y in cnn.batches(cnn.pictures(number, samples), number, round_number, STEPS):
        module.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.sub_(parameter.grad, alpha=RATE)
    return [parameter.detach().numpy() for parameter in module.parameters()]


def federate_plainly():
    """Compute the rounds one after the other in this process; each is a sum of integers, one division and one addition."""
    model = [parameter.detach().numpy().copy() for parameter in cnn.net().parameters()]
    for round_number in range(1, ROUNDS + 1):
        total = [np.zeros(values.shape, np.int64) for values in model]
        for number, samples in enumerate(SAMPLES):
            for one, after, before in zip(total, train_plainly(model, number, samples, round_number), model):
                one += samples * np.rint((after - before).astype(np.float64) * FOLD).astype(np.int64)
        for values, one in zip(model, total):
            values += (one / (sum(SAMPLES) * FOLD)).astype(np.float32)
    return model


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Kills(CoordinatorTest):
    def start_device(self, number):
        words = (self.coordinator.url, str(self.coordinator.ca), f"{self.folder}/device{number}", self.tokens[number], number, SAMPLES[number])
        process = self.context.Process(target=cnn.device, args=words, daemon=True)
        process.start()
        self.addCleanup(process.kill)
        return process

    def test_the_model_has_the_bits_of_a_plain_computation(self):
        torch.set_num_threads(1)
        fed.torch.save(cnn.net(), self.folder + "/first.safetensors")
        task = self.task(model=fed.torch.layout(cnn.net()), initial=self.folder + "/first.safetensors", rounds=ROUNDS, cohort=len(SAMPLES),
                         minimum=len(SAMPLES), local_steps=STEPS, batch=cnn.BATCH, learning_rate=RATE, deadline_s=60)
        self.context = multiprocessing.get_context("forkserver")  # forks from a process that has imported PyTorch
        self.context.set_forkserver_preload(["cnn"])
        self.tokens = self.coordinator.tokens(len(SAMPLES))
        chance, kills = random.Random(int(os.environ.get("FED_TEST_SEED", "1"))), []
        devices = [self.start_device(number) for number in range(len(SAMPLES))]
        for _ in range(int(os.environ.get("FED_TEST_KILLS", "16"))):
            time.sleep(chance.uniform(0.02, 0.4))
            victim = chance.randrange(-1, len(SAMPLES))
            alive = self.coordinator.running if victim < 0 else devices[victim].is_alive()
            if victim < 0:
                self.coordinator.kill()
                self.coordinator.start()
            else:
                devices[victim].kill()
                devices[victim].join()
                devices[victim] = self.start_device(victim)
            kills.append((victim, alive, self.coordinator.tasks()[0]["version"]))
        self.coordinator.wait(task, timeout=200)
        for one in devices:
            one.join(60)
        self.assertEqual([one.exitcode for one in devices], [0] * len(SAMPLES))
        self.assertTrue(any(alive and victim < 0 for victim, alive, version in kills if version < ROUNDS), kills)
        self.assertTrue(any(alive and victim >= 0 for victim, alive, version in kills if version < ROUNDS), kills)
        for one in self.coordinator.rounds(task):
            self.assertEqual((one["updates"], one["samples"]), (len(SAMPLES), sum(SAMPLES)))
        for values, plain in zip(self.coordinator.model(task).values(), federate_plainly()):
            np.testing.assert_array_equal(values.view(np.uint32), plain.view(np.uint32))


if __name__ == "__main__":
    unittest.main()
