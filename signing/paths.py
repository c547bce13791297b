"""Rules for paths that a manifest lists (README clauses 3.1 to 3.5); pure functions on text.

A path that passes is safe to open component by component below the bundle's directory, looks on a terminal
like what it is, and means one file on every file system.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from .errors import Code, SealError
from .limits import MAX_COMPONENT_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH
from .names import FOREIGN_SIGNATURE, MANIFEST, SIGNATURE, SIGNATURES

if TYPE_CHECKING:
    from collections.abc import Iterable

_RESERVED = frozenset({MANIFEST, SIGNATURE, SIGNATURES, FOREIGN_SIGNATURE})
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_REMEDY = "the publisher must pack the bundle again with plain relative paths"


def _refuse(path: str, problem: str) -> SealError:
    return SealError(Code.PATH, path, problem, _REMEDY)


def check_path(path: str) -> None:
    """Refuses a path that breaks clause 3.2 or 3.3.

    Raises:
        SealError: E_PATH.
    """
    if len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise _refuse(path, f"expected a path of at most {MAX_PATH_BYTES} bytes, got a longer one")
    for character in path:
        if character == "\\" or unicodedata.category(character) in _FORBIDDEN_CATEGORIES:
            raise _refuse(path, f"expected no control characters and no backslash, got U+{ord(character):04X}")
    components = path.split("/")
    if len(components) > MAX_PATH_DEPTH:
        raise _refuse(path, f"expected at most {MAX_PATH_DEPTH} components, got {len(components)}")
    for component in components:
        if component in {"", ".", ".."}:
            raise _refuse(path, f"expected a relative path of plain components, got the component {component!r}")
        if len(component.encode()) > MAX_COMPONENT_BYTES:
            raise _refuse(path, f"expected components of at most {MAX_COMPONENT_BYTES} bytes, got a longer one")
    if fold(components[0]) in _RESERVED:
        raise _refuse(path, "expected a listed file's path, got a name that the format keeps for itself")


def fold(text: str) -> str:
    """The form under which two paths count as the same: NFKC of the case-folded NFKC."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def check_distinct(paths: Iterable[str]) -> None:
    """Refuses paths that some file system would take for one another (clauses 3.4 and 3.5).

    Raises:
        SealError: E_PATH.
    """
    spelling: dict[str, str] = {}
    files: set[str] = set()
    for path in paths:
        components = path.split("/")
        for end in range(1, len(components) + 1):
            prefix = "/".join(components[:end])
            if spelling.setdefault(fold(prefix), prefix) != prefix:
                raise _refuse(path, f"expected paths that differ by more than case, got also {spelling[fold(prefix)]}")
        if path in files:
            raise _refuse(path, "expected each path once, got it twice")
        files.add(path)
    for path in files:
        if folder := next((parent for parent in parents(path) if parent in files), None):
            raise _refuse(path, f"expected {folder} to be a file or a folder, got both")


def parents(path: str) -> list[str]:
    """Folders above a path, outermost first: `a/b/c` gives `a`, `a/b`."""
    components = path.split("/")
    return ["/".join(components[:end]) for end in range(1, len(components))]
