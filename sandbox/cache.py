"""Compiled code on disk, believed only under a host-local MAC (README §2).

    cache = CodeCache(CodeCache.default_directory())
    blob = cache.get(key)          # None: absent, damaged, or not ours
    cache.put(key, blob)

* Everything that goes wrong on disk means "not cached"; nothing here raises on I/O.
* An entry is a nonce, its MAC, and the blob. The MAC is Poly1305 (RFC 8439 §2.5) under a one-time key that
  HMAC-SHA-256 makes of the host's key, the nonce and the entry's name: so entries cannot be exchanged, and megabytes of
  code cost a quarter of what SHA-256 alone takes.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cryptography.hazmat.primitives.poly1305 import Poly1305

if TYPE_CHECKING:
    from collections.abc import Callable

NONCE_BYTES = 16
"""Random, of each entry that is written: a key of Poly1305 must never serve two messages."""
MAC_BYTES = 16
_KEY_FILE = "host.key"
_KEY_BYTES = 32
_MAX_ENTRY_BYTES = 1 << 30
"""Largest file that is read at all; twice what the compiling child may write."""
MAX_CACHE_BYTES = 1 << 30
"""What all entries together may take: some forty tokenizers with 262k tokens. Those not used for longest go first."""


class CodeCache:
    """A folder of entries; None as folder: nothing is kept.

    Args:
        directory: Where entries and the MAC key lie; made when it does not exist.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._key = None if directory is None else _open_key(directory)

    @staticmethod
    def default_directory() -> Path | None:
        """`$XDG_CACHE_HOME/sealhost/wasm`, by default under ~/.cache; None where there is neither, as absolute path."""
        for variable, below in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
            if (named := Path(os.environ.get(variable, ""))).is_absolute():
                return named / below / "sealhost" / "wasm"
        return None

    @property
    def usable(self) -> bool:
        """Whether entries are kept: clause 2.3."""
        return self._key is not None

    def get(self, key: bytes) -> bytes | None:
        """The blob stored under `key`, or None."""
        if self._directory is None or self._key is None:
            return None
        try:
            with _open_private(self._directory / key.hex(), _MAX_ENTRY_BYTES) as file:
                nonce, mac, blob = file.read(NONCE_BYTES), file.read(MAC_BYTES), file.read()
        except OSError:
            return None
        if not hmac.compare_digest(mac, self._mac(self._key, nonce + key, blob)):
            return None
        with suppress(OSError):
            os.utime(self._directory / key.hex())  # clause 2.7: used just now
        return blob

    def put(self, key: bytes, blob: bytes) -> None:
        """Stores `blob` under `key`: clause 2.5."""
        if self._directory is None or self._key is None:
            return
        temporary = self._directory / f"{key.hex()}.{secrets.token_hex(8)}.tmp"
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                nonce = secrets.token_bytes(NONCE_BYTES)
                file.write(nonce + self._mac(self._key, nonce + key, blob))
                file.write(blob)
            temporary.replace(self._directory / key.hex())
            self._prune(self._directory)
        except OSError:
            with suppress(OSError):
                temporary.unlink()

    @staticmethod
    def _prune(directory: Path) -> None:
        """Clause 2.7: keeps the entries used last, and sweeps up what a killed process left half-written."""
        room = MAX_CACHE_BYTES
        entries = [(p.stat(), p) for p in directory.iterdir() if p.name != _KEY_FILE]
        for facts, path in sorted(entries, key=lambda entry: -entry[0].st_mtime_ns):
            room -= facts.st_size
            if room < 0:
                path.unlink(missing_ok=True)

    @staticmethod
    def _mac(secret: bytes, once: bytes, blob: bytes) -> bytes:
        """Of a blob under a key that is used `once`: a nonce and the entry's name, both of one length."""
        return Poly1305.generate_tag(hmac.digest(secret, once, "sha256"), blob)


def _open_key(directory: Path) -> bytes | None:
    """The MAC key, made on first use; None when the folder or the key is not ours alone (clause 2.3)."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(directory.lstat(), stat.S_ISDIR):
            return None
        _make_key(directory / _KEY_FILE)
        with _open_private(directory / _KEY_FILE, _KEY_BYTES) as file:
            key = file.read(_KEY_BYTES)
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _make_key(path: Path) -> None:
    """Creates the key once; of two processes that race, one key survives."""
    if path.exists():
        return
    temporary = path.with_name(f"{_KEY_FILE}.{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _open_private(path: Path, limit: int) -> IO[bytes]:
    """Opens a regular file of ours, of at most `limit` bytes, that nobody else may write or read.

    Raises:
        OSError: When it is not such a file.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb", buffering=0)
    facts = os.fstat(file.fileno())
    if not _is_private(facts, stat.S_ISREG) or facts.st_size > limit:
        file.close()
        raise PermissionError(f"{path} is not ours alone")
    return file


def _is_private(facts: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
