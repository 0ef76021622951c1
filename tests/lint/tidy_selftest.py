"""Test, in a made-up repository, which sources tidy.py gives to clang's analyzer."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest
from unittest import mock

import planted
import tidy

TREE = {"a.c": '#include "a.h"\n', "b.c": "int b;\n", "a.h": "", ".clang-tidy": "", "tests/lint/tidy.py": "", tidy.ANALYSED: ""}


def write(root, name, text):
    with open(os.path.join(root, name), "w", encoding="utf-8") as file:
        file.write(text)


def git(root, *words):
    return subprocess.run(["git", "-C", root, "-c", "user.name=t", "-c", "user.email=t@localhost", *words], check=True,
                          capture_output=True, text=True).stdout.strip()


class ToAnalyse(unittest.TestCase):
    def setUp(self):
        self.tree = planted.tree(TREE)
        self.root = str(self.tree.__enter__())
        self.addCleanup(self.tree.__exit__, None, None, None)
        git(self.root, "init", "-q")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "first")
        write(self.root, tidy.ANALYSED, git(self.root, "rev-parse", "HEAD") + "\n")

    def analysed(self, fresh="0"):
        found = [(name, "digest", [os.path.join(self.root, part) for part in read])
                 for name, read in (("a.c", ("a.c", "a.h")), ("b.c", ("b.c",)))]
        with mock.patch.dict(os.environ, FED_FRESH=fresh):
            return tidy.to_analyse(self.root, found)

    def test_nothing_has_changed(self):
        self.assertEqual(self.analysed(), set())

    def test_a_source_or_its_header_has_changed(self):
        write(self.root, "b.c", "int c;\n")
        self.assertEqual(self.analysed(), {"b.c"})
        git(self.root, "commit", "-qam", "b")
        write(self.root, "a.h", "int a;\n")
        self.assertEqual(self.analysed(), {"a.c", "b.c"})

    def test_the_checks_have_changed(self):
        write(self.root, ".clang-tidy", "Checks: x\n")
        self.assertEqual(self.analysed(), {"a.c", "b.c"})

    def test_a_file_that_git_does_not_know_yet(self):
        git(self.root, "rm", "-q", "--cached", "b.c")
        git(self.root, "commit", "-qm", "without b")
        write(self.root, tidy.ANALYSED, git(self.root, "rev-parse", "HEAD") + "\n")
        self.assertEqual(self.analysed(), {"b.c"})

    def test_the_commit_is_not_here(self):
        write(self.root, tidy.ANALYSED, "0" * 40 + "\n")
        self.assertEqual(self.analysed(), {"a.c", "b.c"})

    def test_everything_was_asked_for(self):
        self.assertEqual(self.analysed("1"), {"a.c", "b.c"})


if __name__ == "__main__":
    unittest.main()
