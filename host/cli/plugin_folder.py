"""An author's plugin on disk: its folder, its declaration, its module as admission wants to see it.

    plugin = AuthoredPlugin.read(Path("my-sampler"))     # plugin.wasm and plugin.toml in it
    sandbox.load_sampler(plugin, 512)

* Only the author's verbs use it: whoever serves takes nothing but what `signing.verify` made.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...signing import Code, SealError
from ...signing.declaration import MAX_DECLARATION_BYTES, PluginSource, read_input, read_plugin
from ...signing.limits import MAX_PLUGIN_BYTES
from ...signing.manifest import PluginLimits
from ..errors import RequestError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "plugin.wasm"
DECLARATION = "plugin.toml"

WASM_PAGE = 1 << 16
"""Bytes of a WebAssembly page."""

MAX_CONFIG_FILE_BYTES = 64 << 10
"""Bytes: four times what a guest gets, for indentation."""

UNDECLARED_LIMITS = PluginLimits(
    memory_bytes=1 << 32, init_ms=3_600_000, load_ms=3_600_000, step_ms=3_600_000, encode_ms=3_600_000
)
"""For a module without a declaration: then the operator's limits are the smaller ones."""


@dataclass(frozen=True, slots=True)
class AuthoredPlugin:
    """A plugin that nobody has signed yet; has the shape of `sandbox.Plugin`."""

    wasm: bytes
    name: str
    role: str
    abi: int
    tier: str
    limits: PluginLimits
    config_schema: dict[str, Any] | None = None

    @property
    def sha256(self) -> str:
        """Hex digest of the module."""
        return hashlib.sha256(self.wasm).hexdigest()

    @classmethod
    def read(cls, place: Path) -> AuthoredPlugin:
        """Reads a folder's module, or a module beside its declaration.

        Raises:
            SealError: E_IO, E_SIZE, E_PLUGIN.
        """
        source = read_source(place)
        return cls(source.wasm, source.name, source.role, source.abi, source.tier, source.limits, source.config_schema)

    @classmethod
    def undeclared(cls, wasm: Path, role: str) -> AuthoredPlugin:
        """A module without a declaration, under the operator's limits.

        Raises:
            SealError: E_IO, E_SIZE.
        """
        tier = "full" if role == "sampler" else ""
        return cls(read_input(wasm, MAX_PLUGIN_BYTES), wasm.stem, role, 1, tier, UNDECLARED_LIMITS)


def read_source(place: Path) -> PluginSource:
    """The plugin in a folder, or at the path of a module.

    Raises:
        SealError: E_IO, E_SIZE, E_PLUGIN.
    """
    module = place / MODULE if place.is_dir() else place
    if place.is_dir() and not module.is_file():
        problem = f"expected a built plugin, got a folder without {MODULE}"
        raise SealError(Code.IO, str(place), problem, f"run: sealhost plugin build {place}")
    return read_plugin(module)


def read_config(path: Path | None) -> dict[str, Any] | None:
    """The configuration in a file, a JSON object as a request would have it; its schema is the sampler's to check.

    Raises:
        SealhostError: E_IO, E_SIZE, E_USAGE.
    """
    if path is None:
        return None
    from ..serving.strict_json import parse_object  # noqa: PLC0415 — verbs load what they need

    data = read_input(path, MAX_CONFIG_FILE_BYTES)
    try:
        return parse_object(data)
    except RequestError as error:
        raise UsageError(str(path), error.problem, "give one JSON object in UTF-8") from None


def declared_memory(folder: Path) -> int:
    """Bytes of memory that a folder's declaration asks for: what its module is linked with.

    Raises:
        SealError: E_IO, E_SIZE, E_PLUGIN.
    """
    path = folder / DECLARATION
    found = _limits_of(path).get("memory_bytes")
    if not isinstance(found, int) or isinstance(found, bool) or found < WASM_PAGE or found % WASM_PAGE:
        problem = f"expected limits.memory_bytes in whole pages of {WASM_PAGE} bytes, got {found!r}"
        raise SealError(Code.PLUGIN, str(path), problem, "round it up: memory is allotted in pages")
    return found


def _limits_of(path: Path) -> dict[str, Any]:
    data = read_input(path, MAX_DECLARATION_BYTES)
    try:
        limits = tomllib.loads(data.decode("utf-8")).get("limits", {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        problem = f"expected a plugin declaration, got: {error}"
        raise SealError(Code.PLUGIN, str(path), problem, "see plugins/README.md") from error
    return limits if isinstance(limits, dict) else {}
