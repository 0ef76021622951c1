"""fed.strategy: a strategy in Python for a real coordinator. tests/python/test_simulate.py has those of simulations."""
# SPDX-License-Identifier: Apache-2.0
import logging
import os
import pathlib
import socket
import struct
import sys
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

    def test_a_function_that_asks_is_told_task_and_round(self):
        told = []

        def highest(updates, round):
            told.append((round.task, round.number))
            return updates.max(axis=0)

        self.task(rounds=1, cohort=1, tag="nobody")
        with fed.strategy.serve(self.coordinator.folder, highest):
            self.train(rounds=2)
        self.assertEqual(told, [(2, 1), (2, 2)])

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

    def ask(self, rows, place):
        """Ask the server in this folder as a coordinator does. Returns its answer and the result."""
        updates, memory = (os.memfd_create(name) for name in ("updates", "change"))
        os.write(updates, rows.astype(np.float32).tobytes())
        os.write(memory, np.array(place, np.uint64).tobytes() + bytes(4 * rows.shape[1]))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
            one.connect(self.folder + "/strategy.sock")
            socket.send_fds(one, [struct.pack("=QQQQ", *rows.shape, 1, 1)], [updates, memory])
            answer = one.recv(400)
        os.lseek(memory, 8 * len(place), os.SEEK_SET)
        result = np.frombuffer(os.read(memory, 4 * rows.shape[1]), np.float32)
        os.close(updates)
        os.close(memory)
        return int.from_bytes(answer[:4], sys.byteorder), answer[4:].decode(), result.tolist()

    def test_updates_come_in_the_order_of_devices(self):
        rows = np.arange(12).reshape(3, 4)
        with fed.strategy.serve(self.folder, lambda updates: updates[0] - 100 * updates[2]):
            self.assertEqual(self.ask(rows, [2, 0, 1]), (0, "", (rows[2] - 100 * rows[1]).tolist()))

    def test_a_wrong_result_is_not_taken(self):
        logging.getLogger("fed").addHandler(logging.NullHandler())
        for wrong in (lambda updates: updates[0] * np.inf, lambda updates: updates):
            with fed.strategy.serve(self.folder, wrong):
                failed, why, result = self.ask(np.ones((2, 3)), [0, 1])
                self.assertEqual((failed, result), (1, [0, 0, 0]))
                self.assertRegex(why, r"ValueError: the strategy returned (a value that is not finite|an array of shape \(2, 3\), not \(3,\))")

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
