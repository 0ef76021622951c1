"""Test, in a made-up tree, that includes.py finds all files that a source may include."""
# SPDX-License-Identifier: Apache-2.0
import os
import unittest

import includes
import planted

TREE = {
    "top.c": '#include "a.h"\n#  include <b.h> // words\nint x;\n',
    "spliced.c": '#inc\\\nlude "a.h"\n',
    "hidden.c": '#if 0\n#include "a.h"\n#endif\n',
    "macro.c": '#include "names.h"\n#include LIST\n',
    "unknown.c": "#include WHATEVER\n",
    "string.c": 'const char *s = "/*";\n#include "a.h"\n/* */\n',
    "circle.h": '#include "circle.h"\n',
    "a.h": '#include "deep/c.h"\n',
    "b.h": "",
    "deep/c.h": '#include "d.h"\n',
    "deep/d.h": "",
    "places/b.h": "",
    "names.h": '#define LIST "rows.def"\n',
    "rows.def": "",
}
ALL_HEADERS = sorted(name for name in TREE if not name.endswith(".c"))


class Includes(unittest.TestCase):
    def reached(self, name):
        with planted.tree(TREE) as root:
            found = includes.Scan(root, []).reached([os.path.join(root, name)], [os.path.join(root, "places")])
            return [path for path in (os.path.relpath(path, root) for path in found) if path != name]

    def test_a_name_counts_with_each_folder_that_has_it(self):
        self.assertEqual(self.reached("top.c"), ["a.h", "b.h", "deep/c.h", "deep/d.h", "places/b.h"])

    def test_what_the_preprocessor_might_skip_counts(self):
        for name in ("spliced.c", "hidden.c", "string.c"):
            self.assertEqual(self.reached(name), ["a.h", "deep/c.h", "deep/d.h"], name)

    def test_a_macro_counts_as_what_headers_define_it_as(self):
        self.assertEqual(self.reached("macro.c"), ["names.h", "rows.def"])

    def test_an_unknown_macro_counts_as_all_headers(self):
        self.assertEqual(self.reached("unknown.c"), ALL_HEADERS)

    def test_a_circle_ends(self):
        self.assertEqual(self.reached("circle.h"), [])

    def test_folders_and_files_of_a_command_line(self):
        command = "cc -Ione -I two -isystem three -DLIST='\"a.h\"' -DN=1 -c x.c"
        self.assertEqual(includes.folders([command]), ["one", "two", "three"])
        with planted.tree({"a.h": ""}) as root:
            self.assertEqual(includes.defined([command], root), [os.path.join(root, "a.h")])


if __name__ == "__main__":
    unittest.main()
