"""Files of keys that nobody else may read: API keys, the admin key.

Rules (clause 6.11 of host/README.md)
* A file is its user's own with no rights for group and others, as ssh wants it; or root's, and then its group may read
  it, too, for that is how a service that is not root gets one.
* What another user owns is refused: its owner could write a key of their own into it.
* On a file system that is mounted read-only no mode counts: there a container finds its secrets (Docker and Kubernetes
  hand them out with 0444 and 0644, and no chmod can change that), and who may look into the container is decided
  elsewhere. What others could read there is said aloud.
* A pipe has no readers but those that hold it: `--api-key-file <(pass show keys)`.

Example:
    with path.open("rb") as file:
        check_private(path, file.fileno())
"""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING, Final

from ...signing.errors import Code
from ..errors import HostError
from .terminal import note

if TYPE_CHECKING:
    from pathlib import Path

_ROOT: Final = 0
_OTHERS: Final = stat.S_IRWXO
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ALL_BUT_READING: Final = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO


def check_private(path: Path, descriptor: int) -> None:
    """Accepts by returning that an open file is for nobody else.

    Raises:
        HostError: E_PERM, another user owns it, or others may read or write it.
    """
    facts, we = os.fstat(descriptor), os.geteuid()
    if not stat.S_ISREG(facts.st_mode):
        return
    mode = stat.S_IMODE(facts.st_mode)
    if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
        if mode & _OTHERS:
            note(f"{path} can be read by others here; its mount is read-only, so it is taken for a container's secret")
        return
    if (found := objection(path, mode, owner=facts.st_uid, we=we)) is not None:
        raise found


def objection(path: Path, mode: int, *, owner: int, we: int) -> HostError | None:
    """What speaks against a file on a mount that can be written: owner and mode as user ids and permission bits."""
    if owner not in {we, _ROOT}:
        problem = f"expected a file of your own (user {we}) or of root, got one of user {owner}"
        return HostError(Code.PERM, str(path), problem, f"run: chown {we} {_quoted(path)} && {_chmod(path, 600)}")
    is_ours = owner == we
    if mode & (_GROUP_AND_OTHERS if is_ours else _ALL_BUT_READING):
        wanted = 600 if is_ours else 640
        problem = f"expected mode 0{wanted} or less, got {mode:04o}: others have rights to it"
        return HostError(Code.PERM, str(path), problem, f"run: {_chmod(path, wanted)}")
    return None


def _chmod(path: Path, mode: int) -> str:
    return f"chmod {mode} {_quoted(path)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
