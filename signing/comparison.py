"""Compares what the manifest lists with what is on disk (README clauses 3.6 to 3.8); pure functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from .errors import Code, IntegrityError
from .limits import CHUNK_BYTES, MAX_SIGNATURES
from .names import FOREIGN_SIGNATURE, MANIFEST, SIGNATURE, SIGNATURES
from .paths import parents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .manifest import Manifest
    from .source import Found

SIGNATURE_PATH: Final = re.compile(r"signatures/[0-9a-f]{64}\.sig")
_UNLISTED_FILES: Final = frozenset({MANIFEST, SIGNATURE, FOREIGN_SIGNATURE})
_HEX_SHOWN: Final = 16
"""Hex digits of a digest in a message: enough to tell two apart."""


class Change(NamedTuple):
    """One file whose bytes are not the signed ones."""

    path: str
    expected: str
    got: str


def file_change(path: str, expected: str, found: str, *, what: str = "sha256") -> Change:
    """A file with another digest (hex)."""
    return Change(path, f"{what} {expected[:_HEX_SHOWN]}…", f"{found[:_HEX_SHOWN]}…")


def chunk_change(path: str, index: int, expected: bytes, found: bytes) -> Change:
    """A chunk with another digest (raw)."""
    place = f"for chunk {index} (bytes from {index * CHUNK_BYTES})"
    return Change(path, f"sha256 {expected.hex()[:_HEX_SHOWN]}… {place}", f"{found.hex()[:_HEX_SHOWN]}…")


def changed(changes: Sequence[Change]) -> IntegrityError:
    """The refusal of files whose bytes are not the signed ones."""
    first = changes[0]
    paths = tuple(change.path for change in changes)
    return IntegrityError(Code.DIGEST, first.path, f"expected {first.expected}, got {first.got}", changed=paths)


def folders_of(manifest: Manifest) -> frozenset[str]:
    """Folders that a bundle may have: those above a listed file, and `signatures`."""
    return frozenset(parent for entry in manifest.files for parent in parents(entry.path)) | {SIGNATURES}


def compare(manifest: Manifest, found: Mapping[str, Found]) -> None:
    """Refuses a directory that does not hold exactly the listed files.

    Args:
        manifest: A checked manifest.
        found: Everything in the bundle's folders.

    Raises:
        IntegrityError: E_FILETYPE, E_UNLISTED, E_MISSING or E_SIZE, in this order; it names all differences.
    """
    sizes = {entry.path: entry.size for entry in manifest.files}
    signatures = [path for path in found if SIGNATURE_PATH.fullmatch(path)][:MAX_SIGNATURES]
    files = {*sizes, *signatures, *_UNLISTED_FILES}
    folders = {path for path in folders_of(manifest) if path != SIGNATURES or signatures}
    wrong_type = {
        path: flaw
        for path, entry in found.items()
        if (flaw := _type_flaw(entry, is_file=path in files, is_folder=path in folders))
    }
    extra = tuple(sorted(path for path in found if path not in files and path not in folders))
    missing = tuple(path for path in sizes if path not in found)
    wrong_size = {path: found[path].size for path, size in sizes.items() if path in found and found[path].size != size}
    changed = tuple(sorted({*wrong_type, *wrong_size} - {*extra}))
    if wrong_type:
        code, (where, flaw) = Code.FILETYPE, min(wrong_type.items())
        problem = f"expected a regular file with one link, got {flaw}"
    elif extra:
        code, where, problem = Code.UNLISTED, extra[0], "expected only listed files, got one that nothing lists"
    elif missing:
        code, where, problem = Code.MISSING, missing[0], f"expected a file of {sizes[missing[0]]} bytes, got nothing"
    elif wrong_size:
        code, (where, size) = Code.SIZE, min(wrong_size.items())
        problem = f"expected {sizes[where]} bytes, got {size}"
    else:
        return
    raise IntegrityError(code, where, problem, changed=changed, missing=missing, extra=extra)


def _type_flaw(entry: Found, *, is_file: bool, is_folder: bool) -> str | None:
    """What is wrong with the type of what stands at a path that is a file's, a folder's or nobody's."""
    if entry.kind == "symlink":
        return "a symbolic link"
    if entry.kind == "other":
        return "a special file"
    if entry.kind == "folder":
        return "a folder" if is_file else None
    if is_folder:
        return "a file where a folder belongs"
    return f"a file with {entry.links} links" if is_file and entry.links != 1 else None
