"""What an attack file may `do` to signatures, keys and signed manifests; `lab` is the fixture seal_lab."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.signing.durable import write_new_file
from sealhost.signing.ed25519 import L, add, decode, multiply
from sealhost.signing.keys import _SPKI_PREFIX, public_key_of
from sealhost.signing.signature import SignatureFile, signed_message

GENERATOR = bytes.fromhex("5866666666666666666666666666666666666666666666666666666666666666")
ORDER_EIGHT = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
NOBODY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)


# --- operations: signatures ---


def signature_of(lab) -> SignatureFile:
    return SignatureFile.parse((lab.root / "bundle.sig").read_bytes(), "bundle.sig")


def message_of(lab) -> bytes:
    return signed_message(hashlib.sha256((lab.root / "manifest.json").read_bytes()).digest())


def flip_signature(lab, at: int) -> None:
    signature = bytearray(signature_of(lab).signature)
    signature[at] ^= 0x10
    lab.write_signature(bytes(signature))


def malleate_signature(lab) -> None:
    signature = signature_of(lab).signature
    s = int.from_bytes(signature[32:], "little") + L
    lab.write_signature(signature[:32] + s.to_bytes(32, "little"))


def small_order_r(lab) -> None:
    """R is the identity and S = k·a: the equation holds, and the private scalar lies open."""
    digest = bytearray(hashlib.sha512(lab.private_key.private_bytes_raw()).digest()[:32])
    digest[0] &= 248
    digest[31] = digest[31] & 127 | 64
    scalar = int.from_bytes(digest, "little")
    r = (1).to_bytes(32, "little")
    public = lab.private_key.public_key()
    k = int.from_bytes(hashlib.sha512(r + public.public_bytes_raw() + message_of(lab)).digest(), "little") % L
    signature = r + (k * scalar % L).to_bytes(32, "little")
    public.verify(signature, message_of(lab))  # OpenSSL accepts it
    lab.write_signature(signature)


def resize_signature(lab, to: int) -> None:
    lab.write_signature((signature_of(lab).signature + b"\0")[:to])


def edit_signature_file(lab, pattern: bytes, change) -> None:
    data = (lab.root / "bundle.sig").read_bytes()
    changed = re.sub(pattern, lambda match: change(match.group()), data)
    assert changed != data
    (lab.root / "bundle.sig").write_bytes(changed)


def uncanonical_base64(lab) -> None:
    def change(end: bytes) -> bytes:
        alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        other = bytes([alphabet[alphabet.index(end[:1]) | 1]]) + b"=="
        assert base64.b64decode(b"AAA" + other[:1], validate=True) != b""
        return other

    edit_signature_file(lab, rb"[A-Za-z0-9+/]==", change)


def urlsafe_base64(lab) -> None:
    lab.write_signature(b"\xff\xfe" + signature_of(lab).signature[2:])
    edit_signature_file(lab, rb"(?<=sig ).*", lambda text: text.replace(b"/", b"_").replace(b"+", b"-"))


def mixed_line_ends(lab) -> None:
    edit_signature_file(lab, rb"v1\n", lambda _: b"v1\r\n")


def upper_key_id(lab) -> None:
    edit_signature_file(lab, rb"(?<=key ).*", lambda text: text.upper())


def lying_key_id(lab) -> None:
    lab.write_signature(NOBODY.sign(message_of(lab)))


def other_key(lab) -> None:
    lab.write_signature(NOBODY.sign(message_of(lab)), public_key_of(NOBODY).key_id)


def misnamed_co_signature(lab) -> None:
    lab.write_signature(NOBODY.sign(message_of(lab)), public_key_of(NOBODY).key_id, f"signatures/{'0' * 64}.sig")


def wrong_co_signature(lab) -> None:
    (lab.keys / "second.pub").write_bytes(public_key_of(NOBODY).to_pem())
    key_id = public_key_of(NOBODY).key_id
    lab.write_signature(NOBODY.sign(b"another message"), key_id, f"signatures/{key_id}.sig")


def prehashed(lab) -> None:
    """Ed25519ph of RFC 8032 section 5.1, computed by hand: dom2 with phflag 1 before both hashes."""
    secret = hashlib.sha512(lab.private_key.private_bytes_raw()).digest()
    head = bytearray(secret[:32])
    head[0] &= 248
    head[31] = head[31] & 127 | 64
    scalar = int.from_bytes(head, "little")
    dom2 = b"SigEd25519 no Ed25519 collisions\x01\x00"
    message = hashlib.sha512(message_of(lab)).digest()
    r = int.from_bytes(hashlib.sha512(dom2 + secret[32:] + message).digest(), "little") % L
    encoded_r = encode(multiply(r, decode(GENERATOR)))
    public = lab.private_key.public_key().public_bytes_raw()
    k = int.from_bytes(hashlib.sha512(dom2 + encoded_r + public + message).digest(), "little") % L
    lab.write_signature(encoded_r + ((r + k * scalar) % L).to_bytes(32, "little"))


def sign_other_message(lab, prefix: str) -> None:
    lab.write_signature(lab.private_key.sign(prefix.encode() + message_of(lab)[-32:]))


def many_signatures(lab, count: int) -> None:
    for number in range(count):
        key_id = hashlib.sha256(bytes([number])).hexdigest()
        lab.write_signature(b"\1" * 64, key_id, f"signatures/{key_id}.sig")


# --- operations: keys ---


def encode(point) -> bytes:
    inverse = pow(point.z, -1, 2**255 - 19)
    x, y = point.x * inverse % (2**255 - 19), point.y * inverse % (2**255 - 19)
    return (y | (x & 1) << 255).to_bytes(32, "little")


def chmod_keys(lab, mode: int) -> None:
    lab.keys.chmod(mode)


def chmod_key(lab, mode: int) -> None:
    (lab.keys / "lab.pub").chmod(mode)


def share(lab, path: str, mode: int, owner: int = -1, group: int = -1) -> None:
    """Gives rights to what lies beside the bundle, or above it, away."""
    place = lab.keys.parent / path
    try:
        os.chown(place, owner, group)
    except PermissionError:
        pytest.skip("only root can give files away")
    place.chmod(mode)


def private_key_in_keys(lab, path: str) -> None:
    pem = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    write_new_file(lab.keys / path, pem, mode=0o600)


def key_to_symlink(lab) -> None:
    (lab.keys / "lab.pub").rename(lab.keys.parent / "lab.pub")
    (lab.keys / "lab.pub").symlink_to(lab.keys.parent / "lab.pub")


def keys_to_symlink(lab) -> None:
    lab.keys.rename(lab.keys.parent / "real keys")
    lab.keys.symlink_to(lab.keys.parent / "real keys")


def fifo_in_keys(lab) -> None:
    os.mkfifo(lab.keys / "pipe.pub")


def folder_in_keys(lab) -> None:
    (lab.keys / "more").mkdir()


def key_file(lab, path: str, text: str, repeat: int = 1) -> None:
    (lab.keys / path).write_text(text * repeat)


def no_keys(lab) -> None:
    (lab.keys / "lab.pub").rename(lab.keys / "lab.old")


def keys_gone(lab) -> None:
    shutil.rmtree(lab.keys)


def weak_key(lab, octets: str) -> None:
    """Under the identity, R = B and S = 1 verify for every message."""
    install_weak_key(lab, bytes.fromhex(octets), GENERATOR + (1).to_bytes(32, "little"))


def mixed_order_key(lab) -> None:
    weak = encode(add(decode(lab.private_key.public_key().public_bytes_raw()), decode(ORDER_EIGHT)))
    install_weak_key(lab, weak, lab.private_key.sign(message_of(lab)))


def install_weak_key(lab, raw: bytes, signature: bytes) -> None:
    pem = b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(_SPKI_PREFIX + raw) + b"\n-----END PUBLIC KEY-----\n"
    (lab.keys / "weak.pub").write_bytes(pem)
    lab.write_signature(signature, hashlib.sha256(_SPKI_PREFIX + raw).hexdigest())


# --- operations: signed manifests ---


def replace(lab, old: str, new: str, repeat: str = "", count: int = 0) -> None:
    text = (lab.root / "manifest.json").read_text()
    assert old in text
    lab.resign(text.replace(old, new + repeat * count).encode())


def raw_manifest(lab, text: str, repeat: int, close: str) -> None:
    lab.resign((text * repeat + close * repeat).encode())


def raw_manifest_hex(lab, octets: str) -> None:
    lab.resign(bytes.fromhex(octets))


def set_value(lab, at: list[Any], value: Any, repeat: int = 1, also: tuple[dict[str, Any], ...] = ()) -> None:
    manifest = lab.manifest
    for change in ({"at": at, "value": value * repeat if repeat > 1 else value}, *also):
        holder: Any = manifest
        for key in change["at"][:-1]:
            holder = holder[key]
        holder[change["at"][-1]] = change["value"]
    lab.resign(manifest)
