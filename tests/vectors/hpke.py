"""The sealed bytes in tests/common/security/test_hpke.c, by PyPI's cryptography: hpke.py ROOT

Derives them as RFC 9180 says from the shared secret of its A.3.1, and opens them with the package's own HPKE.
Exit status 1: they differ. 77: this Python has no `cryptography` with HPKE (46 or later).
"""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import hmac
import pathlib
import re
import sys

try:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    SUITES = {1: Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_128_GCM), 2: Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_256_GCM)}
except (ImportError, AttributeError):
    print("skipped: this Python has no `cryptography` with HPKE")
    sys.exit(77)

INFO, AAD, TEXT = b"Ode on a Grecian Urn", b"Count-0", b"Beauty is truth, truth beauty"
SHARED = bytes.fromhex("c0d26aeab536609a572b07695d933b589dcf363ff9d93c93adea537aeabb8cb8")  # A.3.1
SEALED_BY_RFC = "5ad590bb8baa577f8619db35a36311226a896e7342a6d836d8b7bcd2f20b6c7f9076ac232e3ab2523f39513434"  # A.3.1's ct
KEY_BYTES = {1: 16, 2: 32}


def constant(source: str, name: str) -> str:
    found = re.search(rf"{name}\[\] =\s*((?:\"[0-9a-f]*\"\s*)+);", source)
    assert found, name
    return "".join(re.findall(r"[0-9a-f]+", found.group(1)))


def hash_with(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


def expand(suite: bytes, secret: bytes, label: bytes, context: bytes, length: int) -> bytes:
    text = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + context
    return hash_with(secret, text + b"\x01")[:length]


def seal(aead: int, aad: bytes) -> bytes:
    suite = b"HPKE" + bytes([0, 16, 0, 1, 0, aead])
    start = b"HPKE-v1" + suite
    context = b"\0" + hash_with(bytes(32), start + b"psk_id_hash") + hash_with(bytes(32), start + b"info_hash" + INFO)
    secret = hash_with(SHARED, start + b"secret")
    key = expand(suite, secret, b"key", context, KEY_BYTES[aead])
    return AESGCM(key).encrypt(expand(suite, secret, b"base_nonce", context, 12), TEXT, aad)


def main(root: str) -> int:
    source = (pathlib.Path(root) / "tests/common/security/test_hpke.c").read_text(encoding="utf-8")
    receiver = ec.derive_private_key(int(constant(source, "receiver_hex"), 16), ec.SECP256R1())
    enc = bytes.fromhex(constant(source, "enc_hex"))
    faults = 0
    for aead, expected in ((1, SEALED_BY_RFC), (2, constant(source, "sealed_hex"))):
        if seal(aead, AAD).hex() != expected:
            print(f"AEAD {aead}: the sealed bytes should be {seal(aead, AAD).hex()}")
            faults += 1
        if SUITES[aead].decrypt(enc + seal(aead, b""), receiver, INFO) != TEXT:
            print(f"AEAD {aead}: cryptography opens something else")
            faults += 1
    public = receiver.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    faults += public.hex() != constant(source, "receiver_public_hex")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
