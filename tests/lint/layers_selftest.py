"""Test that layers.py finds each kind of violation. Violations are planted in a made-up tree, one at a time."""
# SPDX-License-Identifier: Apache-2.0
import unittest

import layers
import planted

GOOD = {
    "common/include/fed/hash.h": "#include <stdint.h>\n",
    "common/base/hash.c": '#include "fed/hash.h"\n#include <xxhash.h>\n',
    "common/include/fed/text_lines.h": "",
    "common/base/text_lines.c": '#include "fed/text_lines.h"\n#include "fed/hash.h"\n',
    "common/security/mbedtls.h": "#include <mbedtls/sha256.h>\n",
    "common/security/sha256.c": '#include "fed/hash.h"\n#include "common/security/mbedtls.h"\n',
    "common/base/text.h": "",
    "common/include/fed/log.h": "",
    "common/system/log.c": '#include "fed/log.h"\n',
    "codecs/include/fedcodec/codec.h": '#include "fed/hash.h"\n',
    "codecs/codecs.def": "FEDCODEC(1, identity)\nFEDCODEC(2, sbc)\n",
    "codecs/prim/golomb.h": "",
    "codecs/sbc/sbc.c": '#include "codecs/prim/golomb.h"\n#include "codecs/sbc/positions.h"\n',
    "codecs/sbc/positions.h": "",
    "codecs/tool/fedcodec.c": '#include "fedcodec/codec.h"\n',
    "fedclient/include/fedclient/fedclient.h": "",
    "fedclient/client.h": "",
    "fedclient/client.c": '#include "fedclient/client.h"\n#include "fedcodec/codec.h"\n',
    "fedclient/transports/curl/curl.c": "#include <curl/curl.h>\n",
    "fedclient/train/include/fedtrain/net.h": "",
    "fedclient/train/net.c": '#include "fedtrain/net.h"\n',
    "fedclient/train/data/gunzip.c": "#include <zlib.h>\n",
    "fedclient/apps/fedclientd.c": '#include "fedclient/fedclient.h"\n#include "fedtrain/net.h"\n',
    "fedclient/examples/minimal.c": '#include "fedclient/fedclient.h"\n',
    "fedserver/include/fedserver/fedserver.h": "",
    "fedserver/rounds/round.h": "",
    "fedserver/rounds/round.c": '#include "fedserver/rounds/round.h"\n#include <jansson.h>\n#include <sys/stat.h>\n',
    "fedserver/rounds/leases.h": "",
    "fedserver/rounds/leases.c": '#include "fedserver/rounds/leases.h"\n#include "fedserver/rounds/round.h"\n',
    "fedserver/commands/main.c": '#include "fedserver/fedserver.h"\n',
    "fedserver/http/http_mhd.c": "#include <microhttpd.h>\n",
    "fedserver/stores/sqlite/sqlite.c": "#include <sqlite3.h>\n",
    "deploy/sim/clients/clients.h": "",
    "fedserver/server.h": '#include "fedserver/rounds/round.h"\n',
    "fedserver/server.c": '#include "fedserver/server.h"\n',
    "fedserver/routes/router.c": '#include "fedserver/server.h"\n#include "fedserver/routes/routes.def"\n',
    "fedserver/routes/routes.def": "",
    "deploy/sim/run.h": "",
    "deploy/sim/fedsim.c": '#include "deploy/sim/clients/clients.h"\n#include "fedserver/fedserver.h"\n#include "fedtrain/net.h"\n',
    "tests/support/fed_test.h": "#include <cmocka.h>\n",
    "tests/fedserver/rounds/test_round.c": '#include "fed_test.h"\n#include "fedserver/rounds/round.h"\n',
}

# The path and text of a file that breaks a rule, and a piece of the finding that layers.py must print.
BAD = [
    ("common/base/a.c", '#include "fedcodec/codec.h"\n', "common/ may include fed only"),
    ("codecs/a.c", '#include "fedclient/fedclient.h"\n', "codecs/ may include fed, fedcodec only"),
    ("fedclient/steps/a.c", '#include "fedtrain/net.h"\n', "may include fed, fedclient, fedcodec only"),
    ("fedclient/steps/a.c", '#include "fedserver/fedserver.h"\n', "may include"),
    ("fedclient/train/a.c", '#include "fedcodec/codec.h"\n', "may include fed, fedtrain only"),
    ("fedclient/train/a.c", '#include "fedclient/fedclient.h"\n', "may include"),
    ("fedclient/apps/a.c", '#include "fedclient/client.h"\n', "internal to fedclient/"),
    ("fedclient/examples/a.c", '#include "fedtrain/net.h"\n', "may include fed, fedclient, feddc only"),
    ("fedserver/rounds/a.c", '#include "fedtrain/net.h"\n', "may include"),
    ("fedserver/rounds/a.c", '#include "fedclient/fedclient.h"\n', "may include"),
    ("fedserver/rounds/a.c", '#include "codecs/prim/golomb.h"\n', "internal to codecs/"),
    ("fedserver/rounds/a.c", '#include "deploy/sim/clients/clients.h"\n', "internal to deploy/sim/"),
    ("fedserver/commands/main.c", '#include "fedserver/rounds/round.h"\n', "internal to fedserver/"),
    ("codecs/tool/a.c", '#include "codecs/prim/golomb.h"\n', "internal to codecs/"),
    ("codecs/a.c", '#include "common/base/text.h"\n', "internal to common/"),
    ("codecs/threelc/a.c", '#include "codecs/sbc/positions.h"\n', "belongs to the plugin codecs/sbc/"),
    ("codecs/a.c", '#include "codecs/sbc/positions.h"\n', "belongs to the plugin codecs/sbc/"),
    ("fedserver/stores/b/a.c", '#include "fedserver/stores/c/d.h"\n', "nowhere in the tree"),
    ("codecs/sbc/a.c", '#include "../prim/golomb.h"\n', "by its path from the top"),
    ("codecs/sbc/a.c", '#include "positions.h"\n', 'by its path from the top, "codecs/sbc/positions.h"'),
    ("common/base/a.c", "#include <mbedtls/sha256.h>\n", "<mbedtls/sha256.h> belongs in"),
    ("fedclient/steps/a.c", "\n  #  include <curl/curl.h>\n", "a.c:2: <curl/curl.h> belongs in fedclient/transports/curl/"),
    ("fedclient/transports/other/a.c", "#include <curl/curl.h>\n", "belongs in fedclient/transports/curl/"),
    ("fedserver/rounds/a.c", "#include <sqlite3.h>\n", "belongs in fedserver/stores/sqlite/"),
    ("fedserver/rounds/a.c", "#include <libpq-fe.h>\n", "belongs in fedserver/stores/postgres/"),
    ("fedserver/rounds/a.c", "#include <microhttpd.h>\n", "belongs in fedserver/http/http_mhd.c"),
    ("fedserver/rounds/a.c", "#include <gnutls/x509.h>\n", "belongs in"),
    ("codecs/a.c", "#include <jansson.h>\n", "belongs in fedserver/"),
    ("codecs/a.c", "#include <zstd.h>\n", "belongs in codecs/stages/zstd/"),
    ("fedclient/train/data/a.c", "#include <zlib.h>\n", "belongs in fedclient/train/data/gunzip.c"),
    ("codecs/a.c", "#include <brotli.h>\n", "is not a standard header"),
    ("codecs/a.c", "#include <cmocka.h>\n", "belongs in tests/ only"),
    ("codecs/b/round.c", "", "the name round.c is taken by"),
    ("codecs/more.def", "FEDCODEC(1, a)\nFEDCODEC(1, b)\n", "more.def:2: the id 1 is given twice"),
    ("codecs/more.def", "FEDCODEC(1, a)\nFEDCODEC(2, a)\n", "more.def:2: a stands there twice"),
    ("tools/a.c", "", "is in no room"),
    ("fedserver/other/a.c", "", "is in no inner room of fedserver/"),
    ("fedserver/other.c", "", "is in no inner room of fedserver/"),
    ("fedserver/rounds/a.c", '\n#include "fedserver/server.h"\n', "a.c:2: \"fedserver/server.h\": fedserver/server is above"),
    ("fedserver/server.c", '#include "fedserver/routes/routes.def"\n', "fedserver/routes/ is above fedserver/server"),
    ("deploy/sim/clients/clients.h", '#include "deploy/sim/run.h"\n', "deploy/sim/ is above deploy/sim/clients/"),
    ("fedserver/rounds/round.h", '#include "fedserver/rounds/leases.h"\n', "closes a circle of fedserver/rounds/leases, fedserver/rounds/round:"),
    ("common/base/a.c", '#include "fed/log.h"\n', '"fed/log.h": common/system/ is above common/base/'),
    ("common/include/fed/hash.h", '#include "fed/text_lines.h"\n', "closes a circle of common/base/hash, common/base/text_lines:"),
]


def findings(files, known_circles=()):
    with planted.tree(files) as root:
        return layers.Tree(root, known_circles).check()


class LayersTest(unittest.TestCase):
    def test_a_good_tree_has_no_findings(self):
        self.assertEqual(findings(GOOD), [])

    def test_each_planted_violation_is_found(self):
        for path, text, complaint in BAD:
            with self.subTest(path=path, text=text):
                found = findings({**GOOD, path: text})
                self.assertEqual(len(found), 1, found)
                self.assertIn(complaint, found[0])
                self.assertTrue(found[0].startswith(path) or "is taken by" in found[0] or "a circle of" in found[0])

    def test_a_known_circle_is_let_through_until_it_is_open(self):
        circle = {"fedserver/rounds/leases", "fedserver/rounds/round"}
        closed = {**GOOD, "fedserver/rounds/round.h": '#include "fedserver/rounds/leases.h"\n'}
        self.assertEqual(findings(closed, [circle]), [])
        found = findings(GOOD, [circle])
        self.assertEqual(len(found), 1, found)
        self.assertIn("the circle of fedserver/rounds/leases, fedserver/rounds/round is open, or smaller", found[0])

    def test_circles_of_any_shape_are_found(self):
        two = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
        self.assertEqual(sorted(map(sorted, layers.circles(two))), [["a", "b", "c"], ["d", "e"]])
        self.assertEqual(layers.circles({"a": {"b", "c"}, "b": {"c"}}), [])


if __name__ == "__main__":
    unittest.main()
