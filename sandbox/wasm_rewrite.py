"""Writes a parsed module back with additions: more exports, or another initial state (README §5).

* `with_global_exports` adds an export for each mutable global, so that the host can read them after `init` / `load`.
* `with_state` gives the module new initial memory and globals.

Sections that are not concerned are copied byte for byte; custom sections are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .wasm_binary import F32, F64, I32, I64, KIND_GLOBAL, MAGIC, VERSION, SectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .wasm_binary import Module

_PREFIX = "sealhost.global."
"""Names of the added exports; admission refuses guests that use it, see `reserved`."""


class State(NamedTuple):
    """What an instance has become: memory runs as (offset, bytes), mutable globals as index → little-endian bytes."""

    memory: Sequence[tuple[int, bytes]]
    globals: Mapping[int, bytes]


def global_export(index: int) -> str:
    """The name under which `with_global_exports` publishes global `index`."""
    return f"{_PREFIX}{index}"


def is_reserved(name: str) -> bool:
    """Whether a guest's own export would collide with an added one."""
    return name.startswith(_PREFIX)


def unsigned(value: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """Signed LEB128."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def with_global_exports(module: Module) -> bytes:
    """The module with every mutable global exported as `global_export(index)`."""
    added = [(global_export(i), KIND_GLOBAL, i) for i, g in enumerate(module.globals) if g.mutable]
    exports = [(name, e.kind, e.index) for name, e in module.exports.items()]
    return _write(module, {SectionId.EXPORT: _export_section(exports + added)})


def with_state(module: Module, state: State, exports: Iterable[str]) -> bytes:
    """The module started from `state`, exporting `exports` alone.

    Args:
        module: The original.
        state: Memory and globals of an instance after `init` / `load`.
        exports: Functions (and the memory) that instances are asked for.
    """
    kept = [(name, module.exports[name].kind, module.exports[name].index) for name in exports]
    segments = [_passive_twin(module, i) for i in range(len(module.segments))]
    segments += [b"\x00\x41" + signed(_as_i32(at)) + b"\x0b" + unsigned(len(run)) + run for at, run in state.memory]
    replaced = {
        SectionId.EXPORT: _export_section(kept),
        SectionId.GLOBAL: _global_section(module, state.globals),
        SectionId.DATA_COUNT: unsigned(len(segments)),
        SectionId.DATA: _vector(segments),
    }
    return _write(module, replaced)


def _passive_twin(module: Module, index: int) -> bytes:
    """Clause 5.1: an active segment becomes an empty passive one, a passive one stays."""
    segment = module.segments[index]
    return module.data[segment.start : segment.stop] if segment.offset is None else b"\x01\x00"


def _as_i32(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _export_section(exports: Sequence[tuple[str, int, int]]) -> bytes:
    return _vector([_name(name) + bytes((kind,)) + unsigned(index) for name, kind, index in exports])


def _global_section(module: Module, values: Mapping[int, bytes]) -> bytes:
    entries = []
    for index, declared in enumerate(module.globals):
        entry = module.data[declared.start : declared.stop]
        if index in values:
            entry = entry[:2] + _constant(declared.type, values[index]) + b"\x0b"
        entries.append(entry)
    return _vector(entries)


def _constant(kind: int, raw: bytes) -> bytes:
    if kind == I32:
        return b"\x41" + signed(int.from_bytes(raw, "little", signed=True))
    if kind == I64:
        return b"\x42" + signed(int.from_bytes(raw, "little", signed=True))
    return (b"\x43" if kind == F32 else b"\x44") + raw


NUMBER_LAYOUTS = {I32: "<i", I64: "<q", F32: "<f", F64: "<d"}
"""`struct` formats of the types that a global may have."""


def _name(text: str) -> bytes:
    raw = text.encode()
    return unsigned(len(raw)) + raw


def _vector(items: Sequence[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


_WRITE_ORDER = (
    SectionId.TYPE,
    SectionId.FUNCTION,
    SectionId.TABLE,
    SectionId.MEMORY,
    SectionId.GLOBAL,
    SectionId.EXPORT,
    SectionId.ELEMENT,
    SectionId.DATA_COUNT,
    SectionId.CODE,
    SectionId.DATA,
)


def _write(module: Module, replaced: Mapping[SectionId, bytes]) -> bytes:
    original = {s.id: module.data[s.start : s.stop] for s in module.sections}
    out = [MAGIC, VERSION]
    for section in _WRITE_ORDER:
        payload = replaced.get(section, original.get(section))
        if payload is not None and payload != b"\x00":  # an empty vector needs no section
            out += [bytes((section,)), unsigned(len(payload)), payload]
    return b"".join(out)
