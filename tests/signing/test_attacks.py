"""Every file of attacks/bundle is refused with its code, its exit code and the name of the file.

`expect` is what verify() must answer and the file that the refusal must name; `do` names an operation below, the rest are
its arguments. An operation that changes the manifest has the trusted publisher sign it again, so that only the rule in
question can refuse.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.signing import Code, DirectoryTrust, ExitCode, SealError, audit, verify
from sealhost.signing.ed25519 import L, add, decode, multiply
from sealhost.signing.keys import _SPKI_PREFIX, public_key_of, write_new_file
from sealhost.signing.signature import SignatureFile, signed_message

FILES = sorted((Path(__file__).parent / "attacks" / "bundle").glob("*.toml"))
ATTACKS = [tomllib.loads(path.read_text(encoding="utf-8")) for path in FILES]
EXPECTED_KEYS = {"expect", "name", "do", "full", "unread"}
POLICY = {"E_UNTRUSTED", "E_KEY", "E_PERM"}
GENERATOR = bytes.fromhex("5866666666666666666666666666666666666666666666666666666666666666")
ORDER_EIGHT = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
NOBODY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)


def exit_code_of(code: str) -> ExitCode:
    if code in POLICY:
        return ExitCode.POLICY
    return ExitCode.IO if code == "E_IO" else ExitCode.TAMPERED


@pytest.fixture
def no_hang():
    """A verifier that waits for a FIFO's writer fails instead of hanging the suite."""

    def give_up(*_: object) -> None:
        raise AssertionError("still waiting after 20 seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack["name"] for attack in ATTACKS])
@pytest.mark.usefixtures("no_hang")
def test_an_attack_is_refused(attack: dict[str, Any], seal_lab, monkeypatch) -> None:
    arguments = {key: value for key, value in attack.items() if key not in EXPECTED_KEYS}
    code, _, where = attack["expect"].partition(" ")
    OPERATIONS[attack["do"]](seal_lab, **arguments)
    opened = []
    real_open = os.open
    monkeypatch.setattr("sealhost.signing.source.os.open", lambda p, *a, **k: opened.append(p) or real_open(p, *a, **k))
    for check in (verify, audit):
        with pytest.raises(SealError) as caught:
            check(seal_lab.root, DirectoryTrust(seal_lab.keys), full=attack.get("full", False))
        error = caught.value
        assert str(error.code) == code, str(error)
        assert error.exit_code == exit_code_of(code)
        assert error.where.removeprefix(f"{seal_lab.root.parent}/").startswith(where), error.where
        assert str(error).isprintable()
        assert error.problem
        assert error.remedy
    if attack.get("unread"):
        assert "secret" not in opened
        assert "hosts" not in opened


def test_the_attack_table_is_large_and_without_repetitions() -> None:
    names = [attack["name"] for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 60
    assert all(path.read_text(encoding="utf-8").startswith("expect = ") for path in FILES)
    assert {attack["do"] for attack in ATTACKS} == set(OPERATIONS)


def test_the_untouched_bundle_verifies(seal_lab) -> None:
    assert seal_lab.verify(full=True).manifest.name == "lab"


def test_resigning_without_a_change_verifies(seal_lab) -> None:
    seal_lab.resign(seal_lab.manifest)
    assert seal_lab.verify().manifest.version == 3


# --- operations: bytes ---


def flip(lab, path: str, at: int) -> None:
    data = bytearray((lab.root / path).read_bytes())
    data[at] ^= 0x01
    (lab.root / path).write_bytes(data)


def prepend(lab, path: str, octets: str) -> None:
    (lab.root / path).write_bytes(bytes.fromhex(octets) + (lab.root / path).read_bytes())


def append(lab, path: str, octets: str) -> None:
    (lab.root / path).write_bytes((lab.root / path).read_bytes() + bytes.fromhex(octets))


def append_many(lab, path: str, count: int) -> None:
    append(lab, path, "20" * count)


def cut(lab, path: str, by: int) -> None:
    os.truncate(lab.root / path, (lab.root / path).stat().st_size - by)


def empty(lab, path: str) -> None:
    os.truncate(lab.root / path, 0)


def to_crlf(lab, path: str) -> None:
    (lab.root / path).write_bytes((lab.root / path).read_bytes().replace(b"\n", b"\r\n"))


def swap(lab, a: str, b: str) -> None:
    data = (lab.root / a).read_bytes()
    (lab.root / a).write_bytes((lab.root / b).read_bytes())
    (lab.root / b).write_bytes(data)


def swap_bytes(lab, a: str, b: str) -> None:
    """A second tokenizer of the same length exists elsewhere; its bytes take the place of the first's."""
    data = (lab.root / a).read_bytes()
    (lab.root / a).write_bytes(data.replace(Path(a).stem.encode(), Path(b).stem.encode()))


def old_signature(lab) -> None:
    """The signature of version 3 over the manifest of version 4."""
    manifest = lab.manifest | {"version": 4}
    (lab.root / "manifest.json").write_text(json.dumps(manifest))


# --- operations: files ---


def remove(lab, path: str) -> None:
    (lab.root / path).unlink()


def rename(lab, a: str, b: str) -> None:
    (lab.root / a).rename(lab.root / b)


def write(lab, path: str) -> None:
    (lab.root / path).parent.mkdir(parents=True, exist_ok=True)
    (lab.root / path).write_text("surprise")


def write_raw_name(lab, octets: str) -> None:
    Path(os.fsdecode(os.fsencode(lab.root) + b"/" + bytes.fromhex(octets))).write_text("surprise")


def mkdir(lab, path: str) -> None:
    (lab.root / path).mkdir(parents=True)


def many(lab, count: int) -> None:
    for number in range(count):
        (lab.root / f"x{number}").touch()


def link_in_folder(lab, path: str) -> None:
    (lab.root / path).parent.mkdir(parents=True)
    (lab.root / path).symlink_to("/usr/bin/env")


def to_symlink(lab, path: str) -> None:
    outside = lab.root.parent / "outside"
    (lab.root / path).rename(outside)
    (lab.root / path).symlink_to(outside)


def root_to_symlink(lab) -> None:
    lab.root.rename(lab.root.parent / "real")
    lab.root.symlink_to(lab.root.parent / "real")


def root_to_file(lab) -> None:
    shutil.rmtree(lab.root)
    lab.root.write_text("no directory")


def symlink(lab, path: str) -> None:
    (lab.root / path).symlink_to("nowhere")


def hard_link_outside(lab, path: str) -> None:
    (lab.root.parent / "second name").hardlink_to(lab.root / path)


def hard_link(lab, a: str, b: str) -> None:
    (lab.root / b).unlink()
    (lab.root / b).hardlink_to(lab.root / a)


def fifo(lab, path: str) -> None:
    os.mkfifo(lab.root / path)


def to_fifo(lab, path: str) -> None:
    (lab.root / path).unlink()
    os.mkfifo(lab.root / path)


def to_socket(lab, path: str) -> None:
    (lab.root / path).unlink()
    here = Path.cwd()
    os.chdir((lab.root / path).parent)  # a socket's path has at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(Path(path).name)
    finally:
        os.chdir(here)


def device(lab, path: str) -> None:
    try:
        os.mknod(lab.root / path, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make a device")


def to_folder(lab, path: str) -> None:
    (lab.root / path).unlink()
    (lab.root / path).mkdir()


def to_file(lab, path: str) -> None:
    shutil.rmtree(lab.root / path)
    (lab.root / path).write_text("no folder")


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


OPERATIONS = {
    operation.__name__: operation
    for operation in (
        *(flip, prepend, append, append_many, cut, empty, to_crlf, swap, swap_bytes, old_signature),
        *(remove, rename, write, write_raw_name, mkdir, many, link_in_folder, to_symlink, root_to_symlink),
        *(root_to_file, symlink, hard_link_outside, hard_link, fifo, to_fifo, to_socket, device, to_folder, to_file),
        *(flip_signature, malleate_signature, small_order_r, resize_signature, uncanonical_base64, urlsafe_base64),
        *(mixed_line_ends, upper_key_id, lying_key_id, other_key, misnamed_co_signature, wrong_co_signature),
        *(prehashed, sign_other_message, many_signatures),
        *(chmod_keys, chmod_key, private_key_in_keys, key_to_symlink, keys_to_symlink, fifo_in_keys),
        *(folder_in_keys, key_file, no_keys, keys_gone, weak_key, mixed_order_key),
        *(replace, raw_manifest, raw_manifest_hex),
    )
} | {"set": set_value}


def test_every_code_of_an_attack_is_a_stable_code() -> None:
    assert {attack["expect"].split()[0] for attack in ATTACKS} <= {str(code) for code in Code}
