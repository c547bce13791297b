r"""What is shown to a person: text of models made harmless, notes on standard error, progress when someone looks.

Rules (clauses 6.3 and 6.4 of host/README.md)
* Of the control characters only newline and tab pass; the others, and marks that reorder text, are shown as escapes.

Example:
    show("a\x1b[2Jb")      # prints a\x1b[2Jb, and clears nothing
"""

from __future__ import annotations

import contextlib
import sys
import unicodedata

_STEERING = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that a terminal may act on: controls, lone surrogates, line and paragraph separators."""

_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
"""Format characters that change the order of what is shown; joiners, which scripts and emoji need, pass."""


def harmless(text: str) -> str:
    """The text with everything that could steer a terminal written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def show(text: str, *, end: str = "") -> None:
    """Prints text of a model to standard output at once."""
    sys.stdout.write(harmless(text) + end)
    sys.stdout.flush()


def note(text: str) -> None:
    """Prints a line to standard error, if anybody can hear it: a full log or a reader who left ends no work."""
    with contextlib.suppress(OSError):
        print(harmless(text), file=sys.stderr, flush=True)


def watched() -> bool:
    """Whether a person looks at standard error."""
    return sys.stderr.isatty()


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    if unicodedata.category(character) in _STEERING or character in _REORDERING:
        return character.encode("unicode_escape", "backslashreplace").decode()
    return character
