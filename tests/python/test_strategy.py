"""fed.strategy: a strategy in Python for a real coordinator. tests/python/test_simulate.py has those of simulations."""
# SPDX-License-Identifier: Apache-2.0
import logging
import pathlib
import time
import unittest

import fed
import numpy as np
from coordinator import CoordinatorTest


class StrategyTest(CoordinatorTest):
    def train(self, rounds=2, served=None):
        """Two devices that add 1 and 3 to all values."""
        self.task(rounds=rounds, cohort=2, strategy="custom:wait=20", model="tensors w 4")

        def device(number, client):
            client.run(lambda params, told: ({"w": params["w"] + number}, 1, {}))

        self.run_devices((1, 3), device)

    def test_a_coordinator_asks_for_each_round(self):
        seen = []

        def highest(updates):
            seen.append(np.sort(updates, axis=0)[:, 0].tolist())
            return updates.max(axis=0)

        with fed.strategy.serve(self.coordinator.folder, highest):
            self.train(rounds=3)
        np.testing.assert_allclose(self.coordinator.model()["w"], 9, atol=1e-5)
        self.assertEqual(len(seen), 3)
        np.testing.assert_allclose(seen, [[1, 3]] * 3, atol=1e-5)
        self.assertFalse(pathlib.Path(self.coordinator.folder, "strategy.sock").exists())

    def test_a_round_waits_for_the_program_while_devices_are_served(self):
        asked = []

        def slow(updates):
            asked.append(self.coordinator.status()["tasks"] is not None)  # the coordinator answers meanwhile
            return updates.mean(axis=0)

        with fed.strategy.serve(self.coordinator.folder, slow):
            self.train(rounds=2)
        self.assertEqual(asked, [True, True])

    def test_a_failure_ends_the_coordinator_which_keeps_the_round(self):
        def broken(updates):
            raise ValueError("no majority")

        self.task(rounds=1, cohort=1, strategy="custom", model="tensors w 4")
        logging.getLogger("fed").addHandler(logging.NullHandler())
        with fed.strategy.serve(self.coordinator.folder, broken) as server, self.client(1) as client:
            for _ in range(200):
                if not self.coordinator.running:
                    break
                client.step(lambda params, told: ({"w": params["w"] + 2}, 1, {}))
                time.sleep(0.05)
            self.assertIsInstance(server.failure[0], ValueError)
            self.assertIn("no majority", server.failure[1])
        self.assertFalse(self.coordinator.running)
        self.assertIn("strategy custom: the program failed: ValueError: no majority", self.coordinator.log.read_text())
        with fed.strategy.serve(self.coordinator.folder, lambda updates: updates[0]):
            self.coordinator.start()
            for _ in range(200):
                if self.coordinator.status()["tasks"][0].get("state") == "finished":
                    break
                time.sleep(0.05)
        np.testing.assert_allclose(self.coordinator.model()["w"], 2, atol=1e-5)

    def test_one_program_at_a_time(self):
        with fed.strategy.serve(self.folder, np.sum):
            with self.assertRaisesRegex(fed.Error, "another program listens"):
                fed.strategy.serve(self.folder, np.sum)
        with fed.strategy.serve(self.folder, np.sum):
            pass
        with self.assertRaisesRegex(fed.Error, "no socket can be made"):
            fed.strategy.serve(self.folder + "/nowhere", np.sum)


if __name__ == "__main__":
    unittest.main()
