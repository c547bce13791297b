"""Where bundles may be swapped in from (clause 7.3 of host/README.md).

Rules
* A directory is named by an absolute path without "..", and lies in an allowed folder, links of its parents followed.
* The directory itself is not examined here: the verifier does that, and follows no link.

Example:
    folders = AllowedFolders([Path("/srv/models")])
    folders.check(Path("/srv/models/smollm2-v2"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class AllowedFolders:
    """Folders whose subdirectories, at any depth, may be opened as bundles.

    Args:
        folders: Their paths; relative ones are relative to the working directory of now.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self.folders = tuple(sorted({folder.absolute().resolve() for folder in folders}))

    @classmethod
    def beside(cls, bundles: Iterable[Path], further: Iterable[Path] = ()) -> AllowedFolders:
        """The folders in which these bundles lie, and further ones."""
        return cls([*(bundle.absolute().parent for bundle in bundles), *further])

    def check(self, root: Path) -> None:
        """Accepts by returning that a directory may be opened.

        Raises:
            UsageError: its path is not absolute, or leads out of the folders.
        """
        if not root.is_absolute() or ".." in root.parts or "\0" in str(root):
            raise UsageError(str(root), "expected an absolute path without ..", "name the directory in full")
        try:
            parent = root.parent.resolve()
        except (OSError, RuntimeError) as error:  # a name that is too long, or a circle of links
            raise UsageError(str(root), f"expected a path that can be followed: {error}", "check it") from None
        if not any(parent == folder or folder in parent.parents for folder in self.folders):
            problem = f"expected a directory under {' or '.join(map(str, self.folders))}"
            raise UsageError(str(root), problem, "move it there, or start serve with --swap-from")
