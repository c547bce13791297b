"""Writes `model.sig`, which verifiers of the OpenSSF Model Signing format accept (README clauses 9.6 to 9.8).

A Sigstore bundle v0.3 around a DSSE envelope around an in-toto statement, whose predicate lists every file with its
SHA-256. sealhost never reads it: it is for others, who do not know our format, and it adds nothing to ours.

Sources: https://github.com/ossf/model-signing-spec and https://github.com/secure-systems-lab/dsse (protocol.md).
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from .errors import Code, SealError
from .names import FOREIGN_SIGNATURE, MANIFEST, SIGNATURE, SIGNATURES

if TYPE_CHECKING:
    from .manifest import Manifest

_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_HASHES: Final[dict[str, type[hashes.HashAlgorithm]]] = {
    "secp256r1": hashes.SHA256,
    "secp384r1": hashes.SHA384,
    "secp521r1": hashes.SHA512,
}
"""Curve → hash, as the format fixes them."""

_GIT: Final = (".git", ".gitattributes", ".github", ".gitignore")
"""Names at the top of a directory that verifiers of the format always leave out."""


def parse_oms_key(data: bytes, passphrase: bytes | None, where: str) -> EllipticCurvePrivateKey:
    """Reads a PEM private key on one of the curves P-256, P-384 and P-521.

    Args:
        data: The file's bytes.
        passphrase: None if the key is not encrypted.
        where: Name for messages.

    Raises:
        SealError: E_KEY.
    """
    remedy = "make one with: openssl ecparam -name prime256v1 -genkey -noout"
    try:
        key = load_pem_private_key(data, password=passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        problem = "expected a PEM private key and its passphrase if it has one, got something else"
        raise SealError(Code.KEY, where, problem, remedy) from error
    if not isinstance(key, EllipticCurvePrivateKey) or key.curve.name not in _HASHES:
        kind = key.curve.name if isinstance(key, EllipticCurvePrivateKey) else type(key).__name__
        raise SealError(Code.KEY, where, f"expected a key on P-256, P-384 or P-521, got {kind}", remedy)
    return key


def model_signature(manifest: Manifest, manifest_data: bytes, key: EllipticCurvePrivateKey) -> bytes:
    """The bytes of model.sig.

    Args:
        manifest: A manifest whose files have just been checked, flat digests included.
        manifest_data: Its exact bytes: the file is listed, too.
        key: On a curve of `parse_oms_key`.
    """
    payload = json.dumps(_statement(manifest, manifest_data), indent=2).encode()
    # DSSE's pre-authentication encoding: lengths keep type and payload apart
    message = f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(payload)} ".encode() + payload
    signature = key.sign(message, ECDSA(_HASHES[key.curve.name]()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    bundle = {
        "mediaType": _BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hashlib.sha256(public).hexdigest()}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": _PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }
    return json.dumps(bundle).encode() + b"\n"


def _statement(manifest: Manifest, manifest_data: bytes) -> dict[str, object]:
    digests = {entry.path: entry.sha256 for entry in manifest.files}
    digests[MANIFEST] = hashlib.sha256(manifest_data).hexdigest()
    # the format's order: by components, so that `a/z` comes before `a.txt`
    paths = sorted((path for path in digests if path.split("/")[0] not in _GIT), key=PurePosixPath)
    root = hashlib.sha256(b"".join(bytes.fromhex(digests[path]) for path in paths)).hexdigest()
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": manifest.name, "digest": {"sha256": root}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                # our own signatures sign themselves, and co-signers may still come
                "ignore_paths": [FOREIGN_SIGNATURE, SIGNATURE, SIGNATURES, *_GIT],
            },
            "resources": [{"name": path, "algorithm": "sha256", "digest": digests[path]} for path in paths],
        },
    }
