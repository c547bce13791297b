"""Checks every byte of a bundle against its manifest and keeps what will be used (README clauses 6.6 to 6.8).

The signer and the verifier both call this: nobody signs what would not verify.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .chunks import Meter, chunk_table, flat_digest
from .comparison import compare, folders_of
from .errors import Code, IntegrityError, SealError
from .limits import CHUNK_BYTES, DIGEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from .manifest import FileEntry, Manifest
    from .source import Source

_HEX_SHOWN: Final = 16
"""Hex digits of a digest in a message: enough to tell two apart."""


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes that were hashed and found right.

    Attributes:
        small: Path → bytes of every file that is used and is not the weights.
        weights: Private memory with the weights, if they were asked for.
        bytes: Bytes read.
    """

    small: dict[str, bytes]
    weights: mmap.mmap | None
    bytes: int


@dataclass(frozen=True, slots=True)
class _Change:
    """One file whose bytes are not the signed ones."""

    path: str
    expected: str
    got: str


def check_content(
    source: Source,
    manifest: Manifest,
    *,
    keep_weights: bool,
    full: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Content:
    """Checks that the directory holds exactly the listed files with exactly the signed bytes.

    Args:
        source: The open bundle.
        manifest: Its checked manifest.
        keep_weights: Read the weights into memory to use them; otherwise memory stays flat.
        full: Also check the weights' flat digest, which takes one core as long as two for the chunks.
        progress: Called with bytes done and bytes in all, from one thread at a time.

    Raises:
        SealError: E_FILETYPE, E_UNLISTED, E_MISSING, E_SIZE, E_DIGEST, E_IO.
    """
    compare(manifest, source.listing(folders_of(manifest)))
    meter = Meter(sum(entry.size for entry in manifest.files), progress)
    changes: list[_Change] = []
    small: dict[str, bytes] = {}
    for entry in manifest.files:
        if entry.role == "weights":
            continue
        data = source.read(entry.path, entry.size)
        meter.advance(len(data))
        found = hashlib.sha256(data).hexdigest()
        if found != entry.sha256:
            changes.append(_Change(entry.path, f"sha256 {entry.sha256[:_HEX_SHOWN]}…", f"{found[:_HEX_SHOWN]}…"))
        elif entry.role != "document":
            small[entry.path] = data
    weights = None
    if manifest.weights is not None and manifest.weights.chunks in small:
        table = small.pop(str(manifest.weights.chunks))
        weights, change = _check_weights(source, manifest.weights, table, meter, keep=keep_weights, full=full)
        changes += [change] if change else []
    if changes:
        _refuse(changes)
    return Content(small, weights, meter.done)


def _refuse(changes: list[_Change]) -> None:
    first = changes[0]
    paths = tuple(change.path for change in changes)
    raise IntegrityError(Code.DIGEST, first.path, f"expected {first.expected}, got {first.got}", changed=paths)


def _check_weights(
    source: Source, entry: FileEntry, table: bytes, meter: Meter, *, keep: bool, full: bool
) -> tuple[mmap.mmap | None, _Change | None]:
    """Reads and hashes the weights; returns their memory, or what is wrong with them."""
    descriptor = source.open(entry.path)
    memory = None
    try:
        memory = _anonymous_memory(entry.size) if keep else None
        found = chunk_table(descriptor, entry.path, entry.size, meter, memory)
        change = _compare_tables(entry.path, table, found)
        if full and change is None:
            flat = hashlib.sha256(memory).hexdigest() if memory else flat_digest(descriptor, entry.path, entry.size)
            if flat != entry.sha256:
                change = _Change(entry.path, f"flat sha256 {entry.sha256[:_HEX_SHOWN]}…", f"{flat[:_HEX_SHOWN]}…")
    except OSError as error:
        raise SealError(Code.IO, entry.path, f"cannot read: {error.strerror}", "check the disk") from error
    finally:
        os.close(descriptor)
    return memory, change


def _compare_tables(path: str, signed: bytes, found: bytes) -> _Change | None:
    """Names the first chunk that differs and how many do."""
    if signed == found:
        return None
    starts = range(0, len(signed), DIGEST_BYTES)
    wrong = [at for at in starts if signed[at : at + DIGEST_BYTES] != found[at : at + DIGEST_BYTES]]
    index = wrong[0] // DIGEST_BYTES
    expected = signed[wrong[0] : wrong[0] + DIGEST_BYTES].hex()[:_HEX_SHOWN]
    got = found[wrong[0] : wrong[0] + DIGEST_BYTES].hex()[:_HEX_SHOWN]
    return _Change(
        path,
        f"sha256 {expected}… for chunk {index} (bytes from {index * CHUNK_BYTES})",
        f"{got}… ({len(wrong)} of {len(starts)} chunks differ)",
    )


def _anonymous_memory(size: int) -> mmap.mmap:
    """Private memory of exactly `size` bytes, in huge pages where the system has them."""
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        problem = f"expected {size} bytes of free memory for the weights, got none"
        raise SealError(Code.IO, "weights", problem, "free memory or take a smaller model") from error
    with contextlib.suppress(OSError):  # not configured in this kernel: only slower
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
