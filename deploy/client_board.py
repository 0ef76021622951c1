"""The section of docs/client-memory.md on a board without an operating system: what deploy/baremetal.sh has built and run.

Used by client-memory.py. Without a run of deploy/baremetal.sh there is nothing to measure.
"""
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import re
import shutil
import subprocess
from collections import Counter

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "baremetal")
# A file belongs to the first part whose pattern is in its path, or in the name of its archive.
PARTS = [
    ("the client library", r"^fedclient/((state|net|steps|transports)/)?\w+\.c"),
    ("its store, `platforms/flash`", r"^fedclient/platforms/"),
    ("its transport, `transports/mbedtls`", r"^fedclient/transports/"),
    ("the trainer", r"^fedclient/train/"),
    ("codecs, all of them", r"^codecs/"),
    ("`common/`", r"^common/"),
    ("mbedTLS", r"libmbedtls\.a"),
    ("lwIP", r"liblwip\.a"),
    ("the port: this board's own files", r"board\.dir"),
]

TEXT = """## A board

A Cortex-M3 without an operating system: [fedclient/examples/baremetal](../fedclient/examples/baremetal), built small by
{compiler} with `-Os`, {lwip}, {mbedtls} and picolibc. [porting.md](porting.md) walks through it. It trains
`{model}`, batches of {batch}, in QEMU (`deploy/baremetal.sh`).

**Flash**, bytes of the program as linked:

| part | bytes |
|---|---|
{flash}

**RAM**, bytes at most in a run through three power cuts. The stack is painted before the run; the heap's mark is the
highest address that `malloc` has used. The limit is 256 KB, 262,144 bytes.

| part | most | set aside |
|---|---|---|
{memory}

The heap holds one TLS connection with records of 4 KB in and 2 KB out: the coordinator agrees to a limit on records
(RFC 8449). *Fixed* are variables, among them {lwip_ram:,} bytes of lwIP's pools.
"""


def run(*command):
    return subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def sections(listed):
    """Return (section, bytes, file) for each section of an object file that the linker's map lists."""
    entry = re.compile(r"^ (\.[\w.$]+|COMMON)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", re.MULTILINE)
    return [(section, int(size, 16), path) for section, size, path in entry.findall(listed)]


def part_of(path, sources):
    member = re.search(r"libdevice\.a\((\w+\.c)\.obj\)$", path)
    source = sources.get(member[1], path) if member else path
    return next((name for name, pattern in PARTS if re.search(pattern, source)), "C library")


def measure():
    """Return the bytes of each part in flash, and of lwIP's variables in RAM."""
    with open(f"{BUILD}/board/board.map", encoding="utf-8") as file:
        listed = file.read().split("Linker script and memory map", 1)[1].split("/DISCARD/", 1)[0]
    sources = {os.path.basename(path): path for room in ("common", "codecs", "fedclient")
               for path in glob.glob(f"{room}/**/*.c", root_dir=ROOT, recursive=True)}
    flash, lwip_ram = Counter(), 0
    for section, size, path in sections(listed):
        if re.search(r"\.str\d", section):
            continue  # the linker merges texts of all parts, so texts are a row of their own
        if section.startswith((".text", ".rodata", ".data", ".tdata", ".vectors", ".ARM.ex")):
            sample = section.startswith(".rodata.board_sample")
            flash["the samples, 300 pictures of 14x14" if sample else part_of(path, sources)] += size
        elif "liblwip.a" in path and section.startswith((".bss", "COMMON")):
            lwip_ram += size
    return flash, lwip_ram


def memory_rows():
    """Return the table's rows of RAM that the board used, by the last line that the board printed."""
    with open(f"{BUILD}/memory.txt", encoding="utf-8") as file:
        fixed, heap, heap_limit, stack, stack_limit = (int(n) for n in re.findall(r"\d+", file.read()))
    rows = [("fixed", fixed, fixed), ("heap", heap, heap_limit), ("stack", stack, stack_limit)]
    rows.append(("**sum**", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    return "\n".join(f"| {name} | {most:,} | {limit:,} |" for name, most, limit in rows)


def version_of(name):
    folder = os.path.basename(os.path.realpath(f"{BUILD}/source/{name}"))
    return folder.replace("-", " ").replace("+dfsg1", "").replace("lwip", "lwIP").replace("mbedtls", "mbedTLS")


def section():
    """Return the section's text; None: deploy/baremetal.sh has not run on this machine."""
    made = ("board/board.map", "memory.txt", "source/lwip", "source/mbedtls")
    if shutil.which("arm-none-eabi-size") is None or not all(os.path.exists(f"{BUILD}/{path}") for path in made):
        return None
    flash, lwip_ram = measure()
    total = sum(int(size) for size in re.findall(r"^\.(?:text|data|tdata|ARM\.exidx)\s+(\d+)", run(
        "arm-none-eabi-size", "-A", f"{BUILD}/board/board.elf"), re.MULTILINE))
    flash["sentences of errors, and other texts"] = total - sum(flash.values())
    rows = [f"| {name} | {size:,} |" for name, size in sorted(flash.items(), key=lambda row: -row[1])]
    with open(f"{ROOT}/fedclient/examples/baremetal/rounds.py", encoding="utf-8") as file:
        script = file.read()
    return TEXT.format(compiler=f"gcc {run('arm-none-eabi-gcc', '-dumpfullversion').strip()}", lwip=version_of("lwip"),
                       mbedtls=version_of("mbedtls"), model=re.search(r'^MODEL = "(.+)"$', script, re.MULTILINE)[1],
                       batch=re.search(r'"batch": (\d+)', script)[1], flash="\n".join([*rows, f"| **sum** | {total:,} |"]),
                       memory=memory_rows(), lwip_ram=lwip_ram)
