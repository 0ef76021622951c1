#!/usr/bin/env python3
"""Measure what the client takes on a small device, and write or check docs/client-memory.md.

    deploy/client-memory.py PROGRAM TRANSPORTS            write it
    deploy/client-memory.py --check PROGRAM TRANSPORTS    say whether it still holds: exit status 1 if not

PROGRAM is tests/fedtrain.memory and TRANSPORTS tests/fedclient.transport_memory of a build for this machine, which count the
memory; CMake's target client-memory does all. Code is measured here: aarch64, -Os, by the linker's maps. A section that this machine
can't measure stays as it is: code needs Debian's cross compiler (deploy/setup.sh --cross), transports need mbedTLS 3.6 and libcurl,
as on Debian 13, and the board a run of deploy/baremetal.sh. Memory must be as written, code within a few percent, transports and
board within a tenth.
"""
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
from collections import Counter
from shutil import which

import client_board
import client_transports

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = os.path.join(ROOT, "docs", "client-memory.md")
BUILD = os.path.join(ROOT, "build", "client-memory")
COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
HEADERS = ("xxhash.h", "mbedtls", "curl")  # this machine's headers that the cross compiler may read; it must not find the others
FLAGS = ["-Os", "-fno-pie", "-ffunction-sections", "-fdata-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"]
LINK = ["-static", "-Wl,--gc-sections", "-mno-fix-cortex-a53-843419"]  # no stubs of this workaround: their size depends on where code happens to lie
LIMIT_KB = 48
TOLERANCE, SLACK = 0.04, 256  # share and bytes by which a measured part may differ from the document

# The parts of a program. A source belongs to the first part whose pattern is in the source's path.
TRAINER = [
    ("the model's text: parser, first weights", r"^common/arch/arch_"),
    ("the optimizer, and its text", r"/optimizer|/train/update"),
    ("layers: the fast backend", r"backends/fast/"),
    ("kernels", r"kernels"),
    ("engine: net, steps, samples", r"^fedclient/train"),
    ("random numbers, errors, tensors, digests", r"^common/"),
]
CLIENT = [
    ("the client library", r"^fedclient/((state|net|steps|transports)/)?\w+\.c"),
    ("its store in files, `platforms/posix`", r"^fedclient/platforms/"),
    ("its use of libcurl, `transports/curl`", r"^fedclient/transports/"),
    ("the model's text: parser", r"^common/arch/arch_"),
    ("messages, digests, keys, files: `common/`", r"^common/"),
    ("codec `sbc`", r"^codecs/sbc/"),
    ("the other codecs", r"^codecs/(?!prim/|stages/)\w+/"),
    ("what codecs share: envelopes, entropy coders, second stages", r"^codecs/"),
]
LIBRARIES = {"fedcommon": "common", "fedtrain": "fedclient/train", "fedcodecs": "codecs"}


def run(*command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"client-memory: this command failed: {' '.join(command)}:\n{done.stdout}")
    return done.stdout


def path_in_build(*names):
    return os.path.join(BUILD, *names)


def link_headers():
    os.makedirs(path_in_build("include"), exist_ok=True)
    folders = ["/usr/include", "/usr/local/include", f"/usr/include/{os.uname().machine}-linux-gnu"]
    for header in HEADERS:
        found = [f"{folder}/{header}" for folder in folders if os.path.exists(f"{folder}/{header}")]
        if not found:
            sys.exit(f"client-memory: {header} is missing: run deploy/setup.sh")
        if not os.path.islink(path_in_build("include", header)):
            os.symlink(found[0], path_in_build("include", header))


def link_options(program):
    return [*LINK, f"-Wl,-Map={program}.map", "-o", program]


def build_empty():
    """Build a program that does nothing. Its size is what the C library takes of any program."""
    program = path_in_build("empty")
    run(COMPILER, *FLAGS, *link_options(program), "-x", "c", "-", input="int main(void) { return 0; }")
    return program


def build_trainer():
    """Build the small trainer, and run it: it must train, and refuse the features that it leaves out."""
    folder = path_in_build("aarch64")
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DFED_ROOMS=portable", "-DFED_SMALL=ON", "-DFED_WERROR=ON",
        "-DCMAKE_BUILD_TYPE=MinSizeRel", "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_C_COMPILER={COMPILER}", "-DCMAKE_C_FLAGS=-fno-pie", f"-DXXHASH_INCLUDE_DIR={path_in_build('include')}",
        f"-DCMAKE_EXE_LINKER_FLAGS={' '.join(LINK)}", env=dict(os.environ, PKG_CONFIG_LIBDIR=path_in_build("none")))
    run("cmake", "--build", folder, "--target", "small_trainer", "small_refusals")
    program = os.path.join(folder, "tests", "fedtrain.small")
    if which(EMULATOR):
        run(EMULATOR, program)
        run(EMULATOR, os.path.join(folder, "tests", "fedtrain.refusals"))
    return program


def build_client(name, codecs):
    """Build fedclient/examples/minimal.c with these codecs. libcurl and mbedTLS are not linked, so their functions stay unresolved."""
    patterns = ["common/[!g]*/*.c", "codecs/*.c", "codecs/*/*.c", "codecs/stages/runs/*.c", "codecs/stages/entropy/*.c", "fedclient/*.c",
                "fedclient/state/*.c", "fedclient/net/*.c", "fedclient/steps/*.c", "fedclient/transports/*.c", "fedclient/platforms/posix/*.c", "fedclient/transports/curl/*.c", "fedclient/examples/minimal.c"]
    with open(os.path.join(ROOT, "codecs", "codecs.def"), encoding="utf-8") as file:
        lines = {folder: line for line in file for folder in re.findall(r"^FEDCODEC\(\d+, (\w+)\)", line)}
    unwanted = tuple(f"codecs/{folder}/" for folder in ["tool", "gpu", *lines] if folder not in (codecs or lines))
    sources = [path for pattern in patterns for path in sorted(glob.glob(pattern, root_dir=ROOT))
               if not path.startswith(unwanted)]
    os.makedirs(path_in_build(name), exist_ok=True)
    with open(path_in_build(name, "codecs.def"), "w", encoding="utf-8") as file:
        file.writelines(lines[folder] for folder in codecs or lines)
    includes = [".", "build/client-memory/aarch64/common/include"] + glob.glob("*/include", root_dir=ROOT)  # CMake makes fed/version.h in the second folder
    flags = FLAGS + ["-std=c11", "-fstack-usage", "-D_POSIX_C_SOURCE=200809L", "-D_FILE_OFFSET_BITS=64", "-ffp-contract=off", "-DFED_SMALL=1", "-DFEDCLIENT_HAS_CURL=1",
                     f'-DFEDCODEC_LIST="{path_in_build(name, "codecs.def")}"', f"-I{path_in_build('include')}"] + [f"-I{ROOT}/{folder}" for folder in includes]

    def compile_one(source):
        target = path_in_build(name, "objects", source + ".o")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        run(COMPILER, *flags, "-c", os.path.join(ROOT, source), "-o", target)
        return target

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    program = path_in_build(name, "minimal")
    run(COMPILER, *link_options(program), "-Wl,--unresolved-symbols=ignore-all", *objects, "-lm")
    return program


def totals(program):
    """Return the bytes of a program's instructions, and of its constants and variables' initial values."""
    rows = re.findall(r"^(\.\S+)\s+(\d+)\s+\d+$", run("aarch64-linux-gnu-size", "-A", program), re.MULTILINE)
    code = sum(int(size) for name, size in rows if name == ".text")
    constants = sum(int(size) for name, size in rows if name.startswith((".rodata", ".data")))
    return code, constants


def source_of(path, sources):
    """Return the source of an object that a linker's map names: lib.a(x.c.o), or a path to x.c.o."""
    member = re.search(r"lib(fed\w+)\.a\((\w+\.c)\.o\)$", path)
    if member:
        return sources.get(member.groups(), path)
    return path.split("/objects/", 1)[-1]


def measure(program, empty, parts):
    """Return rows (part, instructions, constants) of what a program takes beyond an empty one; the last row is the sum. The linker
    merges texts of all parts and of the C library. So texts have a row of their own, with what is left of the sum."""
    with open(f"{program}.map", encoding="utf-8") as file:
        listed = file.read().split("Linker script and memory map", 1)[1]
    sources = {(library, os.path.basename(path)): path for library, room in LIBRARIES.items()
               for path in glob.glob(f"{room}/**/*.c", root_dir=ROOT, recursive=True)}
    sizes = Counter()
    entry = re.compile(r"^ (\.(?:text|rodata|data)\S*)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", re.MULTILINE)
    for section, size, path in entry.findall(listed):
        source = source_of(path, sources)
        part = next((name for name, pattern in parts if re.search(pattern, source)), None)
        part = "libm" if "/libm" in path else "itself" if source.endswith(("minimal.c", "small_trainer.c.o")) else part
        if part is not None and not re.search(r"\.(str|cst)\d", section):
            sizes[part, section.startswith(".text")] += int(size, 16)
    rows = [(name, sizes[name, True], sizes[name, False]) for name, _ in parts]
    rows.append(("`libm`: logarithms and the like", sizes["libm", True], sizes["libm", False]))
    code, constants = (a - b for a, b in zip(totals(program), totals(empty)))
    code -= sizes["itself", True]
    constants -= sizes["itself", False]
    rows.append(("C library, beyond an empty program", code - sum(row[1] for row in rows), 0))
    rows.append(("sentences of errors, and other texts", 0, constants - sum(row[2] for row in rows)))
    return rows + [("**sum**", code, constants)]


def largest_frames(name, count=8):
    """Return rows (function, file, bytes) of the program's functions with the largest stack frames."""
    rows, linked = [], set(run("aarch64-linux-gnu-nm", path_in_build(name, "minimal")).split())
    for path in glob.glob(path_in_build(name, "objects", "**", "*.su"), recursive=True):
        with open(path, encoding="utf-8") as file:
            source = path.split("/objects/", 1)[1][:-3]
            rows += [(line.split("\t")[0].rsplit(":", 1)[1].split(".")[0], source, int(line.split("\t")[1])) for line in file]
    rows = [row for row in rows if row[0] in linked]
    return sorted(rows, key=lambda row: (-row[2], row[1], row[0]))[:count]


def table(rows):
    lines = ["| part | instructions | constants | both |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {code:,} | {constants:,} | {code + constants:,} |" for name, code, constants in rows])


CODE_TEXT = """# What the client takes on a small device

Made by `cmake --build BUILD --target client-memory` (deploy/client-memory.py); a test says when it no longer holds.

## Code

Bytes on aarch64, gcc {version}, `-Os`, of statically linked programs, beyond what an empty program takes. Instructions
run where they lie, in flash; constants are tables and texts. Tables of unwinding and of symbols are left out, and
so are the programs' own lines.

**The trainer, built small** (`-DFED_SMALL=ON -DCMAKE_BUILD_TYPE=MinSizeRel`: dense, conv, maxpool and relu layers,
sgd; see common/include/fed/small.h): it parses a task's model and trains `lenet5-caffe` in
tests/portable/small_trainer.c. The limit is {limit} KB, {limit_bytes:,} bytes, for all of it.

{trainer}

**The client library**, without a trainer: fedclient/examples/minimal.c, with the same small parser. libcurl and
mbedTLS are the system's, and not counted. All codecs are in, as the coordinator chooses among them.

{client}

**The same with `sbc` and `float32` alone**, for a coordinator that asks for no other codec:
[codecs/README.md](../codecs/README.md#only-some-codecs).

{few}

A device with both has the rows of common/ and of `libm` once.

## Stack

Bytes of the largest frames, of the client library with all codecs (gcc's `-fstack-usage`). A test holds all others
under 2,048 (tests/portable/stack.py). Enrolling and checking in stay under that. Once an update is counted, a
sparse codec such as `sbc` takes it off the residual with `fedcodec_sparse_axpy`. The functions of common/system/file.c
hold paths. TLS and curl have frames of their own.

{stack}
"""

MEMORY_TEXT = """## Memory

In KB of 1,024 bytes, rounded up; 64-bit pointers, vectors of 128 bits as on ARM. Every allocation is counted
(tests/portable/memory.c), so nothing is hidden but what `malloc` keeps for itself. A net holds what
`fedtrain_net_memory` reports, from the start to the end, and an iteration allocates nothing. A run takes 16 bytes
more, and 4 for each of the client's samples, for their order.

**Training.** `sgd: all` is weights + gradient + activations and the other columns; momentum adds one value for each
parameter, Adam two. *Of it written* is the part of the gradient's memory that is used; a system with virtual memory
gives no page for the rest. With plain sgd a dense layer's weights are updated as their gradient is summed. Other
optimizers use 32 rows of a dense layer's gradient at a time, in a small build eight. A convolution's gradient is
used as a whole, or one output at a time where a max-pool follows. Weights that layers share, as `wordlstm`'s, and
clipping by norm need all of the gradient. *Activations* are those of a whole batch, as are their gradients; the
workspace holds convolutions' weights in another order.

{training}

**A model's description**, from its text:

{description}

A model without layers holds its text, and for each tensor 184 bytes, or up to twice that beyond 64 tensors. While it is
read from a [layout](protocol.md#get-v1layouttaskt), it takes two texts more, 48 bytes for a tensor's words and up to
32 for a table of names.

**What the client library holds beside.** Between steps of the client the library holds nothing of the model's size:
all is in the store. During a step, with one model = the weights above:

| while it | models | and |
|---|---|---|
| downloads | 1 | the answer: what the coordinator sends, up to a whole model; its buffer grows by doubling; the unpacked bytes of one packed delta |
| trains | 2 | of which one is the trainer's weights above; the other is what they are compared with |
| adds to the residual | 3 | the last message, while what was counted of it is taken off |
| compresses | 2, then 1 | the codec's work memory and the message, below |
| uploads | 0 | the message |

A trainer's net that is kept from step to step, as fedclientd does, comes on top of each.

**Compressing**, a layer at a time:

{update}
"""


def code_section():
    link_headers()
    empty = build_empty()
    trainer = measure(build_trainer(), empty, TRAINER)
    client = measure(build_client("client", None), empty, CLIENT)
    few = measure(build_client("few", ["identity", "sbc"]), empty, CLIENT)
    stack = "\n".join(["| function | file | bytes |", "|---|---|---|"] +
                      [f"| `{function}` | {source} | {size:,} |" for function, source, size in largest_frames("client")])
    version = run(COMPILER, "-dumpfullversion").strip()
    if trainer[-1][1] + trainer[-1][2] >= LIMIT_KB * 1024:
        sys.exit(f"client-memory: the small trainer takes {LIMIT_KB} KB or more:\n{table(trainer)}")
    return CODE_TEXT.format(version=version, limit=LIMIT_KB, limit_bytes=LIMIT_KB * 1024, trainer=table(trainer),
                            client=table(client), few=table(few), stack=stack)


def memory_section(program):
    training, description, update = run(program).strip().split("\n\n")
    return MEMORY_TEXT.format(training=training, description=description, update=update)


def same_sizes(old, new, tolerance, slack):
    """Return whether the texts are equal, except that numbers may differ a little. The compiler's version is such a number, too."""
    number = re.compile(r"\b\d[\d,]*\b")
    old_sizes, new_sizes = ([int(n.replace(",", "")) for n in number.findall(text)] for text in (old, new))
    return number.sub("", old) == number.sub("", new) and all(
        abs(a - b) <= max(slack, tolerance * a) for a, b in zip(old_sizes, new_sizes))


def same_code(old, new):
    return same_sizes(old, new, TOLERANCE, SLACK)


def same_nearly(old, new):
    """Return whether the texts are equal, except for sizes that change with the versions of Debian's libraries and compiler."""
    return same_sizes(old, new, 0.1, 4)


def written():
    """Return the document's sections as they are written: code, memory, transports, board."""
    with open(DOCUMENT, encoding="utf-8") as file:
        return re.split(r"^(?=## (?:Memory|Transports|A board)$)", file.read(), flags=re.MULTILINE)


def measured(program, transports):
    """Measure the same sections. A section that this machine can't measure is None."""
    return [code_section() if which(COMPILER) is not None else None, memory_section(program), client_transports.section(transports),
            client_board.section()]


def check(program, transports):
    names = ["code", "memory", "transports", "board"]
    same = [same_code, lambda old, new: old == new, same_nearly, same_nearly]
    stale = []
    for name, old, new, are_same in zip(names, written(), measured(program, transports), same):
        if new is None:
            print(f"client-memory: {name} can't be measured here")
        elif not are_same(old.strip(), new.strip()):
            stale.append(name)
    if stale:
        sys.exit(f"docs/client-memory.md is out of date in its {' and '.join(stale)}: build the target client-memory")


def write(program, transports):
    sections = [new or old for old, new in zip(written(), measured(program, transports))]
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        file.write("\n".join(text.strip() + "\n" for text in sections))


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "--check":
        check(*arguments[1:])
    elif len(arguments) == 2:
        write(*arguments)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
