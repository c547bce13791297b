"""Decides whether a plugin's module may go on to the compiler (README §1, 1.1 to 1.12 and 1.14).

    module = admit(plugin, limits, allowed)

Only bytes are looked at here; clauses 1.12 (validation) and 1.13 are finished by the child process, 1.15 and 1.16 by
the proxies that start the first instance. `admit` raises at the first fault; `report.py` tells about all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..signing.manifest import MAX_TOPK
from . import abi
from .config_schema import ConfigSchema, SchemaError
from .errors import AdmissionError
from .limits import WASM_PAGE
from .tier import is_known
from .wasm_binary import KIND_FUNCTION, KIND_MEMORY, parse
from .wasm_reader import MalformedError
from .wasm_rewrite import is_reserved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .limits import Limits, OperatorLimits
    from .plugin import Plugin
    from .wasm_binary import FunctionType, Module

REMEDIES = {
    "1.1": "ship the binary module that the compiler wrote",
    "1.2": "build the module again",
    "1.3": "link with no imports: -nostdlib, no libc calls, no host functions",
    "1.4": "link with --no-entry and do the work in init or load",
    "1.5": "export a memory of fixed size as `memory`: --initial-memory, --max-memory and limits.memory_bytes alike",
    "1.6": "use fewer function pointers, or ask the operator for more table_elements",
    "1.7": "keep state in memory",
    "1.8": "build for the core features of README clause 1.12",
    "1.9": "export the functions of its role (plugins/README.md, clause 1.3), or declare another role",
    "1.10": "split the function",
    "1.11": "build the module again",
    "1.12": "build for the core features of README clause 1.12",
    "1.13": "make the module smaller, or build it with optimisation",
    "1.14": "correct the plugin's plugin.toml, see plugins/README.md, or build it for this version of sealhost",
    "1.15": "mend it, or what its plugin.toml declares: plugins/README.md, 'When it does not work'",
    "1.16": "use a tokenizer made for this kind of vocabulary",
}
"""What a plugin's author can do about each clause."""


MAX_NAMES_SHOWN = 3
"""Exports that a refusal names: enough for a slip of the pen."""

MAX_NAME_SHOWN = 40
"""Characters of each."""


def refusal(plugin: str, clause: str, problem: str) -> AdmissionError:
    """The refusal of clause `clause`, with its remedy."""
    return AdmissionError(plugin, clause, problem, REMEDIES[clause])


def admit(plugin: Plugin, limits: Limits, allowed: OperatorLimits) -> Module:
    """Checks a plugin's bytes.

    Args:
        plugin: Whose `wasm` is checked against its `role`, `abi` and `tier`.
        limits: Effective limits of this plugin.
        allowed: The operator's limits.

    Raises:
        AdmissionError: Naming the clause.
    """
    try:
        for fault in manifest_faults(plugin):
            raise fault
        module = parse(plugin.wasm)
        for fault in module_faults(module, plugin.role, limits, allowed):
            raise fault
    except MalformedError as error:
        raise refusal(plugin.name, error.clause, error.problem) from None
    return module


def manifest_faults(plugin: Plugin) -> Iterator[MalformedError]:
    """What is wrong with a plugin's manifest entry: clause 1.14."""
    if plugin.role not in abi.EXPORTS:
        yield MalformedError(f"expected role tokenizer or sampler, got {plugin.role!r}", "1.14")
        return
    if plugin.abi != abi.ABI_MAJOR:
        yield MalformedError(f"expected ABI {abi.ABI_MAJOR}, got {plugin.abi}", "1.14")
    if plugin.role == "tokenizer" and plugin.tier:
        yield MalformedError(f"expected no tier on a tokenizer, got {plugin.tier!r}", "1.14")
    if plugin.role == "sampler" and not is_known(plugin.tier):
        problem = f"expected tier 'full', 'mask' or 'topk:K' with K of 1 to {MAX_TOPK}, got {plugin.tier!r}"
        yield MalformedError(problem, "1.14")
    if plugin.config_schema is not None:
        yield from _schema_faults(plugin.config_schema, plugin.role)


def _schema_faults(schema: Mapping[str, Any], role: str) -> Iterator[MalformedError]:
    """Clause 9.1."""
    if role != "sampler":
        yield MalformedError(f"expected no config_schema on a {role}, got one", "1.14")
    else:
        try:
            ConfigSchema(schema)
        except SchemaError as error:
            yield MalformedError(str(error), "1.14")


def module_faults(module: Module, role: str, limits: Limits, allowed: OperatorLimits) -> Iterator[MalformedError]:
    """What is wrong with a module that could be parsed: clauses 1.5, 1.6, 1.9 and 1.11, in this order."""
    yield from _memory(module, limits)
    yield from _tables(module, allowed)
    yield from _exports(module, role)
    yield from _data(module)


def _memory(module: Module, limits: Limits) -> Iterator[MalformedError]:
    if not module.memories:
        yield MalformedError("expected one memory, got none", "1.5")
        return
    minimum, maximum = module.memories[0]
    if minimum != maximum:
        shown = "none" if maximum is None else maximum
        yield MalformedError(f"expected a memory of fixed size, got minimum {minimum} and maximum {shown} pages", "1.5")
    if minimum == 0:
        yield MalformedError("expected a memory of at least one page, got none", "1.5")
    if minimum * WASM_PAGE > limits.memory_bytes:
        problem = f"expected at most {limits.memory_bytes} bytes of memory, got {minimum * WASM_PAGE}"
        yield MalformedError(problem, "1.5")
    export = module.exports.get(abi.MEMORY)
    if export is None or export.kind != KIND_MEMORY or export.index != 0:
        yield MalformedError("expected memory 0 exported as `memory`, got no such export", "1.5")


def _tables(module: Module, allowed: OperatorLimits) -> Iterator[MalformedError]:
    elements = sum(table.minimum for table in module.tables)
    if elements > allowed.table_elements:
        yield MalformedError(f"expected at most {allowed.table_elements} table elements, got {elements}", "1.6")


def _exports(module: Module, role: str) -> Iterator[MalformedError]:
    optional = {name: kind for name, kind in abi.OPTIONAL_EXPORTS[role].items() if name in module.exports}
    for name, expected in (abi.EXPORTS[role] | optional).items():
        export = module.exports.get(name)
        if export is None or export.kind != KIND_FUNCTION:
            yield MalformedError(f"expected an exported function {name!r}, got {_others(module, role)}", "1.9")
            continue
        found = module.signature(export)
        if found != expected:
            yield MalformedError(f"expected {name!r} of type {_show(expected)}, got {_show(found)}", "1.9")
    for name in module.exports:
        if is_reserved(name):
            yield MalformedError(f"expected no export under sealhost's own prefix, got {name!r}", "1.9")


def _others(module: Module, role: str) -> str:
    """Exported functions that no role has, for one of them may be the missing one under a wrong name."""
    known = {*abi.EXPORTS[role], *abi.OPTIONAL_EXPORTS[role]}
    found = [n for n, export in module.exports.items() if export.kind == KIND_FUNCTION and n not in known]
    told = ", ".join(repr(name[:MAX_NAME_SHOWN]) for name in found[:MAX_NAMES_SHOWN])
    return f"none, but {told}" if told else "none"


def _show(signature: FunctionType | None) -> str:
    if signature is None:
        return "no function"
    names = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64", 0x7B: "v128", 0x70: "funcref"}
    params, results = (", ".join(names[t] for t in types) for types in signature)
    return f"({params}) -> ({results})"


def _data(module: Module) -> Iterator[MalformedError]:
    size = module.memories[0].minimum * WASM_PAGE if module.memories else 0
    for index, segment in enumerate(module.segments):
        if segment.offset is not None and segment.offset + segment.length > size:
            end = segment.offset + segment.length
            problem = f"expected data segment {index} inside {size} bytes, got one that ends at {end}"
            yield MalformedError(problem, "1.11")
