"""Tests mutate.py on a made-up tree: it must plant each kind of fault, the same ones for a seed, and report those that no test catches.

    mutate_selftest.py CMAKE
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import mutate
import mutate_faults

SOURCE = """\
/* if (comment == 1) */
#define MACRO (1 + 2)
typedef enum { FED_OK, FED_ENOMEM } fed_status;
typedef struct { int low, high; } pair;
#define NULL ((void *)0)
static const int table[] = {1, 2};
enum { NAMES_MAX = 8 };
void fed_logf(const char *text, int n);
fed_status put(pair *p, int n);
#define FED_TRY(e) do { fed_status s = (e); if (s != FED_OK) { return s; } } while (0)

static void note(pair *p) {
    fed_logf("p == 1, n < 2", p->low + 7);
}

int limit(int n, pair *p) {
    int unset;
    if (n < NAMES_MAX && p->low == -3) {
        return n + 5;
    }
    note(p);
    p->high = n;
    each(n, p) {
        note(p);
    }
    *p = (pair){.low = n, .high = table[0]};
    return 0;
}

fed_status put(pair *p, int n) {
    FED_TRY(put(p, n));
    p->low = n;
    UNROLL for (int k = 0; k < n; k++)
        note(p);
    return put(p, n);
}

fed_status get(pair **p) {
    pair none = {0};
    FED_REQUIRE(*p != NULL, FED_ENOMEM);
    put(*p, 3);
    if (*p == NULL) {
        return fed_fail(FED_ENOMEM, "out of memory");
    }
    return FED_OK;
}
"""

FAULTS = """\
18:operator: < -> <=
18:operator: && -> ||
18:operator: == -> !=
18:condition: n < NAMES_MAX && p->low == -3 -> !(n < NAMES_MAX && p->low == -3)
18:condition: n < NAMES_MAX && p->low == -3 -> (n < NAMES_MAX && p->low == -3) && 0
18:condition: n < NAMES_MAX && p->low == -3 -> (n < NAMES_MAX && p->low == -3) || 1
18:constant: NAMES_MAX -> (2 * NAMES_MAX)
18:constant: 3 -> 4
19:operator: + -> -
19:constant: 5 -> 6
21:call: note(p) -> (nothing)
21:swap: note(p); p->high = n -> p->high = n; note(p)
22:member: p->high = n -> (nothing)
24:call: note(p) -> (nothing)
26:constant: 0 -> 1
26:member: *p = (pair){.low = n, .high = table[0]} -> (nothing)
26:member: .low = n, -> (nothing)
26:member: .high = table[0] -> (nothing)
27:constant: 0 -> 1
31:call: FED_TRY(put(p, n)) -> (nothing)
31:swap: FED_TRY(put(p, n)); p->low = n -> p->low = n; FED_TRY(put(p, n))
32:member: p->low = n -> (nothing)
33:operator: < -> <=
33:constant: 0 -> 1
34:call: note(p) -> (nothing)
35:status: put(p, n) -> ((void)(put(p, n)), FED_OK)
40:operator: != -> ==
41:call: put(*p, 3) -> (nothing)
41:constant: 3 -> 4
42:operator: == -> !=
42:condition: *p == NULL -> !(*p == NULL)
42:condition: *p == NULL -> (*p == NULL) || 1
"""


class Faults(unittest.TestCase):
    def setUp(self):
        self.faults = list(mutate_faults.faults_of("x.c", SOURCE))

    def test_every_kind_where_it_can_be_and_nowhere_else(self):
        found = [f"{fault.line}:{fault.kind}: {fault.says()}" for fault in self.faults]
        self.assertEqual(sorted(found), sorted(FAULTS.splitlines()))
        self.assertEqual({fault.kind for fault in self.faults}, set(mutate_faults.KINDS))

    def test_a_source_that_it_cannot_parse_is_named(self):
        with self.assertRaisesRegex(ValueError, "x.c: no end of the statement at 'MACRO { return; }"):
            list(mutate_faults.faults_of("x.c", "void f(void) {\n    MACRO { return; }\n}\n"))

    def test_a_seed_draws_the_same(self):
        draw = [list(mutate_faults.drawn(self.faults, seed)) for seed in (1, 1, 2)]
        self.assertEqual(draw[0], draw[1])
        self.assertNotEqual(draw[0], draw[2])
        self.assertEqual(collections.Counter(draw[0]), collections.Counter(self.faults))

    def test_every_product_source_can_be_parsed(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        paths = mutate.sources(root, mutate.PRODUCT)
        self.assertGreater(len(paths), 300)
        for path in paths:
            mutate_faults.Source(path, (root / path).read_text(encoding="utf-8"))


PRESETS = '{"version": 3, "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}]}'
BUILD = """\
cmake_minimum_required(VERSION 3.20)
project(made_up C)
set(CMAKE_C_FLAGS "-O2 -Wall -Wextra -Werror")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
enable_testing()
add_library(parts STATIC common/clamp.c)
add_executable(common.test_clamp tests/common/test_clamp.c)
target_link_libraries(common.test_clamp parts)
add_test(NAME common.test_clamp COMMAND common.test_clamp)
"""
CLAMP = """\
int clamp(int n, int unused);
int clamp(int n, int unused) {
    if (n < 10)
        return n;
    if (unused > 3)
        return 10;
    return 10;
}
"""
TEST = """\
int clamp(int n, int unused);
int main(void) {
    return !(clamp(3, 0) == 3 && clamp(10, 0) == 10 && clamp(11, 0) == 10);
}
"""


class Tree(unittest.TestCase):
    """Make a tree with a small library and its test."""

    @classmethod
    def setUpClass(cls):
        room = tempfile.TemporaryDirectory()
        cls.addClassCleanup(room.cleanup)
        cls.root = pathlib.Path(room.name)
        subprocess.run(["git", "init", "-q"], cwd=cls.root, check=True)

    def setUp(self):
        for name, text in (("CMakePresets.json", PRESETS), ("CMakeLists.txt", BUILD), ("common/clamp.c", CLAMP),
                           ("tests/common/test_clamp.c", TEST), ("tests/mutants.txt", ""), (".gitignore", "/build\n")):
            self.write(name, text)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def call(self, *words):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = mutate.main(list(words), self.root)
        self.assertEqual((self.root / "common/clamp.c").read_text(encoding="utf-8"), CLAMP)
        return code, said.getvalue()

    def test_a_fault_is_caught_by_the_mirror(self):
        code, said = self.call("--only", "common/clamp.c:3:condition")
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("caught by common.test_clamp"), 3)  # three forms of one condition: negated, always false, always true

    def test_equivalent_faults_are_drawn_again(self):
        code, said = self.call("--only", "common/clamp.c:5")
        self.assertEqual(code, 0)
        self.assertNotIn("clamp.c:5", said)

    def test_what_survives_is_reported_and_the_goal_missed(self):
        self.write("tests/common/test_clamp.c", "int main(void) { return 0; }\n")
        code, said = self.call("--only", "common/clamp.c:7:constant")
        self.assertEqual(code, 1)
        self.assertIn("SURVIVED: common/clamp.c:7:constant: 10 -> 11\n    in the line: return 10;", said)
        self.assertIn("0 of 1 are caught: the goal is 90 percent", said)

    def test_an_explained_fault_is_not_planted(self):
        self.write("tests/mutants.txt", "file: common/clamp.c\nline: return 10;\nfault: 10 -> 11\nwhy: a test of the test\n")
        _, said = self.call("--only", "common/clamp.c:7:constant")
        self.assertNotIn("clamp.c:7", said)

    def test_a_fault_that_does_not_compile_is_drawn_again(self):
        start = CLAMP.index("return n")
        broken = mutate_faults.Fault("common/clamp.c", 4, "call", start, start + 6, "return", "retrun")
        with unittest.mock.patch("mutate.faults_of", lambda path, text: [broken]):
            code, said = self.call("1", "1", "common/clamp.c")
        self.assertEqual(code, 0, said)
        self.assertNotIn("retrun", said)

    def test_a_fault_that_hangs_is_caught(self):
        self.write("tests/common/test_clamp.c", TEST.replace("return !(", "while (clamp(10, 0) != 10) {}\n    return !("))
        with unittest.mock.patch("mutate.Copy.limit_of", lambda *_: 0.5):
            code, said = self.call("--only", "common/clamp.c:7:constant")
        self.assertEqual(code, 0, said)
        self.assertIn("caught by common.test_clamp (late)", said)

    def test_other_users_can_write_where_a_test_does(self):
        self.write("tests/common/test_clamp.c", """\
#include <stdlib.h>
#include <sys/stat.h>
int main(void) {
    struct stat s;
    return stat(getenv("TMPDIR"), &s) != 0 || (s.st_mode & 0777) != 0777;
}
""")
        code, said = self.call("--goal", "0", "--only", "common/clamp.c:7:constant")
        self.assertEqual(code, 0, said)

    def test_a_test_that_fails_without_a_fault_judges_nothing(self):
        self.write("tests/common/test_clamp.c", "int main(void) { return 1; }\n")
        code, said = self.call("--only", "common/clamp.c:7:constant")
        self.assertEqual(code, 2)
        self.assertIn("left out: common.test_clamp has failed without a fault", said)


if __name__ == "__main__":
    os.environ["PATH"] = os.path.dirname(sys.argv.pop(1)) + ":" + os.environ["PATH"]  # ctest is in the same folder as cmake
    unittest.main()
