"""A real coordinator for a test: a folder of its own, served on loopback."""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import tempfile
import unittest

import fed

MODEL = "tensors layer.weight 3x4 | layer.bias 5"


class CoordinatorTest(unittest.TestCase):
    """A test case with a coordinator of its own, which may be killed and started again."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.coordinator = fed.Coordinator(self.folder + "/home", options=["--quiet"]).start()
        self.addCleanup(self.coordinator.kill)

    def task(self, **keys):
        return self.coordinator.submit({"model": MODEL, "codec_up": "float32", "codec_down": "float32", "device_share": 1, **keys})

    def client(self, number=0, role="device", **options):
        return fed.Client(self.coordinator.url, self.coordinator.ca, f"{self.folder}/device{number}", self.coordinator.token(role), **options)

    def run_devices(self, numbers, run):
        """run(number, client) for a device of each number, at the same time. Raises what one of them raised."""
        def device(number):
            with self.client(number) as client:
                run(number, client)

        with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
            list(pool.map(device, numbers))
