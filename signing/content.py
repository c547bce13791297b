"""Checks every byte of a bundle against its manifest and keeps what will be used (README clauses 6.6 to 6.8).

The signer and the verifier both call this: nobody signs what would not verify.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from .chunks import ChunkHashing, Meter, flat_digest
from .comparison import Change, changed, chunk_change, compare, file_change, folders_of
from .limits import DIGEST_BYTES
from .weights import SignedWeights, VerifiedWeights, read_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ahead import HashedAhead
    from .manifest import FileEntry, Manifest
    from .source import Source
    from .weights import Reading


class Content(NamedTuple):
    """Bytes that were hashed and found right.

    Attributes:
        small: Path → bytes of every file that is used and is not the weights.
        weights: The weights, if they were asked for; the caller closes them.
        bytes: Bytes read and checked; weights that are still to be read are not counted.
    """

    small: dict[str, bytes]
    weights: VerifiedWeights | None
    bytes: int


def check_content(
    source: Source,
    manifest: Manifest,
    *,
    reading: Reading | None,
    full: bool,
    progress: Callable[[int, int], None] | None = None,
    ahead: HashedAhead | None = None,
) -> Content:
    """Checks that the directory holds exactly the listed files with exactly the signed bytes.

    Args:
        source: The open bundle.
        manifest: Its checked manifest.
        reading: When the weights are read (clause 7.4); None: now, and they are not kept.
        full: Also check the weights' flat digest, which takes one core as long as two for the chunks.
        progress: Called with bytes done and bytes in all, from one thread at a time.
        ahead: Weights whose hashing has begun, and who keeps them if they are to be kept; for None or "ahead".

    Raises:
        SealError: E_FILETYPE, E_UNLISTED, E_MISSING, E_SIZE, E_DIGEST, E_IO.
    """
    compare(manifest, source.listing(folders_of(manifest)))
    meter = Meter(sum(entry.size for entry in manifest.files), progress)
    changes: list[Change] = []
    small: dict[str, bytes] = {}
    for entry in manifest.files:
        if entry.role == "weights":
            continue
        data = source.read(entry.path, entry.size)
        meter.advance(len(data))
        found = hashlib.sha256(data).hexdigest()
        if found != entry.sha256:
            changes.append(file_change(entry.path, entry.sha256, found))
        elif entry.role != "document":
            small[entry.path] = data
    read = meter.done  # workers may go on counting from here
    weights = None
    if manifest.weights is not None and manifest.weights.chunks in small:
        table = small.pop(manifest.weights.chunks)
        if reading is None or (changes and reading == "whole"):  # the refusal names all files that changed
            change = _audit_weights(source, manifest.weights, table, meter, full=full, ahead=ahead)
            changes += [change] if change else []
        elif not changes:
            weights = _take_weights(source, manifest.weights, table, reading, meter, full=full, ahead=ahead)
    if changes:
        raise changed(changes)
    return Content(small, weights, read if reading in ("ahead", "lazy") else meter.done)


def _take_weights(
    source: Source,
    entry: FileEntry,
    table: bytes,
    reading: Reading,
    meter: Meter,
    *,
    full: bool,
    ahead: HashedAhead | None,
) -> VerifiedWeights:
    """Weights to use, the whole of them checked if so they are read."""
    signed = SignedWeights(entry.path, entry.size, table, entry.sha256 if full else None)
    descriptor = source.open(entry.path)
    early = ahead.taken(descriptor, entry.size) if ahead is not None else None
    if early is not None:  # another descriptor of the same file
        os.close(descriptor)
        descriptor = early.descriptor
    weights = VerifiedWeights(descriptor, signed, reading, meter, early=early)
    if reading == "whole":
        try:
            weights.view(0, weights.size)
            weights.finish()
        except BaseException:
            weights.close()
            raise
    return weights


def _audit_weights(
    source: Source, entry: FileEntry, table: bytes, meter: Meter, *, full: bool, ahead: HashedAhead | None
) -> Change | None:
    """Hashes the weights, keeps nothing, and answers what is wrong with them."""
    descriptor = source.open(entry.path)
    try:
        hashing = ahead.hashing_of(descriptor, entry.size) if ahead is not None else None
        hashing = hashing or ChunkHashing(descriptor, entry.path, entry.size)
        found = hashing.table(meter)
        change = _compare_tables(entry.path, table, found)
        if full and change is None:
            flat = flat_digest(descriptor, entry.path, entry.size)
            if flat != entry.sha256:
                change = file_change(entry.path, entry.sha256, flat, what="flat sha256")
    except OSError as error:
        raise read_error(entry.path, error) from error
    finally:
        os.close(descriptor)
    return change


def _compare_tables(path: str, signed: bytes, found: bytes) -> Change | None:
    """Names the first chunk that differs and how many do."""
    if signed == found:
        return None
    starts = range(0, len(signed), DIGEST_BYTES)
    wrong = [at for at in starts if signed[at : at + DIGEST_BYTES] != found[at : at + DIGEST_BYTES]]
    first = slice(wrong[0], wrong[0] + DIGEST_BYTES)
    change = chunk_change(path, wrong[0] // DIGEST_BYTES, signed[first], found[first])
    return change._replace(got=f"{change.got} ({len(wrong)} of {len(starts)} chunks differ)")
