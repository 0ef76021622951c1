#!/usr/bin/env python3
"""Show where a command and the programs that it starts spend CPU time: cpu_shares.py BUILD COMMAND ...

Samples it with perf (Debian: linux-perf) and sorts the samples by what was running: our functions by the library in BUILD
that they are from, others by their shared object, the kernel by itself. Prints a table. The command's own output stays.

    tests/bench/cpu_shares.py build/release build/release/bin/fedsim run SCENARIO --out DIR
"""
# SPDX-License-Identifier: Apache-2.0
import collections
import os
import re
import subprocess
import sys
import tempfile

# A pattern of libraries, and the name of the row in the table. The first match counts.
PARTS = [
    (r"libfedtrain", "training and testing models"),
    (r"libfedcodecs", "codecs"),
    (r"libmbed", "keys and certificates (mbedTLS)"),
    (r"gnutls|libnettle|libhogweed|libgmp|libcrypto|libssl", "TLS (GnuTLS, OpenSSL)"),
    (r"libsqlite", "SQLite"),
    (r"libcurl|libmicrohttpd|libnghttp", "HTTP (libcurl, libmicrohttpd)"),
    (r"kernel|\[k", "kernel: sockets, files, threads"),
    (r"libfedserver", "the coordinator's own code"),
    (r"libfedclient", "the client's own code"),
    (r"libfedcommon", "formats and hashes"),
    (r"libfedsim|fedsim", "the simulator's own code"),
    (r"^libc\.", "libc: malloc, locks, strings"),
]
COPYING = re.compile(r"^_?_?(mem(move|cpy|set)|.*_mem(move|cpy|set))")
# The kernel's functions that clear pages.
PAGES = re.compile(r"^(clear_page|clear_huge|folio_zero)")


def library_of_symbols(build):
    """Map each of our functions, static ones too, to the archive that contains it."""
    owner = {}
    for directory, _, files in os.walk(build):
        for name in files:
            if re.fullmatch(r"lib(fed(train|codecs|server|client|common)|fedsim_parts)\.a", name):
                listing = subprocess.run(["nm", os.path.join(directory, name)], capture_output=True, text=True).stdout
                for symbol in re.findall(r"^[0-9a-f]+ [tT] (\S+)$", listing, re.M):
                    owner.setdefault(symbol.split(".")[0], name)
    return owner


def part_of(shared_object, symbol, owner):
    if PAGES.match(symbol):
        return "kernel: memory touched for the first time"
    if COPYING.match(symbol):
        return "copying and clearing memory"
    ours = shared_object.startswith("fed")
    where = owner.get(symbol.split(".")[0], shared_object) if ours else shared_object
    return next((name for pattern, name in PARTS if re.search(pattern, where)), "other libraries")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build, command = sys.argv[1], sys.argv[2:]
    owner = library_of_symbols(build)
    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "perf.data")
        code = subprocess.run(["perf", "record", "-q", "-F", "199", "-o", data, "--", *command]).returncode
        if code != 0:
            sys.exit(f"cpu_shares: the command ended with {code}")
        report = subprocess.run(["perf", "report", "-i", data, "--stdio", "-F", "sample,dso,sym", "-t", "|", "-g", "none"],
                                capture_output=True, text=True, check=True).stdout
    samples = collections.Counter()
    for line in report.splitlines():
        fields = [f.strip() for f in line.split("|")]
        if len(fields) == 3 and fields[0].isdigit():
            symbol = re.sub(r"^\[.\] ", "", fields[2])
            samples[part_of(fields[1], symbol, owner)] += int(fields[0])
    total = sum(samples.values())
    print("\n| | CPU time | times training and testing |\n|---|---|---|")
    base = samples["training and testing models"] or 1
    for name, count in samples.most_common():
        print(f"| {name} | {100 * count / total:.1f} % | {count / base:.3f} |")


main()
