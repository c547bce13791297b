"""Says clause by clause how a module fares in admission (README §1), for the people who write plugins.

    for finding in admission_report(sandbox, plugin, vocabulary):
        print(finding.clause, finding.verdict, finding.problems)

* Nothing is let in here: `admission.admit` decides, and raises at the first fault.
* A clause that rests on something that could not be read is `unchecked`, never `ok`.
* Like admission, it hands nothing to the compiler that the clauses before it refuse.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from . import abi
from .admission import REMEDIES, manifest_faults, module_faults
from .errors import AdmissionError
from .limits import Limits
from .wasm_binary import SectionId, parse
from .wasm_reader import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .host import Sandbox
    from .plugin import Plugin
    from .vocabulary import Vocabulary
    from .wasm_binary import Module, SectionFault

REPORTED_VOCABULARY = 1
"""Logits of the model that a sampler is loaded for here: what any sampler has room for."""

TITLES = {
    "1.1": "binary WebAssembly 1, at most 8 MiB",
    "1.2": "well-formed sections, in order",
    "1.3": "no imports",
    "1.4": "no start function",
    "1.5": "one fixed memory within its limit, exported",
    "1.6": "few and small tables of functions",
    "1.7": "globals are plain numbers",
    "1.8": "types are plain functions",
    "1.9": "exports the functions of its role",
    "1.10": "functions within their bounds",
    "1.11": "data and elements inside the memory",
    "1.12": "core features only; validates",
    "1.13": "compiles within its limits",
    "1.14": "a role and an ABI of this host",
    "1.15": "starts, and publishes a layout that holds",
    "1.16": "spells the vocabulary as the host does",
}
"""The clauses of README §1 in a few words."""

_RESTS_ON = {
    "1.3": {SectionId.IMPORT},
    "1.4": {SectionId.START},
    "1.5": {SectionId.IMPORT, SectionId.MEMORY, SectionId.EXPORT},
    "1.6": {SectionId.IMPORT, SectionId.TABLE},
    "1.7": {SectionId.IMPORT, SectionId.GLOBAL},
    "1.8": {SectionId.TYPE, SectionId.CODE},
    "1.9": {SectionId.TYPE, SectionId.IMPORT, SectionId.FUNCTION, SectionId.EXPORT},
    "1.10": {SectionId.FUNCTION, SectionId.CODE},
    "1.11": {SectionId.IMPORT, SectionId.MEMORY, SectionId.ELEMENT, SectionId.DATA_COUNT, SectionId.DATA},
}
"""Sections that decide about a clause: imports shift the numbers of everything else."""

_BY_RUNNING = ("1.12", "1.13", "1.14", "1.15", "1.16")
"""Clauses that loading decides, in the order in which it meets them."""


_CHECKED_BEFORE = {"1.14": "its manifest entry is in order; which ABI the module itself answers with"}
"""What is known of a clause without running anything, and what is not."""


class Verdict(StrEnum):
    """What is known of a clause."""

    OK = "ok"
    REFUSED = "refused"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Finding:
    """How a module fares under one clause.

    Attributes:
        clause: Its number in README §1.
        title: The clause in a few words.
        verdict: What is known.
        problems: "expected X, got Y" of each fault; or what stood in the way of checking.
        remedy: What the author can do; empty unless refused.
    """

    clause: str
    title: str
    verdict: Verdict
    problems: tuple[str, ...] = ()
    remedy: str = ""


def admission_report(sandbox: Sandbox, plugin: Plugin, vocabulary: Vocabulary) -> tuple[Finding, ...]:
    """Every clause, in order; 1.16 for tokenizers alone.

    Args:
        sandbox: Compiles the module and starts it, once its bytes are in order.
        plugin: What is looked at; nobody needs to have verified it.
        vocabulary: What a tokenizer, or a sampler that asks for it, is loaded with.
    """
    findings = {finding.clause: finding for finding in _of_bytes(sandbox, plugin)}
    if all(finding.verdict is Verdict.OK for finding in findings.values()):
        findings |= {finding.clause: finding for finding in _of_running(sandbox, plugin, vocabulary)}
    refused = [clause for clause in TITLES if clause in findings and findings[clause].verdict is Verdict.REFUSED]
    for clause in _BY_RUNNING:
        obstacle = f"clause{'s' * (len(refused) > 1)} {', '.join(refused)}"
        findings.setdefault(clause, _unchecked(clause, obstacle, _CHECKED_BEFORE.get(clause)))
    if plugin.role == "sampler":
        del findings["1.16"]
    return tuple(findings[clause] for clause in TITLES if clause in findings)


def _of_bytes(sandbox: Sandbox, plugin: Plugin) -> list[Finding]:
    """What the bytes and the manifest entry tell: clauses 1.1 to 1.11, and 1.12 or 1.14 where they already fail."""
    faults = list(manifest_faults(plugin))
    in_sections: list[SectionFault] = []
    obstacles: dict[str, str] = {}
    try:
        module = parse(plugin.wasm, in_sections)
    except MalformedError as error:
        faults.append(error)
        obstacles = dict.fromkeys(TITLES, f"clause {error.clause}")  # nobody knows where the sections lie
        if error.clause != "1.1":
            del obstacles["1.1"]
    else:
        obstacles = _obstacles({fault.section for fault in in_sections}, plugin.role)
        faults += _of_module(sandbox, plugin, module, obstacles)
    faults += [fault.error for fault in in_sections]
    return _sorted(faults, obstacles)


def _obstacles(broken: set[SectionId], role: str) -> dict[str, str]:
    """What keeps a clause from being checked, by clause."""
    found = {
        clause: " and ".join(f"the {section.name.lower()} section" for section in sorted(sections & broken))
        for clause, sections in _RESTS_ON.items()
        if sections & broken
    }
    return found if role in abi.EXPORTS else {"1.9": "clause 1.14", **found}


def _of_module(sandbox: Sandbox, plugin: Plugin, module: Module, obstacles: Mapping[str, str]) -> list[MalformedError]:
    limits = Limits.effective(plugin.limits, sandbox.limits)
    role = plugin.role if plugin.role in abi.EXPORTS else "sampler"
    found = module_faults(module, role, limits, sandbox.limits)
    return [fault for fault in found if fault.clause not in obstacles]


def _sorted(faults: list[MalformedError], obstacles: Mapping[str, str]) -> list[Finding]:
    problems: dict[str, list[str]] = {}
    for fault in faults:
        problems.setdefault(fault.clause, []).append(fault.problem)
    findings = [_refused(clause, found) for clause, found in problems.items()]
    for clause in TITLES:
        if clause in problems or clause in _BY_RUNNING:
            continue
        obstacle = obstacles.get(clause)
        findings.append(_ok(clause) if obstacle is None else _unchecked(clause, obstacle))
    return findings


def _of_running(sandbox: Sandbox, plugin: Plugin, vocabulary: Vocabulary) -> Iterable[Finding]:
    """What compiling and starting tell."""
    try:
        if plugin.role == "sampler":
            sandbox.load_sampler(plugin, REPORTED_VOCABULARY, vocabulary)
        else:
            sandbox.load_tokenizer(plugin, vocabulary)
    except AdmissionError as error:
        if error.clause not in _BY_RUNNING:  # a fault of the host's own
            raise
        said = error.problem.removeprefix(f"clause {error.clause}: ")
        passed = _BY_RUNNING.index(error.clause)
        yield _refused(error.clause, [said])
    else:
        passed = len(_BY_RUNNING)
    for clause in _BY_RUNNING[:passed]:
        yield _ok(clause)


def _ok(clause: str) -> Finding:
    return Finding(clause, TITLES[clause], Verdict.OK)


def _refused(clause: str, problems: Iterable[str]) -> Finding:
    return Finding(clause, TITLES[clause], Verdict.REFUSED, tuple(problems), REMEDIES[clause])


def _unchecked(clause: str, obstacle: str, what: str | None = None) -> Finding:
    problem = f"{what} could not be checked: see {obstacle}" if what else f"could not be checked: see {obstacle}"
    return Finding(clause, TITLES[clause], Verdict.UNCHECKED, (problem,))
