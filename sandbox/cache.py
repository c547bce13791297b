"""Compiled code on disk, believed only under a host-local MAC (README §2).

    cache = CodeCache(CodeCache.default_directory())
    entry = cache.get(key)         # None: absent, damaged, or not ours
    cache.put(key, code, head)

* Everything that goes wrong on disk means "not cached"; nothing here raises on I/O.
* An entry is a nonce, its MAC, the head's size (u32), the head, and the code. The MAC is Poly1305 (RFC 8439 §2.5) under
  a one-time key that HMAC-SHA-256 makes of the host's key, the nonce and the entry's name: so entries cannot be
  exchanged, and megabytes of code cost a quarter of what SHA-256 alone takes.
* Code is read, added to the MAC and copied to where it will run from piece by piece, while it is in the processor's
  caches. There is no `Code` before the MAC of all of it was right.
* Whoever goes on runs guests, so the vector registers are left as guests need them (clause 2.9).
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import struct
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.poly1305 import Poly1305

from .code import PIECE_BYTES, Code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NONCE_BYTES = 16
"""Random, of each entry that is written: a key of Poly1305 must never serve two messages."""
MAC_BYTES = 16
_FORMAT = b"sealhost cache entry 2 "
"""What an entry looks like; part of each one-time key, so that none is ever read as one of another format."""
_HEAD_BYTES = struct.Struct("<I")
_KEY_FILE = "host.key"
_KEY_BYTES = 32
_WHOLE_VECTORS = bytes(256)
"""As many bytes as every implementation takes in vectors, without a rest."""
_MAX_ENTRY_BYTES = 1 << 30
"""Largest file that is read at all; twice what the compiling child may write."""
MAX_CACHE_BYTES = 1 << 30
"""What all entries together may take: some forty tokenizers with 262k tokens. Those not used for longest go first."""


class Entry(NamedTuple):
    """What the cache had under a name.

    Attributes:
        head: What was stored beside the code.
        code: To be closed by whoever asked for it.
    """

    head: bytes
    code: Code


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

    def get(self, key: bytes) -> Entry | None:
        """What is stored under `key`, or None."""
        if self._directory is None or self._key is None:
            return None
        try:
            with _open_private(self._directory / key.hex(), _MAX_ENTRY_BYTES) as file:
                entry = _read(file, self._key, key)
                with suppress(OSError):
                    os.utime(file.fileno())  # clause 2.7: used just now
        except (OSError, InvalidSignature):
            return None
        finally:
            _clear_registers()
        return entry

    def put(self, key: bytes, code: bytes, head: bytes = b"") -> None:
        """Stores code, and what else is needed to use it, under `key`: clause 2.5."""
        if self._directory is None or self._key is None:
            return
        temporary = self._directory / f"{key.hex()}.{secrets.token_hex(8)}.tmp"
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                nonce, head = secrets.token_bytes(NONCE_BYTES), _HEAD_BYTES.pack(len(head)) + head
                mac = _mac(self._key, nonce, key)
                mac.update(head)
                mac.update(code)
                file.write(nonce + mac.finalize() + head)
                file.write(code)
            temporary.replace(self._directory / key.hex())
            self._prune(self._directory)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
        finally:
            _clear_registers()

    @staticmethod
    def _prune(directory: Path) -> None:
        """Clause 2.7: keeps the entries used last, and sweeps up what a killed process left half-written."""
        room = MAX_CACHE_BYTES
        entries = [(p.lstat(), p) for p in directory.iterdir() if p.name != _KEY_FILE]
        for facts, path in sorted(entries, key=lambda entry: -entry[0].st_mtime_ns):
            room -= facts.st_size
            if room < 0:
                with suppress(OSError):  # gone already, or no file of ours: the others go all the same
                    path.unlink()


def _clear_registers() -> None:
    """Clause 2.9: Poly1305 of whole vectors ends with VZEROUPPER, which its other ends lack; 2 µs."""
    Poly1305.generate_tag(bytes(_KEY_BYTES), _WHOLE_VECTORS)


def _mac(secret: bytes, nonce: bytes, name: bytes) -> Poly1305:
    """A MAC under the key of one entry."""
    return Poly1305(hmac.digest(secret, _FORMAT + nonce + name, "sha256"))


def _read(file: FileIO, secret: bytes, name: bytes) -> Entry:
    """Reads an entry.

    Raises:
        InvalidSignature: When it is not what `put` wrote under this name.
        OSError: When it ends too early, or cannot be held.
    """
    nonce, tag, size = (_exactly(file, count) for count in (NONCE_BYTES, MAC_BYTES, _HEAD_BYTES.size))
    left = max(min(os.fstat(file.fileno()).st_size, _MAX_ENTRY_BYTES) - file.tell(), 0)
    head = _exactly(file, min(*_HEAD_BYTES.unpack(size), left))  # nobody has vouched for the size yet
    mac = _mac(secret, nonce, name)
    mac.update(size + head)
    return Entry(head, Code.from_pieces(_checked(file, left - len(head), mac, tag), left - len(head)))


def _checked(file: FileIO, size: int, mac: Poly1305, tag: bytes) -> Iterator[memoryview]:
    """The next `size` bytes of a file, in pieces that lie in the same memory one after another.

    Raises:
        InvalidSignature: After the last one, when `mac` of them all is not `tag`.
        OSError: When the file ends before.
    """
    buffer = memoryview(bytearray(min(size, PIECE_BYTES)))
    for at in range(0, size, PIECE_BYTES):
        piece = buffer[: size - at]
        _fill(file, piece)
        mac.update(piece)
        yield piece
    mac.verify(tag)


def _exactly(file: FileIO, count: int) -> bytes:
    """The next `count` bytes; raises as `_fill` does."""
    found = bytearray(count)
    _fill(file, memoryview(found))
    return bytes(found)


def _fill(file: FileIO, room: memoryview) -> None:
    """Reads until `room` is full.

    Raises:
        OSError: When the file ends before.
    """
    while room:
        got = file.readinto(room)
        if not got:
            raise OSError("expected more of an entry, got its end")
        room = room[got:]


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


def _open_private(path: Path, limit: int) -> FileIO:
    """Opens a regular file of ours, of at most `limit` bytes, that nobody else may write or read.

    Raises:
        OSError: When it is not such a file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    facts = os.fstat(descriptor)
    if not _is_private(facts, stat.S_ISREG) or facts.st_size > limit:
        os.close(descriptor)
        raise PermissionError(f"{path} is not ours alone")
    return FileIO(descriptor)


def _is_private(facts: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
