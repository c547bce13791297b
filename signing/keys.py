"""Ed25519 keys: making, storing, reading and admitting them (README chapter 5).

* A PublicKey that exists has been admitted: canonical encoding, prime order. There is no other way to make one.
* A private key's file is 0600 from its first byte, never overwritten, and encrypted unless the caller insists.

Example:
    write_key_pair(Path("."), "acme", passphrase=b"correct horse")
    key = parse_public_key(Path("acme.pub").read_bytes(), "acme.pub")
    key.verify(signature, message)      # raises, never returns a bool
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from .durable import check_free, write_new_file
from .ed25519 import KEY_BYTES, key_flaw, signature_flaw
from .errors import Code, SealError
from .limits import MAX_KEY_FILE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC_SUFFIX: Final = ".pub"
PRIVATE_SUFFIX: Final = ".key"
PRIVATE_MARKER: Final = b"PRIVATE KEY-----"
"""What every PEM of a private key has in its first line, OpenSSH's format included."""

_OPENSSH: Final = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_SPKI_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
_SSH_PREFIX: Final = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"
_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----\n([A-Za-z0-9+/=\n]+)\n-----END PUBLIC KEY-----\n*")
_SSH = re.compile(rb"ssh-ed25519 ([A-Za-z0-9+/=]+)(?: [^\n]*)?\n*")
KEY_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a key may be called: its files, and in a policy."""
_OTHERS_MAY_READ: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An admitted public key.

    Attributes:
        raw: The 32 bytes of RFC 8032.
        key_id: SHA-256 of the key's SubjectPublicKeyInfo DER, hex.
    """

    raw: bytes
    key_id: str = field(init=False)

    def __post_init__(self) -> None:
        # clause 5.3, once for each key
        if flaw := key_flaw(self.raw):
            raise SealError(Code.KEY, "public key", flaw, "do not use this key; ask its owner for a sound one")
        object.__setattr__(self, "key_id", hashlib.sha256(_SPKI_PREFIX + self.raw).hexdigest())

    def verify(self, signature: bytes, message: bytes, where: str = "signature") -> None:
        """Accepts a signature by returning.

        Raises:
            SealError: E_SIG.
        """
        flaw = signature_flaw(signature)
        if flaw is None:
            try:
                Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
            except InvalidSignature:
                flaw = f"expected a signature by key {self.key_id[:16]} over this manifest, got one that does not fit"
        if flaw:
            raise SealError(
                Code.SIG, where, flaw, "fetch the bundle again; if it stays so, it was changed after signing"
            )

    def to_pem(self) -> bytes:
        """SubjectPublicKeyInfo PEM."""
        text = base64.b64encode(_SPKI_PREFIX + self.raw)
        return b"-----BEGIN PUBLIC KEY-----\n" + text + b"\n-----END PUBLIC KEY-----\n"

    def to_ssh(self, comment: str = "") -> bytes:
        """An `ssh-ed25519` line."""
        text = base64.b64encode(_SSH_PREFIX + self.raw).decode()
        return f"ssh-ed25519 {text} {comment}".rstrip().encode() + b"\n"


def parse_public_key(data: bytes, where: str) -> PublicKey:
    """Reads a public key file: SPKI PEM or one `ssh-ed25519` line (clause 5.2).

    Raises:
        SealError: E_KEY.
    """
    remedy = "replace it by an Ed25519 public key: what `sealhost keygen` writes, or an ssh-ed25519 line"
    text = data.replace(b"\r\n", b"\n")
    for pattern, prefix in ((_PEM, _SPKI_PREFIX), (_SSH, _SSH_PREFIX)):
        if not (match := pattern.fullmatch(text)) or len(data) > MAX_KEY_FILE_BYTES:
            continue
        encoded = match.group(1).replace(b"\n", b"")
        try:
            blob = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            break
        if base64.b64encode(blob) != encoded or not blob.startswith(prefix) or len(blob) != len(prefix) + KEY_BYTES:
            break
        try:
            return PublicKey(blob[len(prefix) :])
        except SealError as error:
            raise SealError(Code.KEY, where, error.problem, error.remedy) from error
    raise SealError(
        Code.KEY, where, "expected one Ed25519 public key as PEM or ssh-ed25519 line, got other bytes", remedy
    )


def public_key_of(private_key: Ed25519PrivateKey) -> PublicKey:
    """The public half of a private key."""
    return PublicKey(private_key.public_key().public_bytes_raw())


def new_key_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """Where `write_key_pair` would write, if it can: for who asks a person for a passphrase first.

    Returns:
        NAME.key and NAME.pub.

    Raises:
        SealError: E_USAGE (name, a file is there), E_IO.
    """
    if not KEY_NAME.fullmatch(name):
        problem = "expected a key name of up to 64 letters, digits, '.', '_', '-', got another"
        raise SealError(Code.USAGE, name, problem, "give the key a plain name, such as acme-2026")
    paths = folder / (name + PRIVATE_SUFFIX), folder / (name + PUBLIC_SUFFIX)
    for path in paths:
        check_free(path)
    return paths


def write_key_pair(folder: Path, name: str, *, passphrase: bytes | None) -> PublicKey:
    """Makes a key pair and writes NAME.key and NAME.pub.

    Args:
        folder: Existing folder.
        name: Letters, digits, dot, underscore, hyphen.
        passphrase: None writes the private key unencrypted.

    Raises:
        SealError: E_USAGE (name, empty passphrase, a file is there), E_IO.
    """
    private_path, public_path = new_key_pair(folder, name)
    if passphrase == b"":
        raise SealError(Code.USAGE, name, "expected a passphrase, got an empty one", "give one, or use --no-passphrase")
    private_key = Ed25519PrivateKey.generate()
    public_key = public_key_of(private_key)
    write_new_file(private_path, _private_pem(private_key, passphrase), mode=0o600)
    try:
        write_new_file(public_path, public_key.to_pem(), mode=0o644)
    except SealError:
        private_path.unlink()
        raise
    return public_key


def _private_pem(private_key: Ed25519PrivateKey, passphrase: bytes | None) -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 — verifiers handle no private keys
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    from .pkcs8 import encrypt_pkcs8  # noqa: PLC0415

    if passphrase is None:
        return private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    document = private_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return encrypt_pkcs8(document, passphrase)


def is_encrypted(data: bytes) -> bool:
    """Whether a private key's PEM needs a passphrase."""
    return b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in data


def read_private_key_file(path: Path) -> bytes:
    """The bytes of a private key's file, if nobody else may read it.

    Raises:
        SealError: E_IO, E_PERM, E_KEY.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            data = file.read(MAX_KEY_FILE_BYTES + 1) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise SealError(Code.IO, str(path), f"cannot read: {error.strerror}", "check the path of the key") from error
    if _OPENSSH in data:
        problem = "expected a PKCS#8 PEM private key, got one in OpenSSH's own format"
        raise SealError(Code.KEY, str(path), problem, "make one with `sealhost keygen`")
    if PRIVATE_MARKER not in data or len(data) > MAX_KEY_FILE_BYTES:
        problem = "expected a PKCS#8 PEM private key, got something else"
        raise SealError(Code.KEY, str(path), problem, "give the .key file that `sealhost keygen` wrote")
    if mode & _OTHERS_MAY_READ:
        problem = f"expected mode 0600, got {stat.S_IMODE(mode):04o}"
        raise SealError(Code.PERM, str(path), problem, f"run: chmod 600 {path.name}")
    return data


def parse_private_key(data: bytes, passphrase: bytes | None, where: str) -> Ed25519PrivateKey:
    """Reads a PKCS#8 PEM private key.

    Raises:
        SealError: E_KEY.
    """
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 — verifiers handle no private keys
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    encrypted = is_encrypted(data)
    try:
        key = load_pem_private_key(data, password=passphrase if encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        problem = (
            "expected the key's passphrase, got another" if encrypted else "expected a PKCS#8 key, got other bytes"
        )
        raise SealError(Code.KEY, where, problem, "check the passphrase and the file") from error
    if not isinstance(key, Ed25519PrivateKey):
        problem = f"expected an Ed25519 key, got {type(key).__name__}"
        raise SealError(Code.KEY, where, problem, "make one with `sealhost keygen`")
    return key
