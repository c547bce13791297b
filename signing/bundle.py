"""A verified bundle as a type (README clause 7.1): who holds one holds bytes that were checked.

* Only `verify()` can make a VerifiedBundle; nothing turns a path or a dictionary into one.
* Everything in it was read once, hashed from that very memory, and is never read from disk again.
"""

from __future__ import annotations

import contextlib
import mmap
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from .manifest import Manifest, PluginLimits

MADE_BY_VERIFY: Final = object()
"""The token that verify() shows to VerifiedBundle; no other module may import it (a test looks)."""


@dataclass(frozen=True, slots=True)
class VerifiedPlugin:
    """A plugin's wasm and what the publisher signed about it."""

    name: str
    role: Literal["tokenizer", "sampler"]
    wasm: bytes
    sha256: str
    abi: int
    tier: str
    limits: PluginLimits
    config_schema: dict[str, Any] | None


class VerifiedWeights:
    """The weights in private anonymous memory, filled by reads that were hashed.

    A map of the file itself would show later writes by others and raise SIGBUS when it is cut; this cannot.

    Attributes:
        size: Bytes of the weights.
        data: Read-only view. Shape: (size,), uint8.
    """

    __slots__ = ("_map", "data", "size")

    def __init__(self, memory: mmap.mmap) -> None:
        self._map: mmap.mmap | None = memory
        self.size = len(memory)
        self.data = memoryview(memory).toreadonly()

    def release(self, start: int, stop: int) -> None:
        """Gives the whole pages inside [start, stop) back to the system; they read as zeros from then on.

        Args:
            start: First byte that the caller has consumed.
            stop: One past the last such byte.
        """
        if self._map is None:
            return
        first = -(-max(start, 0) // mmap.PAGESIZE) * mmap.PAGESIZE
        end = min(stop, self.size)
        # the last page may be partly behind the file's end: it belongs to nobody else
        last = end if end == self.size else end // mmap.PAGESIZE * mmap.PAGESIZE
        if last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def close(self) -> None:
        """Drops the memory; views that others still hold keep it alive until they go."""
        memory, self._map = self._map, None
        if memory is None:
            return
        with contextlib.suppress(BufferError):
            self.data.release()
            memory.close()


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What verifying cost.

    Attributes:
        seconds: Wall time of verify().
        bytes: Bytes read and hashed.
    """

    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class VerifiedBundle:
    """A bundle whose signature, policy, paths and every byte were accepted.

    Attributes:
        root: Where it came from; for messages only, it is never opened again.
        manifest: The checked manifest.
        digest: SHA-256 of manifest.json, hex: the bundle's identity.
        signers: Ids (hex) of the trusted keys whose signatures verified, sorted.
        weights: The model's bytes; None in a plugin bundle.
        template: Text of the chat template, if there is one.
        plugins: In the manifest's order.
        report: What verifying cost.
    """

    root: Path
    manifest: Manifest
    digest: str
    signers: tuple[str, ...]
    weights: VerifiedWeights | None
    template: str | None
    plugins: tuple[VerifiedPlugin, ...]
    report: VerifyReport
    token: InitVar[object]

    def __post_init__(self, token: object) -> None:
        if token is not MADE_BY_VERIFY:
            raise TypeError("expected verify() to make a VerifiedBundle, got another caller; call verify()")
