"""Whose signature counts (README clauses 5.4, 6.2 to 6.5, chapter 10).

TrustPolicy is the seam: verify() asks it for a key by id, and later whether those who signed may sign this bundle.
DirectoryTrust is a keys folder: with a trust.toml it is scopes, thresholds, validity and revocation; without one,
every key in it may sign every bundle.

Example:
    trust = DirectoryTrust(Path("keys"))
    bundle = verify(Path("bundle"), trust)
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from .errors import Code, SealError
from .keys import PRIVATE_MARKER, PRIVATE_SUFFIX, PUBLIC_SUFFIX, PublicKey, parse_public_key
from .limits import MAX_KEY_FILE_BYTES, MAX_KEYS, MAX_TRUST_FILE_BYTES
from .ownership import check, check_folder
from .source import Source
from .trust_file import POLICY_FILE, REVOCATIONS_FILE, Policy, Revocations, revoked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .manifest import Manifest
    from .source import Found
    from .trust_file import Publisher

_TRUST_FILES: Final = frozenset({POLICY_FILE, REVOCATIONS_FILE})


class TrustPolicy(Protocol):
    """Decides about keys and about what they may sign."""

    def key(self, key_id: str) -> PublicKey | None:
        """The trusted key with this id; None if there is none.

        Raises:
            SealError: E_REVOKED or E_EXPIRED: the key no longer counts, other signatures may suffice. Any other code:
                nothing is accepted.
        """
        ...

    def authorise(self, manifest: Manifest, signers: frozenset[str]) -> None:
        """Accepts by returning that these keys have signed this bundle.

        Args:
            manifest: What was signed.
            signers: Ids of the distinct trusted keys whose signatures verified.

        Raises:
            SealError: E_UNTRUSTED, E_THRESHOLD, E_EXPIRED, …
        """
        ...


class DirectoryTrust:
    """Trusts what a keys folder says.

    Args:
        keys_dir: The folder. It is read once, here.
        clock: What time it is; asked whenever a key's window is looked at.

    Attributes:
        keys: Key id → admitted key, of good standing or not.
        names: Key id → what people call it: its name in the policy, without one its file's.
        policy: What trust.toml says; None without one.
        revocations: What revoked.toml says; None without one.

    Raises:
        SealError: E_PERM (others own it or may write it, a private key or anything but plain files inside), E_KEY (a
            key that is not sound), E_UNTRUSTED (no key), E_PARSE, E_SIG, E_THRESHOLD (a trust file that is not
            sound), E_IO.
    """

    __slots__ = ("_clock", "_where", "keys", "names", "policy", "revocations")

    def __init__(self, keys_dir: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._where = str(keys_dir)
        self._clock = clock
        files = read_keys_folder(keys_dir)
        keys = {name: parse_public_key(data, name) for name, data in files.items() if name.endswith(PUBLIC_SUFFIX)}
        self.policy = Policy.parse(files[POLICY_FILE]) if POLICY_FILE in files else None
        self.revocations = None
        if REVOCATIONS_FILE in files:
            self.revocations = Revocations.parse(files[REVOCATIONS_FILE], self.policy)
        # clause 10.3: beside a trust.toml a *.pub file is only a key that lies there
        trusted = keys if self.policy is None else self.policy.keys
        self.keys: Mapping[str, PublicKey] = {key.key_id: key for key in trusted.values()}
        self.names = {key.key_id: name.removesuffix(PUBLIC_SUFFIX) for name, key in trusted.items()}
        if not self.keys:
            problem = "expected at least one trusted key, got none"
            raise SealError(Code.UNTRUSTED, str(keys_dir), problem, "add the publisher's: sealhost trust add NAME.pub")

    def key(self, key_id: str) -> PublicKey | None:
        """The key with this id, if it counts now.

        Raises:
            SealError: E_REVOKED, E_EXPIRED.
        """
        key = self.keys.get(key_id)
        if key is not None and self.policy is not None:
            if self.revocations is not None and key_id in self.revocations.reasons:
                raise revoked(self.policy.entries[key_id].name, self.revocations.reasons[key_id])
            self.policy.check_standing(key_id, self._clock())
        return key

    def _counts(self, key_id: str) -> bool:
        try:
            return self.key(key_id) is not None
        except SealError:
            return False

    def authorise(self, manifest: Manifest, signers: frozenset[str]) -> None:
        """Accepts a bundle that enough keys of one publisher in whose scope it is have signed (clause 10.4)."""
        if self.policy is None:
            if not signers & self.keys.keys():
                problem = f"expected a signature on {manifest.name} by a key in {self._where}, got none"
                raise SealError(Code.UNTRUSTED, "bundle", problem, "add the publisher's .pub file if you trust it")
            return
        best: tuple[int, Publisher] | None = None
        for publisher in self.policy.in_scope(manifest.kind, manifest.name):
            count = len(signers & {self.policy.keys[name].key_id for name in publisher.keys})
            if count >= publisher.threshold:
                return
            if count and (best is None or count > best[0]):
                best = count, publisher
        if best is None:
            problem = f"expected a publisher who may sign the {manifest.kind} {manifest.name}, got others"
            remedy = "see `sealhost trust list`; add the bundle's name to the publisher's scope if you trust it so far"
            raise SealError(Code.UNTRUSTED, "bundle", problem, remedy)
        raise self._too_few(*best)

    def _too_few(self, count: int, publisher: Publisher) -> SealError:
        """The refusal of a bundle that not enough keys have signed; says which of them no longer can."""
        problem = f"expected signatures by {publisher.threshold} keys of {publisher.name} that count, got {count}"
        remedy = "have the others sign it: sealhost sign"
        if lame := [name for key_id, name in self.names.items() if name in publisher.keys and not self._counts(key_id)]:
            remedy += f" ({', '.join(lame)} no longer can, see `sealhost trust list`)"
        return SealError(Code.THRESHOLD, "bundle", problem, remedy)


def read_keys_folder(keys_dir: Path) -> dict[str, bytes]:
    """Name → bytes of the keys and trust files of a folder (clause 5.4, in its order).

    Raises:
        SealError: E_PERM, E_IO.
    """
    try:
        source = Source(keys_dir)
    except SealError as error:
        remedy = "add a publisher's key with `sealhost trust add NAME.pub`, or name another folder with --keys"
        code = Code.PERM if error.code is Code.FILETYPE else error.code
        raise SealError(code, error.where, error.problem, remedy) from error
    with source:
        with source.folder("") as descriptor:
            check_folder(keys_dir, descriptor)
        files = _read_files(source, str(keys_dir))
    return {name: data for name, data in files.items() if name.endswith(PUBLIC_SUFFIX) or name in _TRUST_FILES}


def _read_files(source: Source, where: str, rereads: int = 20) -> dict[str, bytes]:
    """Name → bytes of every file; once more when an update has replaced one of them under its reader."""
    listed = _listed(source, where)
    try:
        return {name: _read_key_file(source, name) for name in sorted(listed)}
    except SealError:
        if not rereads or _listed(source, where) == listed:
            raise
    return _read_files(source, where, rereads - 1)


def _listed(source: Source, where: str) -> Mapping[str, Found]:
    """What is in a keys folder, if that is not too much."""
    try:
        listed = source.listing(())
    except SealError as error:
        if error.code is not Code.UNLISTED:  # more than the listing goes through
            raise
        found = "many more"
    else:
        if len(listed) <= MAX_KEYS:
            return listed
        found = str(len(listed))
    problem = f"expected at most {MAX_KEYS} files, got {found}"
    raise SealError(Code.PERM, where, problem, "keep only keys in this folder")


def _read_key_file(source: Source, name: str) -> bytes:
    """The bytes of a file in a keys folder, of any name, if it may be there."""
    try:
        descriptor = source.open(name)
        try:
            check(name, descriptor)
        finally:
            os.close(descriptor)
        data = source.read(name, MAX_TRUST_FILE_BYTES if name in _TRUST_FILES else MAX_KEY_FILE_BYTES)
    except SealError as error:
        if error.code in {Code.FILETYPE, Code.SIZE}:
            raise SealError(Code.PERM, name, error.problem, "keep only key files in the keys folder") from error
        raise
    if name.endswith(PRIVATE_SUFFIX) or PRIVATE_MARKER in data:
        problem = "expected public keys only, got a private key"
        raise SealError(Code.PERM, name, problem, "move the private key away from the machine that verifies")
    return data
