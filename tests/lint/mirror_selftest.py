"""Test that mirror.py finds each kind of missing test. Gaps are planted in a made-up tree, one at a time."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import mirror
import planted

GOOD = {
    "common/a.c": "",
    "tests/common/test_a.c": "",
    "codecs/prim/b.c": "",
    "codecs/prim/c.c": "",
    "tests/contract/test_codecs.c": "",
    "tests/codecs/test_all.c": "",
    mirror.LIST: "# a remark\ncodecs/prim/*.c tests/contract/test_codecs.c\n- tests/codecs/test_all.c\n",
}
# Files that are added or replaced (None: removed), and a piece of the finding that mirror.py must print.
BAD = [
    ({"codecs/d.c": ""}, "codecs/d.c:1: has no test"),
    ({"tests/common/test_a.c": None}, "common/a.c:1: has no test"),
    ({"common/a.c": None}, "tests/common/test_a.c:1: mirrors no source"),
    ({"tests/contract/test_codecs.c": None}, "tests/contract/test_codecs.c is not there"),
    ({mirror.LIST: GOOD[mirror.LIST] + "common/*.c tests/contract/test_codecs.c\n"}, "common/*.c is no source without"),
    ({mirror.LIST: GOOD[mirror.LIST] + "codecs/prim/b.c\n"}, "names no test"),
    ({mirror.LIST: GOOD[mirror.LIST] + "- tests/common/test_a.c\n"}, "mirrors a source"),
]


def findings(files):
    with planted.tree(files) as root:
        return mirror.Mirror(root).check()


class MirrorTest(unittest.TestCase):
    def test_a_good_tree_has_no_findings(self):
        self.assertEqual(findings(GOOD), [])

    def test_each_planted_gap_is_found(self):
        for change, complaint in BAD:
            with self.subTest(change=change):
                found = findings({**GOOD, **change})
                self.assertEqual(len(found), 1, found)
                self.assertIn(complaint, found[0])


if __name__ == "__main__":
    unittest.main()
