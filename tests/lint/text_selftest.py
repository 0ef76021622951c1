"""Test that text.py finds public headers without their brackets. Each is planted in a made-up tree of its own."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import planted
import text

GOOD = {
    "declares": '/* A. */\n#include <stddef.h>\n\nFED_API_BEGIN\n\nint fed_a(void);\n\nFED_API_END\n',
    "declares nothing": "/* A. */\n#ifndef A\n#define A(x) \\\n    ((x) + 1)\n#endif\n",
    "includes before it declares": '/* A. */\n#ifdef __cplusplus\n#include <atomic>\n#endif\nFED_API_BEGIN\nint fed_a;\nFED_API_END\n',
}
BAD = {
    "no brackets": ("/* A. */\nint fed_a(void);\n", "FED_API_BEGIN"),
    "no end": ("/* A. */\nFED_API_BEGIN\nint fed_a(void);\n", "FED_API_END"),
    "the wrong way round": ("/* A. */\nFED_API_END\nint fed_a(void);\nFED_API_BEGIN\n", "FED_API_BEGIN"),
    "an include between them": ("/* A. */\nFED_API_BEGIN\n#include <stddef.h>\nFED_API_END\n", "includes stand before"),
}


def complaints(content, path="common/include/fed/a.h"):
    with planted.tree({path: content}) as root:
        return list(text.findings(root))


class Brackets(unittest.TestCase):
    def test_good_headers_pass(self):
        for name, content in GOOD.items():
            self.assertEqual(complaints(content), [], name)

    def test_each_bad_header_is_found(self):
        for name, (content, words) in BAD.items():
            found = complaints(content)
            self.assertEqual(len(found), 1, f"{name}: {found}")
            self.assertIn(words, found[0], name)

    def test_private_headers_need_none(self):
        self.assertEqual(complaints("/* A. */\nint fed_a(void);\n", "common/a.h"), [])


if __name__ == "__main__":
    unittest.main()
