"""Check who includes whom: a folder includes only the folders that the tables below allow, no files include each other in a
circle, and each third-party header is included only where the tables allow it.

    layers.py ROOT      prints path:line: what is wrong and what to do; exit status 1 if anything is

The tables below are the rules; docs/architecture.md draws them.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys

import tree

# Rooms: folders, and the public headers that their files may include. A file belongs to the room with the longest path.
# Other headers may be included only by their own room.
EVERYTHING = {"fed", "fedcodec", "fedtrain", "feddc", "fednic", "fedclient", "fedserver"}
ROOMS = {
    "common/": {"fed"},
    "common/gpu/": {"fed"},
    "codecs/": {"fed", "fedcodec"},
    "codecs/tool/": {"fed", "fedcodec"},
    "fedclient/": {"fed", "fedcodec", "fedclient"},
    "fedclient/train/": {"fed", "fedtrain"},
    "fedclient/datacenter/": {"fed", "fedcodec", "fedtrain", "feddc", "fednic"},
    "fedclient/apps/": {"fed", "fedcodec", "fedclient", "fedtrain", "feddc", "fednic"},
    "fedclient/python/": {"fed", "fedcodec", "fedclient", "fedtrain"},
    "fedclient/bindings/java/": {"fed", "fedcodec", "fedclient"},
    "fedclient/examples/": {"fed", "fedclient", "feddc"},
    "fedclient/examples/baremetal/": {"fed", "fedclient", "fedtrain"},
    "fedserver/": {"fed", "fedcodec", "fedserver"},
    "fedserver/commands/": {"fed", "fedclient", "fedserver"},
    "deploy/sim/": EVERYTHING,
    "tests/": EVERYTHING,
}
# Inner rooms, the lowest first: a file may include files of its own inner room and of lower ones. "name" stands for
# name.c and name.h, "" for all other files. A lower room calls an upper one by a .def table or by a function pointer.
INNER_ROOMS = {
    "common/": ["include/", "base/", "system/", "security/", "messages/", "arch/", "gpu/"],
    "fedserver/": ["include/", "paths", "privacy/", "strategies/", "task/", "stores/", "versions/", "identity/", "rounds/", "front/",
                   "batch_log", "memory_note", "worker_groups", "pauses", "reopening", "held", "server", "leading", "audit_log", "operator/", "routes/", "open", "cluster/", "http/",
                   "commands/"],
    "fedclient/datacenter/": ["include/", "trace", "syncs", "sync", "cost", "buffers", "nic/", "links/", "links", "plan",
                              "gpu_values", "gpu_coder", "coder", "pending", "collective", "engine", "inputs", "sum_relay", "collectives/", "collectives", "feddc",
                              "control/", "worker/"],
    "fedclient/": ["include/", "state/", "net/", "steps/", "platforms/", "transports/", "client", "loop", "app"],
    "deploy/sim/": ["conditions/", "scenario/", "report/", "stores/", "clients/", "inproc/", "https/", ""],
}

# Allowed circles of includes: sets of modules (x.c and x.h are one module).
CIRCLES = []

# Third-party headers, and the files that may include them.
THIRD_PARTY = {
    "mbedtls/": ["common/security/mbedtls.h", "common/security/crypto.c", "fedclient/transports/mbedtls/", "fedclient/examples/baremetal/"],
    "lwip/": ["fedclient/examples/baremetal/"],
    "netif/": ["fedclient/examples/baremetal/"],
    "psa/": ["fedclient/transports/mbedtls/"],
    "xxhash.h": ["common/base/hash.c"],
    "CL/": ["common/gpu/devices/opencl/", "codecs/gpu/examples/"],
    "cuda.h": [],
    "nvrtc.h": [],
    "nccl.h": [],
    "curl/": ["fedclient/transports/curl/"],
    "jni.h": ["fedclient/bindings/java/"],
    "microhttpd.h": ["fedserver/http/http_mhd.c", "fedserver/http/http_exchange.h"],
    "gnutls/": ["fedserver/http/http_tls.c", "fedserver/http/http_health.c", "fedserver/cluster/cluster_tls.c", "fedserver/identity/certificates.c"],
    "sqlite3.h": ["fedserver/stores/sqlite/", "fedserver/privacy/helper_state.c"],
    "libpq-fe.h": ["fedserver/stores/postgres/"],
    "jansson.h": ["fedserver/"],
    "mpi.h": ["fedclient/datacenter/links/mpi/"],
    "zstd.h": ["codecs/stages/zstd/"],
    "zlib.h": ["fedclient/train/data/gunzip.c", "fedserver/http/http_gzip.c"],
    "cmocka.h": [],
    "lz4.h": [],
    "snappy-c.h": [],
    "linux/": ["fedclient/datacenter/nic/packet/"],
    "malloc.h": ["deploy/sim/"],  # for mallopt of glibc
}
USES_ANY_THIRD_PARTY = ("tests/", "deploy/sim/")

# Standard headers of C, POSIX and the compiler. Any other one needs a place in THIRD_PARTY.
STANDARD = set("""assert atomic ctype errno fenv float ifaddrs inttypes limits locale math setjmp signal stdalign stdarg stdatomic stdbool
    stddef stdint stdio stdlib stdnoreturn string tgmath time wchar wctype dirent fcntl getopt grp netdb poll pthread pwd regex sched
    semaphore spawn strings dlfcn termios unistd immintrin xmmintrin emmintrin arm_neon""".split())
STANDARD_FOLDERS = ("sys/", "arpa/", "net/", "netinet/")

# Folders of plugins: only the plugin itself and tests may include its headers.
PLUGIN_KINDS = ["codecs/", "common/gpu/devices/", "codecs/stages/", "fedclient/transports/", "fedclient/platforms/", "fedclient/train/backends/",
                "fedclient/datacenter/links/", "fedclient/datacenter/collectives/", "fedserver/stores/", "fedserver/strategies/"]
NOT_PLUGINS = ["fedserver/stores/sql/", "codecs/include/", "codecs/prim/", "codecs/tool/", "codecs/gpu/"]

# Internal headers that a port implements, and so may include.
PORTS = {"fedclient/examples/baremetal/": ["fedclient/transports/mbedtls/tcp.h"]}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
DEFINITION = re.compile(r"^([A-Z][A-Z0-9_]*)\((\d+),\s*(\w+)", re.MULTILINE)


def starts_with_any(path, prefixes):
    return any(path.startswith(p) for p in prefixes)


def room_of(path):
    return max((r for r in ROOMS if path.startswith(r)), key=len, default=None)


def plugin_of(path):
    """Return a file's plugin, such as "codecs/sbc/" for codecs/sbc/sbc.c; None for a file of no plugin."""
    if starts_with_any(path, NOT_PLUGINS):
        return None
    kinds = [k for k in PLUGIN_KINDS if path.startswith(k) and "/" in path[len(k):]]
    kind = max(kinds, key=len, default=None)
    return kind and kind + path[len(kind):].split("/")[0] + "/"


def inner_room_of(path):
    """Return a file's (folder, index in the folder's list of INNER_ROOMS). The index is None if the list lacks the file. Both are
    None if the folder has no list, or if the file is in a room of its own that the list does not name."""
    folder = next((f for f in INNER_ROOMS if path.startswith(f)), None)
    if folder is None:
        return None, None
    rest = path[len(folder):]
    name = rest.split("/")[0] + "/" if "/" in rest else os.path.splitext(rest)[0]
    order = INNER_ROOMS[folder]
    if name not in order:
        name = name if "/" in name else ""
    if name not in order and room_of(path) != folder:
        return None, None
    return folder, order.index(name) if name in order else None


def circles(arrows):
    """Return the sets of two or more nodes that reach each other. arrows: {node: set of nodes} (Tarjan, 1972, without recursion)."""
    number, low, path, found = {}, {}, [], []
    for start in sorted(arrows):
        work = [] if start in number else [(start, None)]
        while work:
            node, rest = work.pop()
            if rest is None:
                number[node] = low[node] = len(number)
                path.append(node)
                rest = sorted(arrows.get(node, ()))
            for k, other in enumerate(rest):
                if other not in number:
                    work += [(node, rest[k:]), (other, None)]
                    break
                if other in path:
                    low[node] = min(low[node], low[other])
            else:
                if low[node] == number[node]:
                    members = set(path[path.index(node):])
                    path = path[:path.index(node)]
                    found += [members] if len(members) > 1 else []
    return found


class Tree:
    def __init__(self, root, known_circles=()):
        self.root = root
        self.known_circles = known_circles
        self.arrows = {}  # module -> {module that it includes: (path, line)}
        self.files = tree.files(root, (".c", ".h", ".def"))
        self.known = set(self.files)
        # "fed/hash.h" -> "common/include/fed/hash.h"
        headers = self.files + tree.files(root, (".h.in",))  # CMake makes fed/version.h of fed/version.h.in
        self.public = {p.split("/include/", 1)[1].removesuffix(".in"): p
                       for p in headers if "/include/" in p and not p.startswith("tests/")}
        self.findings = []

        # x.c and x.h of one room are one module.
        self.module = {(room_of(p), os.path.basename(p)[:-2]): p[:-2] for p in self.files if p.endswith(".c")}

    def module_of(self, path):
        stem = os.path.splitext(path)[0]
        return self.module.get((room_of(path), os.path.basename(stem)), stem)

    def inner_room(self, path):
        """Return a file's inner room. A public header has the inner room of its source, or none if it has no source."""
        source = self.module_of(path) + ".c"
        if "/include/" in path and source not in self.known:
            return None, None
        return inner_room_of(source)

    def complain(self, path, line, text):
        self.findings.append(f"{path}:{line}: {text}")

    def check_system(self, path, line, header):
        for prefix, places in THIRD_PARTY.items():
            if header.startswith(prefix):
                if not starts_with_any(path, places) and not path.startswith(USES_ANY_THIRD_PARTY):
                    where = ", ".join(places) or "tests/"
                    self.complain(path, line, f"<{header}> belongs in {where} only; call that folder's functions instead")
                return
        name = header[:-2] if header.endswith(".h") else header
        if name not in STANDARD and not header.startswith(STANDARD_FOLDERS):
            self.complain(path, line, f"<{header}> is not a standard header: give it a place in tests/lint/layers.py")

    def check_public(self, path, line, header):
        prefix = header.split("/")[0]
        if prefix not in ROOMS[room_of(path)]:
            allowed = ", ".join(sorted(ROOMS[room_of(path)]))
            self.complain(path, line, f'"{header}": {room_of(path)} may include {allowed} only')

    def check_internal(self, path, line, header):
        room, target = room_of(path), room_of(header)
        if path.startswith("tests/") or header in PORTS.get(room, []):
            return
        if room != target:
            self.complain(path, line, f'"{header}" is internal to {target}: use its public headers')
        elif plugin_of(header) not in (None, plugin_of(path)):
            self.complain(path, line, f'"{header}" belongs to the plugin {plugin_of(header)}: move what is shared out of it')

    def check_order(self, path, line, header):
        target = self.public.get(header, header)
        if target not in self.known or path.startswith("tests/"):
            return
        if self.module_of(path) != self.module_of(target):
            self.arrows.setdefault(self.module_of(path), {}).setdefault(self.module_of(target), (path, line))
        (folder, low), (other, high) = self.inner_room(path), self.inner_room(target)
        if folder is not None and folder == other and low is not None and high is not None and high > low:
            order = INNER_ROOMS[folder]
            self.complain(path, line, f'"{header}": {folder}{order[high]} is above {folder}{order[low]}. Move what both need down, '
                                      "hand it down as a function pointer, or list it in a .def table")

    def check_circles(self):
        found = circles(self.arrows)
        for members in found:
            if not any(members <= known for known in self.known_circles):
                first = min(members)
                path, line = min(at for to, at in self.arrows[first].items() if to in members)
                self.complain(path, line, f"closes a circle of {', '.join(sorted(members))}: move what they share into a header "
                                          "below them, or hand one of them a function pointer")
        for known in self.known_circles:
            if known not in found:
                self.complain("tests/lint/layers.py", 1, f"the circle of {', '.join(sorted(known))} is open, or smaller: say so in CIRCLES")

    def check_quoted(self, path, line, header):
        beside = os.path.join(os.path.dirname(path), header)
        if ".." in header.split("/"):
            self.complain(path, line, f'"{header}": include it by its path from the top')
        elif header in self.public:
            self.check_public(path, line, header)
        elif header in self.known:
            self.check_internal(path, line, header)
        elif path.startswith("tests/") and "/" not in header:
            return  # a header of tests/support
        elif beside in self.known:
            self.complain(path, line, f'"{header}": include it by its path from the top, "{beside}"')
        else:
            self.complain(path, line, f'"{header}" is nowhere in the tree')

    def check_includes(self, path):
        if room_of(path) is None:
            self.complain(path, 1, "is in no room: give its folder a line in tests/lint/layers.py")
            return
        folder, index = inner_room_of(path)
        if folder is not None and index is None:
            self.complain(path, 1, f"is in no inner room of {folder}: give it a place in INNER_ROOMS of tests/lint/layers.py")
        text = tree.read(self.root, path)
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            check = self.check_system if match[1] == "<" else self.check_quoted
            check(path, line, match[2])
            if match[1] == '"':
                self.check_order(path, line, match[2])

    def check_names(self):
        first = {}
        for path in self.files:
            name = os.path.basename(path)
            if name in first:
                self.complain(path, 1, f"the name {name} is taken by {first[name]}: file names are unique in the tree")
            first.setdefault(name, path)

    def check_ids(self, path):
        """Complain of a number or a name that lines MACRO(number, name) of a table give twice."""
        text = tree.read(self.root, path)
        numbers, names = set(), set()
        for match in DEFINITION.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            if int(match[2]) in numbers:
                self.complain(path, line, f"the id {match[2]} is given twice: an id is permanent")
            if match[3] in names:
                self.complain(path, line, f"{match[3]} stands there twice")
            numbers.add(int(match[2]))
            names.add(match[3])

    def check(self):
        for path in self.files:
            self.check_includes(path)
            if path.endswith(".def"):
                self.check_ids(path)
        self.check_names()
        self.check_circles()
        return self.findings


if __name__ == "__main__":
    sys.exit(tree.report(Tree(sys.argv[1], CIRCLES).check(), "layers"))
