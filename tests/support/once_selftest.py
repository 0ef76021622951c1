"""Tests once.py: it must run a check again after any change of an input. Each case changes one input of a check that has passed."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import once

SCRIPT = pathlib.Path(once.__file__)


def archive(**contents):
    """Return an archive of object files as ar makes it."""
    text = b"!<arch>\n"
    for name, body in contents.items():
        text += f"{name + '.c.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(body):<10}`\n".encode() + body + b"\n" * (len(body) % 2)
    return text


class Once(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.at = pathlib.Path(place.name)
        (self.at / "inputs/below").mkdir(parents=True)
        (self.at / "inputs/below/one").write_text("one", encoding="utf-8")
        (self.at / "lib.a").write_bytes(archive(wire=b"code", build_id=b"commit 1"))
        self.tool = self.at / "tool"
        self.tool.write_text("#!/bin/sh\necho 1\n", encoding="utf-8")
        self.tool.chmod(0o755)
        self.check = "echo ran >>runs"
        self.variables = {}
        self.assertTrue(self.runs())

    def call(self):
        words = ["name", "--input", self.at / "inputs", "--input", self.at / "lib.a", "--tool", "tool", "--", "sh", "-c", self.check]
        variables = {**os.environ, "FED_FRESH": "", "XDG_CACHE_HOME": str(self.at / "cache"),
                     "PATH": f"{self.at}:{os.environ['PATH']}", **self.variables}
        return subprocess.run([sys.executable, "-B", SCRIPT, *words], cwd=self.at, env=variables, check=False,
                              capture_output=True, text=True)

    def runs(self, status=0):
        """Run the check through once.py. Return whether once.py has run the command."""
        (self.at / "runs").unlink(missing_ok=True)
        done = self.call()
        self.assertEqual(done.returncode, status, done.stderr)
        ran = (self.at / "runs").exists()
        self.assertEqual("unchanged since it passed" in done.stdout, not ran)
        return ran

    def test_the_same_is_not_run_again(self):
        self.assertFalse(self.runs())

    def test_fresh_runs_all_the_same(self):
        self.variables = {"FED_FRESH": "1"}
        self.assertTrue(self.runs())

    def test_a_changed_file_is_seen(self):
        (self.at / "inputs/below/one").write_text("two", encoding="utf-8")
        self.assertTrue(self.runs())
        (self.at / "inputs/below/one").write_text("one", encoding="utf-8")
        self.assertFalse(self.runs())

    def test_a_new_file_is_seen(self):
        (self.at / "inputs/two").touch()
        self.assertTrue(self.runs())

    def test_a_renamed_file_is_seen(self):
        (self.at / "inputs/below/one").rename(self.at / "inputs/below/two")
        self.assertTrue(self.runs())

    def test_a_link_to_elsewhere_is_seen(self):
        (self.at / "inputs/link").symlink_to("below")
        self.assertTrue(self.runs())
        (self.at / "inputs/link").unlink()
        (self.at / "inputs/link").symlink_to(".")
        self.assertTrue(self.runs())

    def test_an_input_that_left_is_seen(self):
        (self.at / "lib.a").unlink()
        self.assertTrue(self.runs())

    def test_an_archives_code_is_seen_and_its_build_id_is_not(self):
        (self.at / "lib.a").write_bytes(archive(wire=b"code", build_id=b"commit 22"))
        self.assertFalse(self.runs())
        (self.at / "lib.a").write_bytes(archive(wire=b"node", build_id=b"commit 22"))
        self.assertTrue(self.runs())

    def test_a_new_version_of_a_tool_is_seen(self):
        self.tool.write_text("#!/bin/sh\necho 2\n", encoding="utf-8")
        self.assertTrue(self.runs())

    def test_a_variable_is_seen(self):
        self.variables = {"FED_ONCE_SELFTEST": "1"} # a variable that the caller's environment does not have
        self.assertTrue(self.runs())

    def test_another_command_is_seen(self):
        self.check = "echo ran >>runs; true"
        self.assertTrue(self.runs())

    def test_what_fails_or_is_skipped_is_run_again(self):
        for status in (1, 77):
            self.check = f"echo ran >>runs; exit {status}"
            self.assertTrue(self.runs(status))
            self.assertTrue(self.runs(status))

    def test_what_changes_an_input_is_run_again(self):
        self.check = "echo ran >>runs; echo more >>inputs/below/one"
        self.assertTrue(self.runs())
        self.check = "echo ran >>runs; echo more >>inputs/below/one"
        self.assertTrue(self.runs())

    def test_a_memory_that_cannot_be_written_forgets(self):
        self.variables = {"XDG_CACHE_HOME": str(self.at / "lib.a")}
        self.assertTrue(self.runs())
        self.assertTrue(self.runs())


class Memory(unittest.TestCase):
    def test_the_oldest_leave(self):
        with tempfile.TemporaryDirectory() as place:
            memory = once.Memory("kind")
            memory.folder = pathlib.Path(place)
            for age, name in enumerate("abc"):
                memory.keep(name)
                os.utime(memory.folder / name, (1000 - age, 1000 - age))
            with unittest.mock.patch.dict(os.environ, FED_FRESH=""):
                self.assertTrue(memory.has("c"))
            memory.trim(2)
            self.assertEqual(sorted(os.listdir(place)), ["a", "c"])


if __name__ == "__main__":
    unittest.main()
