"""A real coordinator for a test: a directory of its own, served on loopback."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import tempfile
import unittest

import fed

BIN = os.environ["FED_BIN"]
MODEL = "tensors layer.weight 3x4 | layer.bias 5"


def command(*words):
    run = subprocess.run([BIN + "/fedserver", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        raise AssertionError(f"fedserver {' '.join(words)}: {run.stderr}")
    return run.stdout


class CoordinatorTest(unittest.TestCase):
    """Has a coordinator of its own, which may be killed and started again."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.home = self.folder + "/home"
        command("init", "--dir", self.home)
        self.front, self.devices = 0, 0
        self.start()
        self.addCleanup(lambda: self.end())

    def start(self):
        self.server = subprocess.Popen([BIN + "/fedserver", "run", "--dir", self.home, "--front-port", str(self.front), "--devices-port",
                                        str(self.devices)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.server.stdout.readline()
        self.front, self.devices = (int(port) for port in re.findall(r":(\d+)", line)[:2])

    def end(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()

    def task(self, **keys):
        with open(self.folder + "/task.json", "w", encoding="utf-8") as file:
            json.dump({"model": MODEL, "codec_up": "float32", "codec_down": "float32", "device_share": 1, **keys}, file)
        command("task", "--dir", self.home, self.folder + "/task.json")

    def client(self, number=0, **options):
        token = command("token", "--dir", self.home).strip()
        return fed.Client(f"https://127.0.0.1:{self.front}", self.home + "/ca.pem", f"{self.folder}/device{number}", token, **options)
