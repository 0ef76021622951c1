"""The quick start of docs/python.md, to the letter, more than once in one folder."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import fed

MANUAL = pathlib.Path(os.environ["FED_ROOT"], "docs", "python.md")


class QuickStart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        text = re.search(r"## Quick start\n.*?```python\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL).group(1)
        self.script = self.folder + "/quick.py"
        pathlib.Path(self.script).write_text(text, encoding="utf-8")

    def start(self):
        return subprocess.Popen([sys.executable, self.script], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_it(self):
        with self.start() as process:
            said, errors = process.communicate(timeout=120)
        self.assertEqual((process.returncode, errors), (0, ""))
        loss, *centre = (float(number) for number in re.findall(r"[\d.]+", said))
        self.assertLess(loss, 1.5)
        self.assertEqual([round(number) for number in centre], [1, 2, 3])

    def tasks(self):
        return fed.Coordinator(self.folder + "/quick/coordinator").tasks()

    def test_it_runs_again_and_goes_on(self):
        for _ in range(3):
            self.run_it()
        self.assertEqual([one["state"] for one in self.tasks()], ["finished"] * 3)
        self.assertEqual(len(fed.Coordinator(self.folder + "/quick/coordinator").devices()), 2)

    def test_it_goes_on_after_a_run_that_was_killed(self):
        process = self.start()
        while process.poll() is None and not os.path.exists(self.folder + "/quick/device1/residual"):
            pass
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.run_it()
        self.assertEqual({one["state"] for one in self.tasks()}, {"finished"})


if __name__ == "__main__":
    unittest.main()
