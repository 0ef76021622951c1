#!/usr/bin/env python3
"""Check that no function of the code for small devices takes more stack than a limit:
stack.py COMPILER SOURCE_DIR BUILD_DIR HEADERS

HEADERS is where CMake puts the headers that it makes.

Compiles common/, the client library and the codecs as a small device's build does, with gcc's -fstack-usage. A function above the
limit fails the test, unless it stands below with the size that it may have. Exit status 77, skipped: the compiler is not gcc.
"""
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

LIMIT = 2048
SOURCES = ["common/[!g]*/*.c", "codecs/*.c", "codecs/*/*.c", "codecs/stages/runs/*.c", "codecs/stages/entropy/*.c", "fedclient/*.c",
           "fedclient/state/*.c", "fedclient/net/*.c", "fedclient/steps/*.c", "fedclient/transports/*.c", "fedclient/platforms/*/*.c"]
NOT_ON_DEVICES = ("codecs/gpu/", "codecs/tool/")
# Functions that may take more, listed for engineers who choose a stack size: (file, function): most bytes.
KNOWN = {
    # one or two paths of 4 KB; used only on devices with files
    ("common/system/file.c", "fed_file_replace"): 8448,
    ("common/system/file.c", "fed_file_move"): 8448,
    ("common/system/file.c", "fed_dir_make"): 4352,
    ("common/system/file.c", "open_parent"): 4352,
    ("common/system/file.c", "read_link"): 4352,
    # the bytes of a block of 4096 floats
    ("common/system/file.c", "fed_file_put_floats"): 16640,
    # two paths of 4 KB
    ("common/arch/checkpoint.c", "fed_checkpoint_save_as"): 8576,
    # used by the coordinator only
    ("codecs/prim/sparse.c", "fedcodec_sparse_fold"): 6784,
    ("codecs/prim/sparse.c", "fedcodec_sparse_squares"): 6784,
    ("codecs/ring_fields.c", "fedcodec_ring_change"): 9472,
    # a block of values, or of random numbers
    ("codecs/prim/sparse.c", "fedcodec_sparse_axpy"): 6784,
    ("codecs/prim/sparse.c", "fedcodec_sparse_check"): 5760,
    ("codecs/patch.c", "apply_numbers"): 5760,
    ("codecs/threelc/threelc.c", "apply"): 5760,
    ("codecs/threelc/threelc.c", "threelc_encode"): 2432,
    ("codecs/trunc/trunc.c", "decode_block"): 5376,
    ("codecs/trunc/trunc.c", "encode_block"): 5376,
    ("codecs/stoch3/stoch3.c", "push_block"): 4608,
    # a rotated block of values, and its signs
    ("codecs/ring_fields.c", "round_all"): 5632,
    # a rotated copy of a bucket, and the reader of few values
    ("codecs/eden/eden.c", "write_bucket"): 7040,
    ("codecs/eden/eden.c", "read_few"): 3328,
    ("codecs/eden/eden.c", "eden_check"): 10240,
    ("codecs/eden/eden.c", "eden_decode"): 10240,
    ("codecs/eden/eden.c", "eden_axpy"): 10240,
    ("codecs/eden/eden.c", "eden_fold"): 10240,
    ("codecs/eden/eden.c", "eden_squares_sum"): 10240,
    # a rotated copy of a bucket, and two lists of its values
    ("codecs/eden/few.c", "choose_in_bucket"): 9472,
}


def frames(compiler, root, build, headers, source):
    """Yield (function, bytes of its stack frame) for one source file, compiled with -Os."""
    target = os.path.join(build, source.replace("/", "_") + ".o")
    includes = [f"-I{root}", f"-I{headers}"] + [f"-I{root}/{room}/include" for room in ("common", "codecs", "fedclient")]
    subprocess.run([compiler, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-D_FILE_OFFSET_BITS=64", "-DFED_SMALL=1", "-Os", "-fstack-usage",
                    *includes, "-c", os.path.join(root, source), "-o", target], check=True)
    with open(target[:-2] + ".su", encoding="utf-8") as file:
        for line in file:
            place, size, _ = line.split("\t")
            yield place.rsplit(":", 1)[1], int(size)


def main(compiler, root, build, headers):
    about = subprocess.run([compiler, "--version"], text=True, stdout=subprocess.PIPE, check=True).stdout
    if "clang" in about or "Free Software Foundation" not in about:
        print(f"stack: {compiler} is not gcc; skipped, since the test needs gcc's -fstack-usage")
        return 77
    os.makedirs(build, exist_ok=True)
    sources = [path for pattern in SOURCES for path in sorted(glob.glob(pattern, root_dir=root))
               if not path.startswith(NOT_ON_DEVICES)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda source: list(frames(compiler, root, build, headers, source)), sources))
    largest, bad = 0, 0
    for source, functions in zip(sources, found):
        for function, size in functions:
            allowed = KNOWN.get((source, function.split(".")[0]), LIMIT)
            largest = max(largest, size if allowed == LIMIT else 0)
            if size > allowed:
                bad += 1
                print(f"{source}: {function} takes {size:,} bytes of stack, and may take {allowed:,}: put its buffers elsewhere")
    print(f"stack: {len(sources)} sources; apart from {len(KNOWN)} known functions the largest frame is {largest:,} bytes")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
