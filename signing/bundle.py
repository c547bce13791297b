"""A verified bundle as a type (README clause 7.1): who holds one holds bytes that were checked.

* Only `verify()` can make a VerifiedBundle; nothing turns a path or a dictionary into one.
* Everything in it was read once, hashed from that very memory, and is never read from disk again; its weights give out
  only bytes of which that is true (clause 7.4).
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from .manifest import Manifest, PluginLimits
    from .weights import VerifiedWeights

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


class VerifyReport(NamedTuple):
    """What verifying cost.

    Attributes:
        seconds: Wall time of `verify`; of `audit` since the hashing began.
        bytes: Bytes read and hashed in it; weights that are read ahead or lazily are not counted.
    """

    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class VerifiedBundle:
    """A bundle whose signature, policy, paths and bytes were accepted; those of its weights when they are viewed.

    Attributes:
        root: Where it came from; for messages only, it is never opened again.
        manifest: The checked manifest.
        digest: SHA-256 of manifest.json, hex: the bundle's identity.
        signers: Ids (hex) of the trusted keys whose signatures verified, sorted.
        weights: The model's bytes, which the holder closes; None in a plugin bundle.
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
