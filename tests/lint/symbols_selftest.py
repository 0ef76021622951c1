"""Test, with a compiled made-up tree, that symbols.py finds a call from a lower room to an upper one."""
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import unittest

import planted
import symbols

TREE = {
    "common/base/hash.c": "int fed_hash(void) { return 1; }\n",
    "codecs/sbc/sbc.c": "int fed_hash(void);\nint fedcodec_sbc(void) { return fed_hash(); }\n",
    "fedserver/stores/store.c": "int fed_hash(void);\nint fedserver_store(void) { return fed_hash(); }\n",
    "fedserver/operator/check.c": "int fedserver_store(void);\nint fedserver_check(void) { return fedserver_store(); }\n",
}


def findings(changes=()):
    files = {**TREE, **dict(changes)}
    with planted.tree(files) as root:
        for path in files:
            room = path.split("/")[0]
            made = os.path.join(root, "build", room, "CMakeFiles", room + ".dir", path[len(room) + 1:] + ".o")
            os.makedirs(os.path.dirname(made), exist_ok=True)
            subprocess.run(["cc", "-c", os.path.join(root, path), "-o", made], check=True)
        return symbols.check(root, os.path.join(root, "build"))


@unittest.skipUnless(shutil.which("cc") and shutil.which("nm"), "there is no compiler")
class Symbols(unittest.TestCase):
    def test_calls_that_point_down_are_fine(self):
        self.assertEqual(findings(), [])

    def test_a_call_to_an_upper_inner_room_is_found(self):
        found = findings({"fedserver/stores/store.c": "int fedserver_check(void);\nint fedserver_store(void) { return fedserver_check(); }\n"})
        self.assertEqual(len(found), 1)
        self.assertIn("fedserver/stores/store.c:1: fedserver_check of fedserver/operator/check.c: fedserver/operator/ is above", found[0])

    def test_a_call_to_an_upper_room_is_found(self):
        found = findings({"common/base/hash.c": "int fedcodec_sbc(void);\nint fed_hash(void) { return fedcodec_sbc(); }\n"})
        self.assertEqual(len(found), 1)
        self.assertIn("codecs/ is not below common/", found[0])

    def test_the_name_of_a_variable_is_found_too(self):
        found = findings({"fedserver/stores/store.c": "extern int fedserver_limit;\nint fedserver_store(void) { return fedserver_limit; }\n",
                          "fedserver/operator/check.c": "int fedserver_limit = 3;\n"})
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    unittest.main()
