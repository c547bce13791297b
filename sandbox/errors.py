"""Refusals of the sandbox.

SealhostError
└── SandboxError            misuse, or a sandbox that cannot serve
    ├── AdmissionError      a module that is not let in; names the clause of README §1
    └── GuestError          a call that its guest failed or that was refused for it; names plugin and kind
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..signing.errors import Code, SealhostError

GuestErrorKind: TypeAlias = Literal["trap", "timeout", "invalid", "config", "error", "empty", "quarantined", "busy"]


class SandboxError(SealhostError):
    """The base of what this folder raises.

    Args:
        where: Plugin or part that is at fault; may be empty.
        problem: "expected X, got Y", lower case.
        remedy: What to do about it.
        code: Stable code; misuse by default.
    """

    def __init__(self, where: str, problem: str, remedy: str, code: Code = Code.USAGE) -> None:
        super().__init__(code, where, problem, remedy)


class AdmissionError(SandboxError):
    """A plugin that is not let in.

    Args:
        plugin: Name of the plugin.
        clause: Number of the clause in README §1, e.g. "1.5".
        problem: "expected X, got Y".
        remedy: What the plugin's author can do.
    """

    def __init__(self, plugin: str, clause: str, problem: str, remedy: str) -> None:
        self.plugin = plugin
        self.clause = clause
        super().__init__(f"plugin {plugin}", f"clause {clause}: {problem}", remedy, Code.PLUGIN)


class GuestError(SandboxError):
    """A call that failed because of its guest; the request is lost, nothing else.

    Args:
        plugin: Name of the plugin.
        kind: "trap", "timeout", "invalid", "config", "error" or "empty"; "quarantined" or "busy": it was not called.
        problem: What happened.
        remedy: What to do about it.

    Attributes:
        reason: `problem` as it was given, not escaped.
    """

    def __init__(
        self, plugin: str, kind: GuestErrorKind, problem: str, remedy: str = "report it to the plugin's author"
    ) -> None:
        self.plugin = plugin
        self.kind = kind
        self.reason = problem
        super().__init__(f"plugin {plugin}", f"{kind}: {problem}", remedy, Code.PLUGIN)
