"""Whose signature counts (README clauses 5.4 and 6.2 to 6.4).

TrustPolicy is the seam: verify() asks it for a key by id, and later whether those who signed may sign this bundle.
DirectoryTrust is the simplest policy: every key in a folder may sign every bundle.

Example:
    trust = DirectoryTrust(Path("keys"))
    bundle = verify(Path("bundle"), trust)
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, Protocol

from .errors import Code, SealError
from .keys import PRIVATE_MARKER, PRIVATE_SUFFIX, PUBLIC_SUFFIX, PublicKey, parse_public_key
from .limits import MAX_KEY_FILE_BYTES, MAX_KEYS
from .source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .manifest import Manifest

_POLICY_FILE: Final = "trust.toml"


class TrustPolicy(Protocol):
    """Decides about keys and about what they may sign."""

    def key(self, key_id: str) -> PublicKey | None:
        """The trusted key with this id; None if there is none.

        Raises:
            SealError: If the policy refuses the key outright, for example because it was revoked.
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
    """Trusts every `*.pub` of a folder for every bundle.

    Args:
        keys_dir: The folder. It is read once, here.

    Raises:
        SealError: E_PERM (writable by others, a private key or anything but plain files inside), E_KEY (a key that
            is not sound), E_UNTRUSTED (no key, or a policy file that this version does not read), E_IO.
    """

    __slots__ = ("_keys", "_where")

    def __init__(self, keys_dir: Path) -> None:
        self._where = str(keys_dir)
        self._keys = _read_keys(keys_dir)

    @property
    def keys(self) -> Mapping[str, PublicKey]:
        """Key id → admitted key."""
        return self._keys

    def key(self, key_id: str) -> PublicKey | None:
        """The key with this id."""
        return self._keys.get(key_id)

    def authorise(self, manifest: Manifest, signers: frozenset[str]) -> None:
        """Accepts any bundle that at least one of the folder's keys signed."""
        if not signers & self._keys.keys():
            problem = f"expected a signature on {manifest.name} by a key in {self._where}, got none"
            raise SealError(Code.UNTRUSTED, "bundle", problem, "add the publisher's .pub file if you trust it")


def _read_keys(keys_dir: Path) -> dict[str, PublicKey]:
    """Clause 5.4, in its order."""
    keys: dict[str, PublicKey] = {}
    try:
        source = Source(keys_dir)
    except SealError as error:
        remedy = "make the folder and put the publisher's .pub file into it, or name another with --keys"
        code = Code.PERM if error.code is Code.FILETYPE else error.code
        raise SealError(code, error.where, error.problem, remedy) from error
    with source:
        with source.folder("") as descriptor:
            _check_mode(str(keys_dir), os.fstat(descriptor).st_mode)
        names = source.names("")
        if len(names) > MAX_KEYS:
            problem = f"expected at most {MAX_KEYS} files, got {len(names)}"
            raise SealError(Code.PERM, str(keys_dir), problem, "keep only keys in this folder")
        for name in names:
            data = _read_key_file(source, name)
            if name.endswith(PUBLIC_SUFFIX):
                key = parse_public_key(data, name)
                keys[key.key_id] = key
    if not keys:
        remedy = "put the publisher's .pub file into it"
        raise SealError(Code.UNTRUSTED, str(keys_dir), "expected at least one *.pub file, got none", remedy)
    return keys


def _read_key_file(source: Source, name: str) -> bytes:
    """The bytes of a file in a keys folder, of any name, if it may be there."""
    try:
        descriptor = source.open(name)
        try:
            _check_mode(name, os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)
        data = source.read(name, MAX_KEY_FILE_BYTES)
    except SealError as error:
        if error.code in {Code.FILETYPE, Code.SIZE}:
            raise SealError(Code.PERM, name, error.problem, "keep only key files in the keys folder") from error
        raise
    if name.endswith(PRIVATE_SUFFIX) or PRIVATE_MARKER in data:
        problem = "expected public keys only, got a private key"
        raise SealError(Code.PERM, name, problem, "move the private key away from the machine that verifies")
    if name == _POLICY_FILE:
        problem = "expected no policy file, which this version cannot read, got one; ignoring it could trust too much"
        raise SealError(Code.UNTRUSTED, name, problem, "remove the file or install a version that reads it")
    return data


def _check_mode(where: str, mode: int) -> None:
    if mode & stat.S_IWOTH:
        problem = f"expected a mode that others cannot write, got {stat.S_IMODE(mode):04o}"
        raise SealError(Code.PERM, where, problem, "run: chmod o-w on it, and check that the keys are still yours")
