"""Signs a bundle (README clauses 9.3 and 9.4). Never imported by what verifies, loads or serves.

Example:
    key = parse_private_key(read_private_key_file(path), passphrase, str(path))
    sign_bundle(Path("bundle"), key)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .content import check_content
from .durable import locked_folder, sync_folder, write_new_file
from .errors import Code, SealError
from .keys import public_key_of
from .limits import MAX_MANIFEST_BYTES
from .manifest import parse_manifest
from .names import FOREIGN_SIGNATURE, MANIFEST, SIGNATURE, SIGNATURES
from .oms import model_signature
from .signature import SignatureFile, signed_message
from .source import Source
from .verification import read_signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
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
        with locked_folder(root):  # whoever places a signature holds it, so these are of nobody any more
            _remove_left_over(source, {entry.path for entry in manifest.files})
        present = _present_signatures(source)
        check_content(source, manifest, reading=None, full=True, progress=progress)
    digest = hashlib.sha256(data)
    message = signed_message(digest.digest())
    for path, signature in present.items():
        if signature.key_id == key.key_id:
            key.verify(signature.signature, message, path)
            signed = Signed(path, key.key_id, digest.hexdigest())
            break
    else:
        new = SignatureFile(key.key_id, private_key.sign(message))
        with locked_folder(root):  # of two that sign an unsigned bundle at a time, the second one goes to signatures/
            path = f"{SIGNATURES}/{key.key_id}.sig" if os.path.lexists(root / SIGNATURE) else SIGNATURE
            _place(root, path, new.encode())
        signed = Signed(path, key.key_id, digest.hexdigest())
    if oms_key is not None:
        with locked_folder(root):
            _place(root, FOREIGN_SIGNATURE, model_signature(manifest, data, oms_key))
    return signed


_LEFT_OVER: Final = re.compile(r"\.(bundle\.sig|model\.sig|[0-9a-f]{64}\.sig)(\.[a-z0-9_]{8})?\.new")
"""Names of signatures that are being written, where a file needs a name for that."""


def _remove_left_over(source: Source, listed: Collection[str]) -> None:
    """Removes what a killed signer left, or no verifier would take the bundle any more (clause 9.4)."""
    for folder in (SIGNATURES, ""):
        for name in source.names(folder):
            path = f"{folder}/{name}" if folder else name
            if _LEFT_OVER.fullmatch(name) and path not in listed:
                with contextlib.suppress(OSError), source.folder(folder) as descriptor:
                    os.unlink(name, dir_fd=descriptor)
    with contextlib.suppress(OSError), source.folder("") as descriptor:
        os.rmdir(SIGNATURES, dir_fd=descriptor)  # only if it is empty


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
    try:
        target.parent.mkdir(mode=0o755, exist_ok=True)
        try:
            write_new_file(target, data, mode=0o644)
        finally:
            with contextlib.suppress(OSError):  # an empty signatures/ would make the bundle invalid
                target.parent.rmdir()
        sync_folder(root)  # signatures/ may be new in it
    except OSError as error:
        raise SealError(Code.IO, path, f"cannot write: {error.strerror}", "check the folder and its rights") from error
