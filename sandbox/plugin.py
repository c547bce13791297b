"""What the sandbox needs to know of a plugin.

`signing.VerifiedPlugin` has this shape; the sandbox names the shape and not the class, so that its tests need no
bundle.
Production code hands in nothing but what `signing.verify` made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class PluginLimits(Protocol):
    """The limits that a plugin's manifest entry asks for."""

    @property
    def memory_bytes(self) -> int:
        """Largest linear memory, bytes."""

    @property
    def init_ms(self) -> int:
        """Longest `init`, milliseconds."""

    @property
    def load_ms(self) -> int:
        """Longest `load` of a whole vocabulary, milliseconds."""

    @property
    def step_ms(self) -> int:
        """Longest `step`, milliseconds."""

    @property
    def encode_ms(self) -> int:
        """Longest `encode`, milliseconds."""


class Plugin(Protocol):
    """A plugin whose bytes have been verified."""

    @property
    def name(self) -> str:
        """Name in the manifest."""

    @property
    def role(self) -> str:
        """Either "tokenizer" or "sampler"."""

    @property
    def wasm(self) -> bytes:
        """The bytes that were hashed."""

    @property
    def sha256(self) -> str:
        """Hex digest of `wasm`, from the manifest."""

    @property
    def abi(self) -> int:
        """Major version of the ABI."""

    @property
    def tier(self) -> str:
        """Tier of a sampler: "full", "topk:K" or "mask"; of a tokenizer: ""."""

    @property
    def limits(self) -> PluginLimits:
        """Limits that the publisher asks for."""

    @property
    def config_schema(self) -> Mapping[str, Any] | None:
        """JSON schema of a sampler's configuration; None: it takes none."""
