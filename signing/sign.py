"""Signs a bundle (README clauses 9.3 and 9.4). Never imported by what verifies, loads or serves.

Example:
    key = parse_private_key(read_private_key_file(path), passphrase, str(path))
    sign_bundle(Path("bundle"), key)
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .content import check_content
from .durable import sync_folder
from .errors import Code, SealError
from .keys import public_key_of, write_new_file
from .limits import MAX_MANIFEST_BYTES
from .manifest import parse_manifest
from .names import FOREIGN_SIGNATURE, MANIFEST, SIGNATURE, SIGNATURES
from .oms import model_signature
from .signature import SignatureFile, signed_message
from .source import Source
from .verification import read_signatures

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that stands in the bundle.

    Attributes:
        path: Its file, below the bundle's root.
        key_id: The signer's key id, hex.
        digest: The bundle's digest, hex.
    """

    path: str
    key_id: str
    digest: str


def sign_bundle(
    root: Path,
    private_key: Ed25519PrivateKey,
    *,
    oms_key: EllipticCurvePrivateKey | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Signed:
    """Checks a bundle completely, as a verifier would, and adds a signature to it.

    The first signature becomes `bundle.sig`, further ones `signatures/<key id>.sig`. Signing twice with one key
    changes nothing.

    Args:
        root: The bundle's directory.
        private_key: The signer's key.
        oms_key: Also write `model.sig` with this key, for verifiers of the OpenSSF format.
        progress: Called with bytes done and bytes in all.

    Raises:
        SealError: What a verifier would say to the bundle; E_SIG if it bears a stale signature by this key; E_USAGE if
            a `model.sig` is asked for and one is there; E_IO.
    """
    key = public_key_of(private_key)
    with Source(root) as source:
        if oms_key is not None and FOREIGN_SIGNATURE in source.names(""):
            problem = "expected a path that is free, got an existing signature"
            raise SealError(Code.USAGE, FOREIGN_SIGNATURE, problem, "remove it if it is yours; nothing was overwritten")
        data = source.read(MANIFEST, MAX_MANIFEST_BYTES)
        manifest = parse_manifest(data)
        present = _present_signatures(source)
        check_content(source, manifest, reading=None, full=True, progress=progress)
    digest = hashlib.sha256(data)
    message = signed_message(digest.digest())
    signed = None
    for path, signature in present.items():
        if signature.key_id == key.key_id:
            key.verify(signature.signature, message, path)
            signed = Signed(path, key.key_id, digest.hexdigest())
    if signed is None:
        path = f"{SIGNATURES}/{key.key_id}.sig" if SIGNATURE in present else SIGNATURE
        _place(root, path, SignatureFile(key.key_id, private_key.sign(message)).encode())
        signed = Signed(path, key.key_id, digest.hexdigest())
    if oms_key is not None:
        _place(root, FOREIGN_SIGNATURE, model_signature(manifest, data, oms_key))
    return signed


def _present_signatures(source: Source) -> dict[str, SignatureFile]:
    try:
        return read_signatures(source)
    except SealError as error:
        if error.code is Code.NOSIG:
            return {}
        raise


def _place(root: Path, path: str, data: bytes) -> None:
    """Writes a signature file so that it is there as a whole or not at all."""
    target = root / path
    temporary = target.with_name(f".{target.name}.new")
    try:
        target.parent.mkdir(mode=0o755, exist_ok=True)
        try:
            write_new_file(temporary, data, mode=0o644)
            temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # an empty signatures/ would make the bundle invalid
                target.parent.rmdir()
        sync_folder(target.parent)
    except OSError as error:
        raise SealError(Code.IO, path, f"cannot write: {error.strerror}", "check the folder and its rights") from error
