"""PKCS#8 encryption of a private key with a slow key derivation (README clause 5.5).

The `cryptography` package writes encrypted PKCS#8 with 2,048 rounds of PBKDF2, which a graphics card tries
a million times a second. It reads any number of rounds, so only the writing is done here: PBES2 (RFC 8018) with
PBKDF2-HMAC-SHA256 and AES-256-CBC, a dozen DER elements.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

ROUNDS: Final = 600_000
"""Rounds of PBKDF2-HMAC-SHA256: the OWASP figure; about 0.2 s on one core."""
_SALT_BYTES: Final = 16
_AES_BLOCK_BITS: Final = 128
_PEM_COLUMNS: Final = 64

_SEQUENCE, _INTEGER, _OCTETS = 0x30, 0x02, 0x04
_NULL = bytes.fromhex("0500")
_OID_PBES2 = bytes.fromhex("06092a864886f70d01050d")
_OID_PBKDF2 = bytes.fromhex("06092a864886f70d01050c")
_OID_HMAC_SHA256 = bytes.fromhex("06082a864886f70d0209")
_OID_AES256_CBC = bytes.fromhex("060960864801650304012a")


def _der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:  # the short form of a length
        return bytes((tag, size)) + body
    octets = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(octets))) + octets + body


def encrypt_pkcs8(private_key_info: bytes, passphrase: bytes) -> bytes:
    """An `ENCRYPTED PRIVATE KEY` PEM.

    Args:
        private_key_info: The unencrypted PKCS#8 DER.
        passphrase: Not empty.
    """
    salt, vector = os.urandom(_SALT_BYTES), os.urandom(_SALT_BYTES)
    key = hashlib.pbkdf2_hmac("sha256", passphrase, salt, ROUNDS, 32)
    padder = PKCS7(_AES_BLOCK_BITS).padder()
    encryptor = Cipher(algorithms.AES256(key), modes.CBC(vector)).encryptor()
    sealed = encryptor.update(padder.update(private_key_info) + padder.finalize()) + encryptor.finalize()
    rounds = ROUNDS.to_bytes(3, "big")
    derivation = _der(_SEQUENCE, _der(_OCTETS, salt), _der(_INTEGER, rounds), _der(_SEQUENCE, _OID_HMAC_SHA256, _NULL))
    scheme = _der(
        _SEQUENCE,
        _der(_SEQUENCE, _OID_PBKDF2, derivation),
        _der(_SEQUENCE, _OID_AES256_CBC, _der(_OCTETS, vector)),
    )
    document = _der(_SEQUENCE, _der(_SEQUENCE, _OID_PBES2, scheme), _der(_OCTETS, sealed))
    text = base64.b64encode(document)
    lines = [text[start : start + _PEM_COLUMNS] for start in range(0, len(text), _PEM_COLUMNS)]
    label = b"ENCRYPTED PRIVATE KEY"
    return b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (label, b"\n".join(lines), label)
