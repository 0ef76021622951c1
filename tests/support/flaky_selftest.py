"""Tests flaky.py with a made-up build: it must run tests as ctest does, find those that fail, and end all processes it started.

    flaky_selftest.py CTEST
"""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import flaky

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = sys.executable
# A test that must run alone in its folder: mkdir fails while another run has the directory.
ALONE = "mkdir held && sleep 0.1 && rmdir held"


def build(folder, tests):
    """Make a build folder with these tests. Each has a name, a shell command and properties."""
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        for name, line, properties in tests:
            file.write(f'add_test({name} "/bin/sh" "-c" [==[{line}]==])\n')
            file.write(f'set_tests_properties({name} PROPERTIES WORKING_DIRECTORY "{folder}" LABELS concurrent {properties})\n')


class Flaky(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.folder = room.name

    def run_it(self, tests, *arguments):
        build(self.folder, tests)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = flaky.main(["--build", self.folder, "--load", "0", "--out", os.path.join(self.folder, "out"), *arguments])
        return code, out.getvalue()

    def test_counts_each_run(self):
        runs = os.path.join(self.folder, "runs")
        code, said = self.run_it([("good", "true", ""), ("none", "exit 77", "SKIP_RETURN_CODE 77")], "", "3", "--runs", runs)
        self.assertEqual(code, 0, said)
        self.assertIn("2 tests, 6 runs: 3 passed, 3 skipped, 0 failed", said)
        with open(runs, encoding="utf-8") as file:
            seen = sorted(line.split()[:3] for line in file)
        self.assertEqual(seen, [[name, number, how] for name, how in (("good", "passed"), ("none", "skipped")) for number in "123"])

    def test_keeps_what_a_failing_run_printed(self):
        code, said = self.run_it([("now_and_then", "echo run >>seen; echo words; test $(wc -l <seen) != 2", "")], "", "3")
        self.assertEqual(code, 1, said)
        self.assertIn("3 runs: 2 passed, 0 skipped, 1 failed", said)
        self.assertEqual(os.listdir(os.path.join(self.folder, "out")), ["now_and_then.2.txt"])
        with open(os.path.join(self.folder, "out", "now_and_then.2.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "words\n")

    def test_judges_as_ctest_does(self):
        code, said = self.run_it([("environment", 'test "$A" = "b c"', 'ENVIRONMENT "A=b c"'),
                                  ("says", "echo refused; exit 3", "PASS_REGULAR_EXPRESSION refused"),
                                  ("will_fail", "exit 3", "WILL_FAIL ON")], "", "1")
        self.assertEqual(code, 0, said)

    def test_a_time_out_fails_and_ends_the_children(self):
        real, child = time.monotonic, os.path.join(self.folder, "child")
        # As soon as the child process runs, the clock is an hour ahead, so the time limit is over.
        with unittest.mock.patch("flaky.time.monotonic", lambda: real() + 3600 * os.path.exists(child)):
            code, said = self.run_it([("late", "timeout 1000 sleep 1000 & echo $! >new; mv new child; wait", "TIMEOUT 3000")], "", "1")
        self.assertEqual(code, 1, said)
        self.assertIn("ran past its time-out", said)
        self.assertTrue(ended(when_written(child)))

    def test_locks_keep_tests_apart(self):
        for properties in ("RESOURCE_LOCK one", "RUN_SERIAL ON", "PROCESSORS 3"):
            code, said = self.run_it([("a", ALONE, properties), ("b", ALONE, properties), ("c", ALONE, properties)], "", "2")
            self.assertEqual(code, 0, said)

    def test_a_test_never_meets_itself(self):
        code, said = self.run_it([("a", ALONE, "")], "", "4")
        self.assertEqual(code, 0, said)

    def test_fixtures_and_dependencies_come_first(self):
        code, said = self.run_it([("user", "test -e made && touch used", "FIXTURES_REQUIRED room"),
                                  ("last", "test -e used", "DEPENDS user"),
                                  ("maker", "sleep 0.1; touch made", "FIXTURES_SETUP room")], "user|last", "1")
        self.assertEqual(code, 0, said)
        self.assertIn("3 tests", said)

    def test_counts_the_cpu_seconds_of_children(self):
        burn = f"{PYTHON} -c 'import time\nwhile time.process_time() < 0.3: pass'"
        _, said = self.run_it([("burns", burn, ""), ("waits", "sleep 0.3", "")], "--cpu")
        rows = [line.split() for line in said.splitlines() if line.startswith(("burns", "waits"))]
        self.assertEqual([row[0] for row in rows], ["burns", "waits"])
        self.assertGreaterEqual(float(rows[0][5]), 0.3)

    def test_nothing_to_run_is_an_error(self):
        code, said = self.run_it([("a", "true", "")], "no_such_test")
        self.assertEqual(code, 2)
        self.assertIn("no test of", said)

    def test_an_interrupt_ends_the_tests_and_the_load(self):
        build(self.folder, [("long", "echo $$ >pid; exec sleep 1000", "")])
        command = [PYTHON, "-B", os.path.join(HERE, "flaky.py"), "--build", self.folder, "--load", "2", "long"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            pid = when_written(os.path.join(self.folder, "pid"))
            loops = children(process.pid)
            self.assertEqual(len(loops), 3)  # two busy loops, one test
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate()
            self.assertEqual(process.returncode, 1)
        self.assertIn("interrupted", said)
        self.assertTrue(all(ended(one) for one in [pid, *loops]))


def children(parent):
    with open(f"/proc/{parent}/task/{parent}/children", encoding="utf-8") as file:
        return [int(one) for one in file.read().split()]


def ended(pid):
    """Wait until the process is gone, or a zombie that nobody has waited for."""
    while True:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                if file.read().rpartition(")")[2].split()[0] in "ZX":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)


def when_written(path):
    while True:
        with contextlib.suppress(FileNotFoundError, ValueError):
            with open(path, encoding="utf-8") as file:
                return int(file.read())
        time.sleep(0.02)


if __name__ == "__main__":
    flaky.CTEST = sys.argv.pop(1)
    unittest.main()
