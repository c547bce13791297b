"""Verifies a bundle and hands on exactly the bytes that were verified (README chapters 6 and 7).

* The order is that of clauses 6.1 to 6.8; nothing is parsed before it has been authenticated, but for the
  signature files and, once a trusted key has signed it, the manifest.
* `verify` raises or returns a VerifiedBundle; there is no boolean to forget.

Example:
    bundle = verify(Path("smollm2"), DirectoryTrust(Path("keys")))
    bundle.weights.view(0, 4)
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from .bundle import MADE_BY_VERIFY, VerifiedBundle, VerifiedPlugin, VerifyReport
from .comparison import SIGNATURE_PATH
from .content import check_content
from .errors import Code, SealError
from .limits import MAX_MANIFEST_BYTES, MAX_SIGNATURE_FILE_BYTES, MAX_SIGNATURES
from .manifest import Manifest, PluginEntry, parse_manifest
from .names import MANIFEST, SIGNATURE, SIGNATURES
from .signature import SignatureFile, signed_message
from .source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .ahead import HashedAhead
    from .keys import PublicKey
    from .trust import TrustPolicy
    from .weights import Reading

    Progress = Callable[[int, int], None]


_NO_LONGER_COUNTS: Final = frozenset({Code.REVOKED, Code.EXPIRED})
"""Refusals of a key that leave it to the other signatures whether the bundle is accepted (clause 6.2)."""


class Audit(NamedTuple):
    """The outcome of a check that keeps no bytes: nothing can be loaded from it.

    Attributes:
        manifest: The checked manifest.
        digest: SHA-256 of manifest.json, hex.
        signers: Ids of the trusted keys whose signatures verified, sorted.
        report: What it cost.
    """

    manifest: Manifest
    digest: str
    signers: tuple[str, ...]
    report: VerifyReport


class _Signed(NamedTuple):
    """A manifest that trusted keys have signed."""

    manifest: Manifest
    digest: str
    signers: tuple[str, ...]


def verify(
    root: Path,
    trust: TrustPolicy,
    *,
    reading: Reading = "whole",
    full: bool = False,
    progress: Progress | None = None,
    ahead: HashedAhead | None = None,
) -> VerifiedBundle:
    """Verifies a bundle.

    Args:
        root: The bundle's directory.
        trust: Whose signatures count.
        reading: When the weights are read and checked (clause 7.4): "whole", all of them now; "ahead", from now on
            while the caller consumes them, who ends with `weights.finish()`; "lazy", each chunk when first touched.
        full: Also check the weights' flat digest against the chunk table's verdict; not with "lazy".
        progress: Called with bytes done and bytes in all, from worker threads, one at a time; after the return, too,
            while weights are read.
        ahead: The same bundle's weights, when they were begun to be kept; only with "ahead".

    Raises:
        SealError: Any code of README chapter 8.
        ValueError: `full` and "lazy" together: a flat digest needs every byte. Weights that were begun, and are to be
            read in another way.
    """
    if ahead is not None and reading != "ahead":
        raise ValueError(f'expected no weights that were begun, or reading "ahead", got {reading!r}')
    if full and reading == "lazy":
        raise ValueError("expected weights that are read as a whole for their flat digest, got lazy ones")
    begin = time.perf_counter()
    with Source(root) as source:
        signed = _authenticate(source, trust)
        content = check_content(source, signed.manifest, reading=reading, full=full, progress=progress, ahead=ahead)
    with contextlib.ExitStack() as on_refusal:
        if content.weights is not None:
            on_refusal.callback(content.weights.close)
        template = _template(signed.manifest, content.small)
        on_refusal.pop_all()
    return VerifiedBundle(
        root=root,
        manifest=signed.manifest,
        digest=signed.digest,
        signers=signed.signers,
        weights=content.weights,
        template=template,
        plugins=tuple(_plugin(entry, content.small[entry.path]) for entry in signed.manifest.plugins),
        report=VerifyReport(time.perf_counter() - begin, content.bytes),
        token=MADE_BY_VERIFY,
    )


def audit(
    root: Path,
    trust: TrustPolicy,
    *,
    full: bool = False,
    progress: Progress | None = None,
    ahead: HashedAhead | None = None,
) -> Audit:
    """Verifies a bundle completely and keeps none of it: memory stays flat whatever the weights' size.

    Args:
        root: The bundle's directory.
        trust: Whose signatures count.
        full: Also check the weights' flat digest.
        progress: As in `verify`.
        ahead: The same bundle's weights, when their hashing was begun before.

    Raises:
        SealError: As `verify`.
    """
    begin = time.perf_counter() if ahead is None else ahead.began
    with Source(root) as source:
        signed = _authenticate(source, trust)
        content = check_content(source, signed.manifest, reading=None, full=full, progress=progress, ahead=ahead)
    _template(signed.manifest, content.small)
    report = VerifyReport(time.perf_counter() - begin, content.bytes)
    return Audit(signed.manifest, signed.digest, signed.signers, report)


def _authenticate(source: Source, trust: TrustPolicy) -> _Signed:
    """Clauses 6.1 to 6.5: signature files, trust, manifest bytes, signatures, and only then the manifest's text."""
    signatures = read_signatures(source)
    keys = trusted_keys(signatures, trust)
    data = source.read(MANIFEST, MAX_MANIFEST_BYTES)
    digest = hashlib.sha256(data)
    signers = check_signatures(signatures, keys, digest.digest())
    manifest = parse_manifest(data)
    trust.authorise(manifest, signers)
    return _Signed(manifest, digest.hexdigest(), tuple(sorted(signers)))


def read_signatures(source: Source) -> dict[str, SignatureFile]:
    """Path → contents of every signature file (clauses 4.5 and 6.1).

    Raises:
        SealError: E_NOSIG, E_SIG, E_UNLISTED, and what Source raises.
    """
    paths = [SIGNATURE] if SIGNATURE in source.names("") else []
    paths += [path for name in source.names(SIGNATURES) if SIGNATURE_PATH.fullmatch(path := f"{SIGNATURES}/{name}")]
    if not paths:
        problem = f"expected {SIGNATURE} or a file in {SIGNATURES}/, got neither"
        raise SealError(Code.NOSIG, "bundle", problem, "the publisher must run `sealhost sign` on it")
    if len(paths) > MAX_SIGNATURES:
        problem = f"expected at most {MAX_SIGNATURES} signatures, got {len(paths)}"
        raise SealError(Code.UNLISTED, SIGNATURES, problem, "remove the signatures that nobody needs")
    found: dict[str, SignatureFile] = {}
    for path in paths:
        signature = SignatureFile.parse(source.read(path, MAX_SIGNATURE_FILE_BYTES), path)
        if path not in {SIGNATURE, f"{SIGNATURES}/{signature.key_id}.sig"}:
            problem = f"expected the signature of the key in the file's name, got one of {signature.key_id[:16]}"
            raise SealError(Code.SIG, path, problem, "remove the file or fetch it again")
        found[path] = signature
    return found


def trusted_keys(signatures: Mapping[str, SignatureFile], trust: TrustPolicy) -> dict[str, PublicKey]:
    """Key id → trusted key, for the ids that the signatures claim (clause 6.2).

    Raises:
        SealError: E_UNTRUSTED if there is none; E_REVOKED or E_EXPIRED if that is why.
    """
    claimed = {signature.key_id for signature in signatures.values()}
    keys: dict[str, PublicKey] = {}
    refused: list[SealError] = []
    for key_id in sorted(claimed):
        try:
            if (key := trust.key(key_id)) is not None:
                keys[key_id] = key
        except SealError as error:
            if error.code not in _NO_LONGER_COUNTS:
                raise
            refused.append(error)  # one such key does not spoil the others' signatures
    if refused and not keys:
        raise min(refused, key=lambda error: error.code is not Code.REVOKED)
    if not keys:
        ids = ", ".join(sorted(key_id[:16] for key_id in claimed)[:3])
        problem = f"expected a signature by a trusted key, got signatures by {ids} only"
        remedy = (
            "compare the key id with the publisher's, and add its .pub file by `sealhost trust add` if you trust it"
        )
        raise SealError(Code.UNTRUSTED, next(iter(signatures)), problem, remedy)
    return keys


def check_signatures(
    signatures: Mapping[str, SignatureFile], keys: Mapping[str, PublicKey], manifest_digest: bytes
) -> frozenset[str]:
    """Ids of the keys that have signed; one wrong signature by a trusted key refuses all (clause 6.4).

    Raises:
        SealError: E_SIG.
    """
    message = signed_message(manifest_digest)
    signers = set()
    for path, signature in signatures.items():
        if (key := keys.get(signature.key_id)) is not None:
            key.verify(signature.signature, message, path)
            signers.add(key.key_id)
    return frozenset(signers)


def _template(manifest: Manifest, small: Mapping[str, bytes]) -> str | None:
    """The chat template's text.

    Raises:
        SealError: E_TEMPLATE if it is not UTF-8.
    """
    for entry in manifest.with_role("template"):
        try:
            return small[entry.path].decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"expected UTF-8, got an invalid byte at offset {error.start}"
            raise SealError(Code.TEMPLATE, entry.path, problem, "the publisher must pack a UTF-8 template") from error
    return None


def _plugin(entry: PluginEntry, wasm: bytes) -> VerifiedPlugin:
    return VerifiedPlugin(
        name=entry.name,
        role=entry.role,
        wasm=wasm,
        sha256=hashlib.sha256(wasm).hexdigest(),
        abi=entry.abi,
        tier=entry.tier,
        limits=entry.limits,
        config_schema=entry.config_schema,
    )
