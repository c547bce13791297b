"""Decides whether a plugin's module may go on to the compiler (README §1, 1.1 to 1.12 and 1.14).

    module = admit(plugin, limits, allowed)

Only bytes are looked at here; clauses 1.12 (validation) and 1.13 are finished by the child process, 1.15 and 1.16 by
the proxies that start the first instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import abi
from .errors import AdmissionError
from .limits import WASM_PAGE
from .wasm_binary import KIND_FUNCTION, KIND_MEMORY, parse
from .wasm_reader import MalformedError
from .wasm_rewrite import is_reserved

if TYPE_CHECKING:
    from .limits import Limits, OperatorLimits
    from .plugin import Plugin
    from .wasm_binary import FunctionType, Module

REMEDIES = {
    "1.1": "ship the binary module that the compiler wrote",
    "1.2": "build the module again",
    "1.3": "link with no imports: -nostdlib, no libc calls, no host functions",
    "1.4": "link with --no-entry and do the work in init or load",
    "1.5": "link with --initial-memory equal to --max-memory and export it as `memory`",
    "1.6": "use fewer function pointers, or ask the operator for more table_elements",
    "1.7": "keep state in memory",
    "1.8": "build for the core features of README clause 1.12",
    "1.9": "export the functions of sealhost.h with SEALHOST_EXPORT",
    "1.10": "split the function",
    "1.11": "build the module again",
    "1.12": "build for the core features of README clause 1.12",
    "1.13": "make the module smaller, or build it with optimisation",
    "1.14": "build for this version of sealhost",
    "1.15": "run the plugin's own tests",
    "1.16": "use a tokenizer made for this kind of vocabulary",
}
"""What a plugin's author can do about each clause."""


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
        _manifest(plugin)
        module = parse(plugin.wasm)
        _memory(module, limits)
        _tables(module, allowed)
        _exports(module, plugin.role)
        _data(module)
    except MalformedError as error:
        raise refusal(plugin.name, error.clause, error.problem) from None
    return module


def _manifest(plugin: Plugin) -> None:
    if plugin.role not in abi.EXPORTS:
        raise MalformedError(f"expected role tokenizer or sampler, got {plugin.role!r}", "1.14")
    if plugin.abi != abi.ABI_MAJOR:
        raise MalformedError(f"expected ABI {abi.ABI_MAJOR}, got {plugin.abi}", "1.14")
    if plugin.tier not in abi.TIERS[plugin.role]:
        raise MalformedError(
            f"expected a {plugin.role} of tier {max(abi.TIERS[plugin.role])!r}, got {plugin.tier!r}", "1.14"
        )


def _memory(module: Module, limits: Limits) -> None:
    if not module.memories:
        raise MalformedError("expected one memory, got none", "1.5")
    minimum, maximum = module.memories[0]
    if minimum != maximum:
        shown = "none" if maximum is None else maximum
        raise MalformedError(f"expected a memory of fixed size, got minimum {minimum} and maximum {shown} pages", "1.5")
    if minimum == 0:
        raise MalformedError("expected a memory of at least one page, got none", "1.5")
    if minimum * WASM_PAGE > limits.memory_bytes:
        raise MalformedError(
            f"expected at most {limits.memory_bytes} bytes of memory, got {minimum * WASM_PAGE}", "1.5"
        )
    export = module.exports.get(abi.MEMORY)
    if export is None or export.kind != KIND_MEMORY or export.index != 0:
        raise MalformedError("expected memory 0 exported as `memory`, got no such export", "1.5")


def _tables(module: Module, allowed: OperatorLimits) -> None:
    elements = sum(table.minimum for table in module.tables)
    if elements > allowed.table_elements:
        raise MalformedError(f"expected at most {allowed.table_elements} table elements, got {elements}", "1.6")


def _exports(module: Module, role: str) -> None:
    for name, expected in abi.EXPORTS[role].items():
        export = module.exports.get(name)
        if export is None or export.kind != KIND_FUNCTION:
            raise MalformedError(f"expected an exported function {name!r}, got none", "1.9")
        found = module.signature(export)
        if found != expected:
            raise MalformedError(f"expected {name!r} of type {_show(expected)}, got {_show(found)}", "1.9")
    for name in module.exports:
        if is_reserved(name):
            raise MalformedError(f"expected no export under sealhost's own prefix, got {name!r}", "1.9")


def _show(signature: FunctionType | None) -> str:
    if signature is None:
        return "no function"
    names = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64", 0x7B: "v128", 0x70: "funcref"}
    params, results = (", ".join(names[t] for t in types) for types in signature)
    return f"({params}) -> ({results})"


def _data(module: Module) -> None:
    size = module.memories[0].minimum * WASM_PAGE
    for index, segment in enumerate(module.segments):
        if segment.offset is not None and segment.offset + segment.length > size:
            end = segment.offset + segment.length
            raise MalformedError(
                f"expected data segment {index} inside {size} bytes, got one that ends at {end}", "1.11"
            )
