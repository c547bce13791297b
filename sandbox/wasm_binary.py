"""A WebAssembly module as admission and snapshot see it: sections, types, declarations; never instructions.

* `parse` is bounded: no loop runs longer than the module has bytes, no count is believed before the bytes are there.
* What is not understood is refused, with the clause of README §1.
* Function bodies are measured, not decoded: the validator does that, in the child process (clause 2.1).

    module = parse(wasm)
    module.exports["memory"]  # Export(kind=2, index=0)

Source: WebAssembly core specification 2.0, chapter 5 (binary format).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from .wasm_reader import MalformedError, Reader

MAGIC = b"\x00asm"
VERSION = b"\x01\x00\x00\x00"

MAX_MODULE_BYTES = 8 << 20
"""A tokenizer in C takes 50 KiB, one in Rust with Unicode tables 500 KiB."""
MAX_SECTIONS = 64
"""12 known ones and some custom ones."""
MAX_TYPES = 4_096
MAX_FUNCTIONS = 20_000
MAX_TABLES = 4
MAX_GLOBALS = 1_024
MAX_EXPORTS = 1_024
MAX_ELEMENT_SEGMENTS = 1_024
MAX_ELEMENTS = 100_000
MAX_DATA_SEGMENTS = 10_000
MAX_BODY_BYTES = 512 << 10
"""Cranelift needs more than linear time for one huge function."""
MAX_LOCALS = 10_000
MAX_SIGNATURE = 64
"""Parameters or results of one function."""

I32, I64, F32, F64, V128, FUNCREF, EXTERNREF = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B, 0x70, 0x6F
NUMBERS = frozenset((I32, I64, F32, F64))
VALUES = NUMBERS | {V128, FUNCREF}


class SectionId(IntEnum):
    """Numbers of the sections."""

    CUSTOM = 0
    TYPE = 1
    IMPORT = 2
    FUNCTION = 3
    TABLE = 4
    MEMORY = 5
    GLOBAL = 6
    EXPORT = 7
    START = 8
    ELEMENT = 9
    CODE = 10
    DATA = 11
    DATA_COUNT = 12


_ORDER = {
    s: i
    for i, s in enumerate(
        (
            SectionId.TYPE,
            SectionId.IMPORT,
            SectionId.FUNCTION,
            SectionId.TABLE,
            SectionId.MEMORY,
            SectionId.GLOBAL,
            SectionId.EXPORT,
            SectionId.START,
            SectionId.ELEMENT,
            SectionId.DATA_COUNT,
            SectionId.CODE,
            SectionId.DATA,
        )
    )
}

KIND_FUNCTION, KIND_TABLE, KIND_MEMORY, KIND_GLOBAL = 0, 1, 2, 3


class Section(NamedTuple):
    """A section's number and the bytes of its payload: `data[start:stop]`."""

    id: SectionId
    start: int
    stop: int


class SectionFault(NamedTuple):
    """What is wrong inside a section."""

    section: SectionId
    error: MalformedError


class FunctionType(NamedTuple):
    """Value types of parameters and results, one byte each."""

    params: bytes
    results: bytes


class Limits(NamedTuple):
    """Minimum and maximum, in pages or elements."""

    minimum: int
    maximum: int | None


class Global(NamedTuple):
    """A global: its type byte, whether it is mutable, and its whole entry as `data[start:stop]`."""

    type: int
    mutable: bool
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Export:
    """What a name stands for."""

    kind: int
    index: int


class DataSegment(NamedTuple):
    """A data segment; `offset` is None for a passive one. Its whole entry is `data[start:stop]`."""

    offset: int | None
    length: int
    start: int
    stop: int


@dataclass(slots=True)
class Module:
    """A parsed module. Index spaces have no imports in them, because admission refuses those."""

    data: bytes
    sections: list[Section] = field(default_factory=list)
    types: list[FunctionType] = field(default_factory=list)
    imports: int = 0
    functions: list[int] = field(default_factory=list)
    tables: list[Limits] = field(default_factory=list)
    memories: list[Limits] = field(default_factory=list)
    globals: list[Global] = field(default_factory=list)
    exports: dict[str, Export] = field(default_factory=dict)
    bodies: int = 0
    data_count: int | None = None
    segments: list[DataSegment] = field(default_factory=list)

    def signature(self, export: Export) -> FunctionType | None:
        """The type of an exported function; None when the index leads nowhere."""
        if export.index >= len(self.functions) or self.functions[export.index] >= len(self.types):
            return None
        return self.types[self.functions[export.index]]


def parse(data: bytes, faults: list[SectionFault] | None = None) -> Module:
    """Parses a module.

    Args:
        data: The module's bytes.
        faults: Where given, what is wrong inside a section is put there, and the next section is read. The module then
            lacks what those sections say: it is good for a report, never for a compiler.

    Raises:
        MalformedError: When it is not a module of the kind that README §1 describes.
    """
    if len(data) > MAX_MODULE_BYTES:
        raise MalformedError(f"expected at most {MAX_MODULE_BYTES} bytes, got {len(data)}", "1.1")
    if data[:4] != MAGIC:
        raise MalformedError(f"expected the magic {MAGIC!r} of binary WebAssembly, got {data[:4]!r}", "1.1")
    if data[4:8] != VERSION:
        raise MalformedError(f"expected version 1, got {data[4:8].hex()}", "1.1")
    module = Module(data)
    reader = Reader(data, 8)
    last = -1
    while not reader.at_end:
        if len(module.sections) == MAX_SECTIONS:
            raise MalformedError(f"expected at most {MAX_SECTIONS} sections, got more")
        last = _section(module, reader, last, faults)
    if not faults:
        _check_counts(module)
    return module


def _check_counts(module: Module) -> None:
    if len(module.functions) != module.bodies:
        raise MalformedError(f"expected {len(module.functions)} function bodies, got {module.bodies}")
    if module.data_count is not None and module.data_count != len(module.segments):
        raise MalformedError(f"expected {module.data_count} data segments, got {len(module.segments)}")


def _section(module: Module, reader: Reader, last: int, faults: list[SectionFault] | None) -> int:
    number = reader.byte()
    body = reader.sub(reader.unsigned())
    if number == SectionId.CUSTOM:
        body.name()  # the rest is anybody's
        module.sections.append(Section(SectionId.CUSTOM, body.position, body.end))
        return last
    if number not in _PARSERS:
        problem = "got an exception tag section" if number == _TAG_SECTION else f"got section {number}"
        raise MalformedError(f"expected a known section, {problem}", "1.12")
    section = SectionId(number)
    if _ORDER[section] <= last:
        raise MalformedError(f"expected sections in order and once each, got another {section.name.lower()} section")
    module.sections.append(Section(section, body.position, body.end))
    try:
        _PARSERS[section](module, body)
        body.finish(f"the {section.name.lower()} section")
    except MalformedError as error:
        if faults is None:
            raise
        faults.append(SectionFault(section, error))
    return _ORDER[section]


def _value_type(reader: Reader) -> int:
    value = reader.byte()
    if value not in VALUES:
        problem = f"expected a number, v128 or funcref at offset {reader.position - 1}, got type 0x{value:02x}"
        raise MalformedError(problem, "1.8")
    return value


def _types(module: Module, reader: Reader) -> None:
    for _ in range(reader.count(MAX_TYPES, "types", "1.8")):
        form = reader.byte()
        if form != 0x60:
            raise MalformedError(f"expected a function type at offset {reader.position - 1}, got 0x{form:02x}", "1.8")
        params = bytes(_value_type(reader) for _ in range(reader.count(MAX_SIGNATURE, "parameters", "1.8")))
        results = bytes(_value_type(reader) for _ in range(reader.count(MAX_SIGNATURE, "results", "1.8")))
        module.types.append(FunctionType(params, results))


def _imports(module: Module, reader: Reader) -> None:
    module.imports = reader.unsigned()
    if module.imports:  # clause 1.3: what they are does not matter
        raise MalformedError(f"expected no imports, got {module.imports}", "1.3")


def _functions(module: Module, reader: Reader) -> None:
    for _ in range(reader.count(MAX_FUNCTIONS, "functions", "1.10")):
        index = reader.unsigned()
        if index >= len(module.types):
            raise MalformedError(f"expected a type below {len(module.types)}, got {index}")
        module.functions.append(index)


def _limits(reader: Reader, clause: str, what: str) -> Limits:
    flags = reader.byte()
    for bit, name in ((2, "shared"), (4, "64-bit"), (8, "custom page sizes")):
        if flags & bit:
            raise MalformedError(f"expected a plain 32-bit {what}, got {name}", clause)
    if flags > 1:
        raise MalformedError(f"expected limits flags 0 or 1, got {flags}", clause)
    minimum = reader.unsigned()
    return Limits(minimum, reader.unsigned() if flags else None)


def _tables(module: Module, reader: Reader) -> None:
    for _ in range(reader.count(MAX_TABLES, "tables", "1.6")):
        kind = reader.byte()
        if kind != FUNCREF:
            raise MalformedError(f"expected a table of funcref, got 0x{kind:02x}", "1.6")
        module.tables.append(_limits(reader, "1.6", "table"))


def _memories(module: Module, reader: Reader) -> None:
    for _ in range(reader.count(1, "memory", "1.5")):
        module.memories.append(_limits(reader, "1.5", "memory"))


def _globals(module: Module, reader: Reader) -> None:
    for _ in range(reader.count(MAX_GLOBALS, "globals", "1.7")):
        start = reader.position
        kind, mutable = reader.byte(), reader.byte()
        if kind not in NUMBERS:
            raise MalformedError(f"expected a global that is a number, got type 0x{kind:02x}", "1.7")
        if mutable > 1:
            raise MalformedError(f"expected mutability 0 or 1, got {mutable}", "1.7")
        if _constant(reader, "1.7").type != kind:
            raise MalformedError("expected an initial value of the global's own type, got another", "1.7")
        module.globals.append(Global(kind, bool(mutable), start, reader.position))


class _Constant(NamedTuple):
    type: int
    value: int | None


def _constant(reader: Reader, clause: str) -> _Constant:
    """One constant instruction and `end`. LLVM writes nothing else without imports."""
    opcode = reader.byte()
    if opcode == 0x41:
        constant = _Constant(I32, reader.signed(32))
    elif opcode == 0x42:
        constant = _Constant(I64, reader.signed(64))
    elif opcode == 0x43:
        reader.skip(4)
        constant = _Constant(F32, None)
    elif opcode == 0x44:
        reader.skip(8)
        constant = _Constant(F64, None)
    else:
        raise MalformedError(f"expected a constant of a number, got opcode 0x{opcode:02x}", clause)
    if reader.byte() != 0x0B:
        raise MalformedError("expected `end` after one constant, got another instruction", clause)
    return constant


def _exports(module: Module, reader: Reader) -> None:
    for _ in range(reader.count(MAX_EXPORTS, "exports", "1.9")):
        name = reader.name()
        export = Export(reader.byte(), reader.unsigned())
        if export.kind > KIND_GLOBAL:
            raise MalformedError(f"expected an export of kind 0..3, got {export.kind}", "1.9")
        if name in module.exports:
            raise MalformedError(f"expected each name once, got {name!r} twice", "1.9")
        module.exports[name] = export


def _start(_module: Module, reader: Reader) -> None:
    raise MalformedError(f"expected no start function, got function {reader.unsigned()}", "1.4")


def _elements(_module: Module, reader: Reader) -> None:
    for _ in range(reader.count(MAX_ELEMENT_SEGMENTS, "element segments", "1.11")):
        flags = reader.unsigned()
        if flags > 3:  # 4..7 hold expressions, which LLVM does not write
            raise MalformedError(f"expected an element segment of function indices, got flags {flags}", "1.11")
        if flags == 2:
            reader.count(MAX_TABLES - 1, "as a table's index", "1.11")
        if flags in (0, 2):
            _offset(reader)
        if flags and reader.byte() != 0:
            raise MalformedError("expected an element segment of functions, got another kind", "1.11")
        for _ in range(reader.count(MAX_ELEMENTS, "elements in a segment", "1.11")):
            reader.unsigned()


def _offset(reader: Reader) -> int:
    constant = _constant(reader, "1.11")
    if constant.type != I32 or constant.value is None:
        raise MalformedError("expected an i32 constant as a segment's offset, got another type", "1.11")
    return constant.value & 0xFFFFFFFF


def _code(module: Module, reader: Reader) -> None:
    module.bodies = reader.count(MAX_FUNCTIONS, "function bodies", "1.10")
    for _ in range(module.bodies):
        length = reader.unsigned()
        if length > MAX_BODY_BYTES:
            raise MalformedError(f"expected at most {MAX_BODY_BYTES} bytes in a function, got {length}", "1.10")
        body = reader.sub(length)
        left = MAX_LOCALS
        for _ in range(body.count(MAX_LOCALS, "groups of locals", "1.10")):
            left -= body.count(left, f"more locals (of {MAX_LOCALS})", "1.10")
            _value_type(body)


def _data_count(module: Module, reader: Reader) -> None:
    module.data_count = reader.count(MAX_DATA_SEGMENTS, "data segments", "1.11")


def _data(module: Module, reader: Reader) -> None:
    for _ in range(reader.count(MAX_DATA_SEGMENTS, "data segments", "1.11")):
        start = reader.position
        flags = reader.unsigned()
        if flags > 1:  # 2 names a memory, and there is but one
            raise MalformedError(f"expected a data segment of memory 0, got flags {flags}", "1.11")
        offset = None if flags else _offset(reader)
        length = reader.unsigned()
        reader.skip(length)
        module.segments.append(DataSegment(offset, length, start, reader.position))


_TAG_SECTION = 13
_PARSERS = {
    SectionId.TYPE: _types,
    SectionId.IMPORT: _imports,
    SectionId.FUNCTION: _functions,
    SectionId.TABLE: _tables,
    SectionId.MEMORY: _memories,
    SectionId.GLOBAL: _globals,
    SectionId.EXPORT: _exports,
    SectionId.START: _start,
    SectionId.ELEMENT: _elements,
    SectionId.DATA_COUNT: _data_count,
    SectionId.CODE: _code,
    SectionId.DATA: _data,
}
