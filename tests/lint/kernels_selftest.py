"""Test that the kernels' lint finds barriers and returns in wrong places. Each is planted in a made-up tree of its own."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import kernels
import planted

DIALECT = "FUNC u32 wg_max(LOCALP u32 *room, u32 v) {\n    BARRIER();\n    return v;\n}\n"
SHARED = "#define MEET(x) \\\n    do { BARRIER(); } while (0)\nFUNC void both(u32 n) {\n    MEET(n);\n}\n"
GOOD = {
    "returns before": "if (n == 0) { return; }\n BARRIER();",
    "uniform loop": "for (u32 i = 0; i < n; i++) { a[i] = 0; BARRIER(); }",
    "condition": "if (wg_max(room, n) > 0) { a[0] = 1; }",
    "a branch between": "BARRIER();\n if (n) a[0] = 1; else a[0] = 2;\n BARRIER();",
    "in words": "if (n) { /* BARRIER() */ a[0] = 1; } // return after BARRIER();",
    "do": "do { both(n); n--; } while (n > 0);",
}
IN_IF, AFTER = "in an if or else", "return after a barrier"
BAD = {
    "in an if": ("if (n) {\n BARRIER(); }", IN_IF),
    "without braces": ("if (n)\n BARRIER();", IN_IF),
    "in an else": ("if (n) { a[0] = 1; } else {\n a[0] = wg_max(room, n); }", IN_IF),
    "in a loop in an if": ("if (n) { for (;;)\n { both(n); } }", IN_IF),
    "a macro": ("if (n) {\n MEET(n); }", IN_IF),
    "in a switch": ("switch (n) { case 1:\n BARRIER(); }", IN_IF),
    "a return": ("BARRIER(); if (n)\n return;", AFTER),
    "after a function": ("both(n); if (n > 1) {\n return; }", AFTER),
    "the loop's next turn": ("for (;;) { if (n)\n return; BARRIER(); }", AFTER),
    "after a pragma": ("#pragma unroll\n for (;;) { if (n) { BARRIER(); } }", IN_IF),
    "an include": ("a[0] = 1;\n#include \"x.h\"\n", "includes nothing"),
}


def complaints(body):
    with planted.tree({kernels.DIALECT: DIALECT, "codecs/shared.cl": SHARED,
                       "codecs/a.cl": f"KERNEL one(GLOBAL u32 *a, u32 n) {{\n LOCAL u32 room[256];\n\n{body}\n}}\n"}) as root:
        return list(kernels.findings(root))


class KernelsTest(unittest.TestCase):
    def test_good_kernels_pass(self):
        for name, body in GOOD.items():
            self.assertEqual(complaints(body), [], name)

    def test_each_planted_fault_is_found_in_its_line(self):
        for name, (body, words) in BAD.items():
            found = complaints(body)
            self.assertEqual(len(found), 1, f"{name}: {found}")
            self.assertIn(words, found[0], name)
            self.assertTrue(found[0].startswith("codecs/a.cl:5:"), f"{name}: {found}")


if __name__ == "__main__":
    unittest.main()
