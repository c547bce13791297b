"""SHA-256 of several buffers, for whoever reads weights: hashlib's, or a faster one that was tried (clause 7.4)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

_SAMPLE_BYTES: Final = 4096, 1000
"""Lengths that a faster one is tried with: whole blocks, and not."""


class Sha256(Protocol):
    """Part of what is trusted, as hashlib is. Any thread may call it."""

    @property
    def width(self) -> int:
        """Buffers of one length that take hardly longer together than one of them does."""

    def __call__(self, buffers: Sequence[memoryview]) -> Sequence[bytes]:
        """The digests, in the buffers' order."""


class EachSha256:
    """One buffer after the other."""

    width: Final = 1

    def __call__(self, buffers: Sequence[memoryview]) -> list[bytes]:
        """See `Sha256`."""
        return [hashlib.sha256(buffer).digest() for buffer in buffers]


def check_sha256(sha256: Sha256) -> None:
    """Tries it with buffers of which no two are alike, as many as it takes together.

    Raises:
        ValueError: it is no SHA-256.
    """
    samples = [_sample(mark, length) for length in _SAMPLE_BYTES for mark in range(max(sha256.width, 2))]
    if list(sha256(samples)) != EachSha256()(samples):
        raise ValueError("expected a function that gives hashlib's SHA-256, got one that gives something else")


def _sample(mark: int, length: int) -> memoryview:
    """Bytes that differ within each word, and from those of every other mark."""
    return memoryview((bytes(range(mark, 256)) * length)[:length])
