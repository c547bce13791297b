"""Every refusal of sealhost, as one exception with a stable code and an exit code.

SealhostError
├── SealError        signing: who signed, what was signed, when   (codes: see Code)
│   └── IntegrityError   the files are not those that were signed: which changed, are missing, are extra
└── (sandbox.errors, host.errors derive theirs from SealhostError)

A refusal names the file, what was expected, what was found and what to do:

    E_DIGEST model.gguf: expected sha256 3f1a… for chunk 7, got 90bc…; fetch the bundle again
"""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    TAMPERED = 1
    USAGE = 2
    IO = 3
    POLICY = 4
    INTERNAL = 5


class Code(StrEnum):
    """Stable codes of refusals."""

    # who
    SIG = "E_SIG"
    NOSIG = "E_NOSIG"
    UNTRUSTED = "E_UNTRUSTED"
    THRESHOLD = "E_THRESHOLD"
    REVOKED = "E_REVOKED"
    EXPIRED = "E_EXPIRED"
    CLOCK = "E_CLOCK"
    KEY = "E_KEY"
    PERM = "E_PERM"
    # what
    PARSE = "E_PARSE"
    MANIFEST = "E_MANIFEST"
    PATH = "E_PATH"
    UNLISTED = "E_UNLISTED"
    MISSING = "E_MISSING"
    FILETYPE = "E_FILETYPE"
    SIZE = "E_SIZE"
    DIGEST = "E_DIGEST"
    # when
    ROLLBACK = "E_ROLLBACK"
    EQUIVOCATION = "E_EQUIVOCATION"
    STATE = "E_STATE"
    # content
    PLUGIN = "E_PLUGIN"
    TEMPLATE = "E_TEMPLATE"
    GGUF = "E_GGUF"
    # circumstances
    IO = "E_IO"
    USAGE = "E_USAGE"
    INTERNAL = "E_INTERNAL"


_POLICY = frozenset(
    {
        Code.UNTRUSTED,
        Code.THRESHOLD,
        Code.REVOKED,
        Code.EXPIRED,
        Code.CLOCK,
        Code.KEY,
        Code.PERM,
        Code.ROLLBACK,
        Code.EQUIVOCATION,
        Code.STATE,
    }
)
_OTHER = {Code.IO: ExitCode.IO, Code.USAGE: ExitCode.USAGE, Code.INTERNAL: ExitCode.INTERNAL}

MAX_SHOWN_CHARACTERS = 200
"""Longest piece of a third party's text that a message repeats."""


_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters, marks and symbols that show nothing; the separators and format characters that do so are not printable."""


def escape_for_terminal(text: str) -> str:
    """Replaces every character that could steer a terminal, or shows nothing, by its escape; shortens what is long."""
    shown = text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"
    return "".join(c if _is_plain(c) else c.encode("unicode_escape", "backslashreplace").decode() for c in shown)


def _is_plain(character: str) -> bool:
    return character.isprintable() and not _INVISIBLE.match(character)


class SealhostError(Exception):
    """A refusal that a person can act on; its text is one line.

    Args:
        code: Stable code, also what decides the exit code.
        where: File or part that is at fault; may be empty.
        problem: "expected X, got Y", lower case.
        remedy: What to do about it.
    """

    def __init__(self, code: Code, where: str, problem: str, remedy: str) -> None:
        self.code = code
        self.where = escape_for_terminal(where)
        self.problem = escape_for_terminal(problem)
        self.remedy = remedy
        self._bundle: str | None = None
        super().__init__(self._line())

    def of_bundle(self, directory: str) -> None:
        """Says of which bundle it speaks, where there are several; the first to say so knows best.

        Args:
            directory: The bundle's, as the operator named it.
        """
        if self._bundle is not None:
            return
        self._bundle = escape_for_terminal(directory)
        if not self.where.startswith(self._bundle):
            self.where = self._bundle + (f": {self.where}" if self.where not in {"", "bundle"} else "")
            self.args = (self._line(),)

    def _line(self) -> str:
        place = f" {self.where}:" if self.where else ":"
        return f"{self.code}{place} {self.problem}; {self.remedy}"

    @property
    def exit_code(self) -> ExitCode:
        """The documented exit code of a command that ends with this refusal."""
        if self.code in _POLICY:
            return ExitCode.POLICY
        return _OTHER.get(self.code, ExitCode.TAMPERED)


class SealError(SealhostError):
    """A bundle, key or signature that is not accepted."""


MAX_NAMED_FILES = 3
"""Files of each kind that a message names; the exception holds all of them."""
MAX_NAMED_CHARACTERS = 40
"""Characters of a file's name in such a list, so that three lists fit on a line."""


class IntegrityError(SealError):
    """The files on disk are not the files that were signed.

    Args:
        code: What is at fault with the first of them.
        where: The first of them.
        problem: "expected X, got Y" about the first of them.
        changed: Listed files whose bytes, size or type differ.
        missing: Listed files that are not there.
        extra: Paths that nothing lists.
    """

    def __init__(
        self,
        code: Code,
        where: str,
        problem: str,
        *,
        changed: tuple[str, ...] = (),
        missing: tuple[str, ...] = (),
        extra: tuple[str, ...] = (),
    ) -> None:
        self.changed, self.missing, self.extra = changed, missing, extra
        lists = {"changed": changed, "missing": missing, "extra": extra}
        named = "; ".join(f"{kind}: {_name_some(paths)}" for kind, paths in lists.items() if paths)
        super().__init__(code, where, problem, f"{named}; fetch the bundle again, do not repair it by hand")


def _name_some(paths: tuple[str, ...]) -> str:
    """The count and the first names, safe for a terminal."""
    names = [
        escape_for_terminal(path if len(path) <= MAX_NAMED_CHARACTERS else path[:MAX_NAMED_CHARACTERS] + "…")
        for path in paths[:MAX_NAMED_FILES]
    ]
    more = ", …" if len(paths) > MAX_NAMED_FILES else ""
    return f"{len(paths)} ({', '.join(names)}{more})"
