"""fed.Coordinator: a real fedserver, started, asked, killed and started again."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import fed
import fed.flower
import numpy as np
from coordinator import CoordinatorTest
from fed import _programs

try:
    import pandas
except ImportError:
    pandas = None


class Serving(CoordinatorTest):
    def train(self):
        with self.client() as client:
            client.run(lambda params, told: (None, 3, {"loss": 0.25}))

    def test_tasks_run_to_their_end(self):
        first, second = self.task(rounds=2, cohort=1, name="first"), self.task(rounds=1, cohort=1)
        self.assertEqual([one["id"] for one in self.coordinator.tasks()], [first, second])
        self.assertIn("waits for", str(self.coordinator.status()))
        with self.assertRaisesRegex(TimeoutError, "first"):
            self.coordinator.wait(first, timeout=0.1)
        with self.client() as client:
            while any(one["state"] != "finished" for one in self.coordinator.tasks()):
                client.step(lambda params, told: (None, 3, {"loss": 0.25}))
        self.coordinator.wait()
        self.coordinator.wait(second)
        rounds = self.coordinator.rounds(first)
        self.assertEqual([(one["round"], one["updates"], one["samples"], one["loss"]) for one in rounds], [(1, 1, 3, 0.25), (2, 1, 3, 0.25)])
        self.assertEqual(len(self.coordinator.rounds()), 1)  # of the last task

    def test_a_notebook_shows_it(self):
        self.task(rounds=1, cohort=1, name="a<b")
        self.train()
        self.assertIn("a&lt;b", self.coordinator._repr_html_())
        self.assertIn(self.coordinator.url, self.coordinator._repr_html_())
        self.assertIn("<td>0.25</td>", self.coordinator.rounds()._repr_html_())
        if pandas is not None:
            self.assertEqual(self.coordinator.rounds().frame()["updates"].tolist(), [1])

    def test_it_is_killed_and_goes_on_at_the_same_ports(self):
        url = self.coordinator.url
        self.task(rounds=1, cohort=1)
        self.coordinator.kill()
        self.assertFalse(self.coordinator.running)
        with self.assertRaisesRegex(fed.Error, "does not serve; call start"):
            self.coordinator.url
        self.assertEqual(self.coordinator.tasks()[0]["id"], 1)  # needs no running coordinator
        self.coordinator.start()
        self.assertEqual(self.coordinator.url, url)
        self.train()
        self.coordinator.wait(1)

    def test_another_object_goes_on_at_the_same_ports(self):
        url, devices_port = self.coordinator.url, self.coordinator.devices_port
        self.coordinator.stop()
        with fed.Coordinator(self.coordinator.folder) as again:
            self.assertEqual((again.url, again.devices_port), (url, devices_port))
        pathlib.Path(self.coordinator.folder, "ports.json").write_text("[", encoding="utf-8")  # as after a full disk
        with fed.Coordinator(self.coordinator.folder) as again:
            self.assertGreater(again.front_port, 0)

    def test_another_object_can_not_serve_the_same_folder(self):
        with self.assertRaisesRegex(fed.Error, f"is being served by process {self.coordinator._process.pid} already"):
            fed.Coordinator(self.coordinator.folder).start()

    def test_refusals_are_the_programs_sentences(self):
        with self.assertRaisesRegex(fed.Error, "nosuchkey"):
            self.coordinator.submit({"model": "vector 3", "rounds": 1, "cohort": 1, "nosuchkey": 1})
        with self.assertRaisesRegex(fed.Error, "there is no such task, or none has started yet"):
            self.coordinator.rounds(7)
        with self.assertRaisesRegex(fed.Error, "there is no task 7"):
            self.coordinator.wait(7)
        with self.assertRaisesRegex(fed.Error, "usage: fedserver COMMAND"):
            self.coordinator.command("nosuchcommand")
        self.task(rounds=1, cohort=1)
        self.coordinator.cancel(1)
        with self.assertRaisesRegex(fed.Error, "task 1 was cancelled"):
            self.coordinator.wait(1)

    def test_a_task_rests_and_goes_on(self):
        task = self.task(rounds=1, cohort=1)
        self.coordinator.pause(task)
        self.assertEqual(self.coordinator.tasks()[0]["state"], "paused")
        self.coordinator.resume(task)
        self.assertIn(self.coordinator.tasks()[0]["state"], ("queued", "running"))

    def test_its_devices_are_listed(self):
        self.assertEqual(self.coordinator.devices(), [])
        self.task(rounds=1, cohort=1)
        self.train()
        device, = self.coordinator.devices()
        self.assertEqual((device["role"], device["counted"], device["samples"], device["revoked_ms"]), ("device", 1, 3, None))
        self.assertEqual(len(device["fingerprint"]), 64)

    def test_a_task_from_a_file_and_a_first_model(self):
        fed.flower.save([np.arange(3)], self.folder + "/first.safetensors")
        task = {"model": "tensors array0 3", "initial": "first.safetensors", "rounds": 1, "cohort": 1, "codec_down": "float32"}
        pathlib.Path(self.folder, "task.json").write_text(json.dumps(task))
        number = self.coordinator.submit(self.folder + "/task.json")
        np.testing.assert_array_equal(self.coordinator.model(number)["array0"], [0, 1, 2])
        again = self.coordinator.submit({**task, "initial": os.path.relpath(self.folder + "/first.safetensors")})
        self.assertEqual(again, number + 1)

    def test_the_process_ends_with_python(self):
        home = self.folder + "/other"
        script = f"import fed; c = fed.Coordinator({home!r}).start(); print(c._process.pid)"
        said = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout
        with self.assertRaises(ProcessLookupError):
            os.kill(int(said), 0)
        with fed.Coordinator(home):
            pass


class Programs(unittest.TestCase):
    def test_the_version_is_the_programs(self):
        self.assertEqual(_programs.run("fedserver", "--version").split()[1], fed.__version__)

    def test_they_are_found_where_FED_BIN_says_beside_the_package_or_on_the_path(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "fedserver")
            program.write_text("")
            program.chmod(0o755)
            with mock.patch.dict(os.environ, {"FED_BIN": folder}):
                self.assertEqual(_programs.find("fedserver"), str(program))
                with self.assertRaisesRegex(fed.Error, "no program fedsim in it; set FED_BIN"):
                    _programs.find("fedsim")
            with mock.patch.dict(os.environ, {"FED_BIN": "", "PATH": folder}):
                with mock.patch.object(_programs, "BESIDE", pathlib.Path(folder, "nowhere")):
                    self.assertEqual(_programs.find("fedserver"), str(program))
                    with self.assertRaisesRegex(fed.Error, "pip install"):
                        _programs.find("fedsim")


if __name__ == "__main__":
    unittest.main()
