"""The section of docs/client-memory.md on transports: what each takes of flash and memory, on this machine.

Used by client-memory.py. It needs a build with both transports: mbedTLS 3.6 and libcurl, as on Debian 13.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAGS = ["-Os", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-D_FILE_OFFSET_BITS=64", "-ffunction-sections", "-fdata-sections",
         f"-I{ROOT}", f"-I{ROOT}/common/include", f"-I{ROOT}/fedclient/include"]
COMMON = ["base/bytes", "system/clock", "security/crypto", "base/error", "base/hash", "system/hosts", "security/sha256", "base/status"]  # sources that the two programs below need
NOT_BENEATH = ("libc.so", "libm.so", "ld-linux", "linux-vdso")  # not counted, as any program loads them

# A program that makes keys and certificate requests, as a device does with any transport.
KEYS = r"""
#include "fed/crypto.h"
int main(int argc, char **argv) {
    static fed_pem key, csr;
    uint8_t digest[FED_SHA256_SIZE];
    int64_t from, until;
    return fed_key_new(&key, 0) + fed_csr_new(&key, argv[argc - 1], &csr, 0) + fed_key_fingerprint(&key, digest, 0) +
           fed_cert_key_fingerprint(csr.text, digest, 0) + fed_cert_fingerprint(csr.text, digest, 0) +
           fed_cert_validity(csr.text, &from, &until, 0);
}
"""
# The same program, which also sends a request by this transport.
REQUESTS = KEYS.replace("int main(", """#include "fedclient/transport.h"
static int request(const char *ca) {
    fedclient_transport t;
    fedclient_transport_options options = {.ca_pem = ca};
    return fedclient_transport_open(0, &options, &t, 0) + t.send(t.user, 0, 0, 0, 0);
}
int main(""").replace("return fed_key_new", "return request(argv[0]) + fed_key_new")


def run(*command, text=None):
    return subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def in_kb(size):
    return f"{-(-size // 1024):,}"


def own_code(name, folder):
    """Return the bytes of instructions, constants and variables' initial values in a transport's own files."""
    total = 0
    sources = sorted(os.listdir(f"{ROOT}/fedclient/transports/{name}"))
    for source in (s for s in sources if s.endswith(".c")):
        target = f"{folder}/{name}.o"
        run("cc", *FLAGS, "-fno-asynchronous-unwind-tables", "-c", f"{ROOT}/fedclient/transports/{name}/{source}", "-o", target)
        rows = re.findall(r"^\.(?:text|rodata|data)\S*\s+(\d+)\s+\d+$", run("size", "-A", target), re.MULTILINE)
        total += sum(int(size) for size in rows)
    return total


def of_mbedtls(program, sources, folder):
    """Return the bytes that a static linker takes of Debian's libmbedtls.a, libmbedx509.a and libmbedcrypto.a for a program."""
    main = f"{folder}/main.c"
    with open(main, "w", encoding="utf-8") as file:
        file.write(program)
    run("cc", *FLAGS, "-DFEDCLIENT_HAS_MBEDTLS", "-static", "-Wl,--gc-sections", f"-Wl,-Map={folder}/map", "-o",
        f"{folder}/program", main, *sources, "-lmbedtls", "-lmbedx509", "-lmbedcrypto")
    with open(f"{folder}/map", encoding="utf-8") as file:
        listed = file.read().split("Linker script and memory map", 1)[1]
    entry = r"^ \.(?:text|rodata|data)\S*\s+0x[0-9a-f]+\s+0x([0-9a-f]+) \S+libmbed\w+\.a\("
    return sum(int(size, 16) for size in re.findall(entry, listed, re.MULTILINE))


def beneath_curl():
    """Return the bytes and the number of the libraries that libcurl.so loads, itself included."""
    path = os.path.join(run("pkg-config", "--variable=libdir", "libcurl").strip(), "libcurl.so")
    loaded = [p for p in re.findall(r"=> (/\S+)", run("ldd", path)) if not os.path.basename(p).startswith(NOT_BENEATH)]
    rows = run("size", path, *loaded).splitlines()[1:]
    return sum(int(row.split()[0]) + int(row.split()[1]) for row in rows), len(rows)


TEXT = """## Transports

What carries a device's requests, by the build with both: {machine}, gcc {gcc}, Debian's libcurl {curl} and mbedTLS
{mbedtls}.

**Flash**, in KB. A transport's own code is compiled with `-Os`. Beneath `curl` lie libcurl.so and what it loads, {libraries}
libraries, as they are on disk. Beneath `mbedtls` lies what a static linker takes of mbedTLS's three libraries,
*more* than keys and certificates take with either transport ({keys} KB).

| transport | its own code | beneath it |
|---|---|---|
| `curl` | {curl_own} | {curl_beneath} |
| `mbedtls` | {mbedtls_own} | {mbedtls_beneath} |

**Memory**, in KB: every allocation of the process, the libraries' too (tests/fedclient/transport_memory.c), with an
identity and one connection. The answer is the caller's, and not counted. *Left* is what a library keeps for as long
as the process lives. Of a connection of `mbedtls`, 33 KB are the buffers of one record in and one record out, of 16
KB each. A build of mbedTLS with a smaller `MBEDTLS_SSL_OUT_CONTENT_LEN` takes less; the coordinator's records set
the size of the buffer in.

| transport | opened | most, connecting | connection kept | most, sending 1 MB | most, receiving 1 MB | left |
|---|---|---|---|---|---|---|
{memory}
"""


def section(program):
    """Return the section's text; None: this build lacks a transport."""
    memory = run(program).strip()
    if "`curl`" not in memory or "`mbedtls`" not in memory:
        return None
    common = [f"{ROOT}/common/{name}.c" for name in COMMON]
    own = [f"{ROOT}/fedclient/transports/mbedtls/{name}" for name in os.listdir(f"{ROOT}/fedclient/transports/mbedtls")]
    own = [f"{ROOT}/fedclient/transports/transports.c"] + [path for path in own if path.endswith(".c")]
    with tempfile.TemporaryDirectory() as folder:
        keys = of_mbedtls(KEYS, common, folder)
        requests = of_mbedtls(REQUESTS, common + own, folder)
        curl, libraries = beneath_curl()
        return TEXT.format(machine=os.uname().machine, gcc=run("cc", "-dumpfullversion").strip(),
                           curl=run("pkg-config", "--modversion", "libcurl").strip(),
                           mbedtls=run("pkg-config", "--modversion", "mbedtls").strip(), libraries=libraries, keys=in_kb(keys),
                           curl_own=in_kb(own_code("curl", folder)), curl_beneath=in_kb(curl),
                           mbedtls_own=in_kb(own_code("mbedtls", folder)), mbedtls_beneath=in_kb(requests - keys), memory=memory)
