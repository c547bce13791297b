"""What a plugin's author declares in a TOML file beside the wasm (README clause 9.2).

`pack` copies it into the manifest, where the publisher's signature covers it.

Example (`standard/plugin.toml`):
    name = "standard"
    role = "sampler"
    abi = 1
    tier = "full"
    config_schema = '{"type": "object"}'

    [limits]
    memory_bytes = 2097152
    init_ms = 100
    step_ms = 20
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from .errors import Code, SealError
from .limits import MAX_PLUGIN_BYTES
from .manifest import Milliseconds, Name, PluginLimits, PluginRole
from .strict_json import parse_strict_json

if TYPE_CHECKING:
    from pathlib import Path

DECLARATION_SUFFIX: Final = ".toml"
MAX_DECLARATION_BYTES: Final = 64 << 10
"""Bytes of a declaration; a schema is the largest thing in it."""


class _Limits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """As in the manifest, but calls that the role does not have may be left out."""

    memory_bytes: int
    init_ms: Milliseconds
    load_ms: Milliseconds = 0
    step_ms: Milliseconds = 0
    encode_ms: Milliseconds = 0


class _Declaration(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: Name
    role: PluginRole
    abi: int
    limits: _Limits
    tier: str = ""
    config_schema: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class PluginSource:
    """A plugin that is about to be packed.

    Attributes:
        wasm: The module's bytes.
        config_schema: JSON schema of its configuration; None if it takes none.
    """

    wasm: bytes
    name: str
    role: PluginRole
    abi: int
    tier: str
    limits: PluginLimits
    config_schema: dict[str, Any] | None


def read_plugin(wasm: Path) -> PluginSource:
    """Reads a module and the declaration beside it (`x.wasm` and `x.toml`).

    Raises:
        SealError: E_IO, E_PLUGIN.
    """
    declaration_path = wasm.with_suffix(DECLARATION_SUFFIX)
    data = read_input(wasm, MAX_PLUGIN_BYTES)
    declared = _parse(read_input(declaration_path, MAX_DECLARATION_BYTES), str(declaration_path))
    return PluginSource(
        wasm=data,
        name=declared.name,
        role=declared.role,
        abi=declared.abi,
        tier=declared.tier,
        limits=PluginLimits(**msgspec.structs.asdict(declared.limits)),
        config_schema=_schema(declared.config_schema, str(declaration_path)),
    )


def _parse(data: bytes, where: str) -> _Declaration:
    try:
        table = tomllib.loads(data.decode("utf-8"))
        if stray := _stray(table):
            raise SealError(Code.PLUGIN, where, stray, "correct plugin.toml: plugins/README.md shows one whole")
        return msgspec.convert(table, _Declaration, strict=True)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        problem = f"expected a plugin declaration, got: {error}"
        raise SealError(Code.PLUGIN, where, problem, "correct it: plugins/README.md shows one whole") from error


def _stray(table: dict[str, Any]) -> str | None:
    """What to say of the first key that nobody asks for; None when there is none.

    A key that is written below `[limits]` belongs to that table, which is TOML's most frequent trap.
    """
    limits = table.get("limits", {})
    for keys, struct, what in ((table, _Declaration, ""), (limits, _Limits, " in [limits]")):
        known = struct.__struct_fields__
        for key in (key for key in keys if key not in known) if isinstance(keys, dict) else ():
            if key in _Declaration.__struct_fields__:
                return f"expected {key} above the line [limits], got it below"
            return f"expected fields{what} among {', '.join(known)}, got {key!r}"
    return None


def _schema(text: str | None, where: str) -> dict[str, Any] | None:
    if text is None:
        return None
    value = parse_strict_json(text.encode("utf-8", "surrogatepass"), f"{where} config_schema")
    if not isinstance(value, dict):
        problem = "expected config_schema to be a JSON object as text, got another value"
        raise SealError(Code.PLUGIN, where, problem, 'write it as an object, such as \'{"type": "object"}\'')
    return value


def read_input(path: Path, most: int) -> bytes:
    """The bytes of a file that a publisher names.

    Raises:
        SealError: E_IO, E_SIZE.
    """
    try:
        if not path.is_file():  # a FIFO or a device could keep us waiting
            raise SealError(Code.IO, str(path), "expected a file, got none of that name", "check the path")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SealError(Code.IO, str(path), f"cannot read: {reason}", "check the path and the rights") from error
    if len(data) > most:
        raise SealError(Code.SIZE, str(path), f"expected at most {most} bytes, got more", "give a smaller file")
    return data
