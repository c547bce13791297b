"""What stands behind a model's name, what can be gone back to, and what a swap or a rollback has done there.

Place(current=opened)       # nothing to go back to yet
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ..signing import VerifiedBundle
    from .app import Opened


class Earlier(NamedTuple):
    """A bundle that was served before: enough to open it again and to know that it is the same."""

    root: Path
    version: int
    digest: str


@dataclass(frozen=True, slots=True)
class Place:
    """What stands behind one name; replaced as a whole.

    Attributes:
        current: What new requests get.
        previous: What rollback goes back to at once; None when it is not loaded.
        earlier: Where what rollback goes back to came from; None before the first swap.
    """

    current: Opened
    previous: Opened | None = None
    earlier: Earlier | None = None


class Change(NamedTuple):
    """What an operation has done.

    Attributes:
        name: The model.
        changed: False when it was served already.
        old: What was served before; the model itself may be freed by now.
        new: The one that is served now.
        still_running: Requests that go on with the one before.
    """

    name: str
    changed: bool
    old: VerifiedBundle
    new: Opened
    still_running: int


def bytes_held(opened: Opened) -> int:
    """Most that freeing a model can give back: of its KV pool, only what was ever used is taken from the machine."""
    return sum(opened.report.memory_bytes.values())


def check_is_a_way_back(bundle: VerifiedBundle, current: Opened, expected: Earlier | None) -> None:
    """Accepts by returning that a bundle may be gone back to.

    Args:
        bundle: What was found.
        current: What is served.
        expected: What was served before; None: any older version is meant.

    Raises:
        UsageError: it is another one, or no older one.
    """
    if expected is not None and bundle.digest != expected.digest:
        problem = f"expected sha256 {expected.digest[:16]}, which was served before, got {bundle.digest[:16]}"
        raise UsageError(str(bundle.root), problem, "name the directory to go back to")
    if bundle.digest == current.bundle.digest or (
        expected is None and bundle.manifest.version >= current.bundle.manifest.version
    ):
        problem = f"expected a version below {current.bundle.manifest.version}, got {bundle.manifest.version}"
        raise UsageError(str(bundle.root), problem, "sealhost swap takes what is newer")
