"""Check that every source has a test: one of its own, or one that tests/lint/untested.txt names.

    mirror.py ROOT      prints path:line: what is wrong and what to do; exit status 1 if anything is

The test of a/b/x.c is tests/a/b/test_x.c. A line of untested.txt names other tests for sources without their own:

    PATTERN  TEST...    sources without a test of their own (* stands for anything but a slash), and the tests that run them
    - TEST              a test that belongs to no single source
"""
# SPDX-License-Identifier: Apache-2.0
import fnmatch
import os
import sys

import tree

LIST = "tests/lint/untested.txt"
# Tests in these folders need not mirror a source.
ACROSS = ("tests/contract/", "tests/e2e/", "tests/vectors/", "tests/parity/", "tests/portable/", "tests/support/", "tests/install/")
PROGRAM_TEXT = ("fedclient/examples/", "codecs/gpu/examples/")  # examples, which a test only builds


def matches(path, pattern):
    return path.count("/") == pattern.count("/") and fnmatch.fnmatch(path, pattern)


def mirror_of(source):
    folder, name = os.path.split(source)
    return f"tests/{folder}/test_{name}"


class Mirror:
    def __init__(self, root):
        paths = tree.files(root, (".c",))
        self.root = root
        self.sources = [p for p in paths if not p.startswith(("tests/",) + PROGRAM_TEXT)]
        self.tests = {p for p in paths if os.path.basename(p).startswith("test_") and p.startswith("tests/")}
        self.without = [p for p in self.sources if mirror_of(p) not in self.tests]
        self.findings = []
        self.patterns, self.unbound = [], set()

    def complain(self, line, text):
        self.findings.append(f"{LIST}:{line}: {text}")

    def read_list(self):
        for number, line in enumerate(tree.read(self.root, LIST).splitlines(), 1):
            words = line.split()
            if not words or line.startswith("#"):
                continue
            for test in words[1:]:
                if not os.path.exists(os.path.join(self.root, test)):
                    self.complain(number, f"{test} is not there")
            if len(words) < 2:
                self.complain(number, f"{words[0]} names no test")
            elif words[0] == "-":
                self.unbound.update(words[1:])
            else:
                self.patterns.append((number, words[0]))

    def check(self):
        self.read_list()
        for number, pattern in self.patterns:
            if not any(matches(source, pattern) for source in self.without):
                self.complain(number, f"no source without a test of its own matches {pattern}: remove this line")
        for source in self.without:
            if not any(matches(source, pattern) for _, pattern in self.patterns):
                self.findings.append(f"{source}:1: has no test: write {mirror_of(source)}, or say in {LIST} which test runs it")
        mirrored = {mirror_of(source) for source in self.sources}
        for test in sorted(self.tests - mirrored - self.unbound):
            if not test.startswith(ACROSS):
                self.findings.append(f"{test}:1: mirrors no source: move it beside its source, or list it in {LIST} behind -")
        for test in sorted(self.unbound & mirrored):
            self.findings.append(f"{LIST}:1: {test} mirrors a source: take it out")
        return self.findings


if __name__ == "__main__":
    sys.exit(tree.report(Mirror(sys.argv[1]).check(), "mirror"))
