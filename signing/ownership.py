"""Who else may write what decides about trust (README clause 5.4), after OpenSSH's StrictModes for authorized_keys.

* A keys folder, its files and the folders above it belong to root or to us, and nobody else may write them.
* The group that a user shares with nobody (same name, no other members, nobody else's own group) counts as the user:
  with umask 002 it writes.
* On a file system that is mounted read-only owner and group are not asked: there a container finds its keys, as those
  left them who set it up, and whoever mounted it vouches for them. What everybody may write is refused there, too.

Example:
    with source.folder("") as descriptor:
        check_folder(keys_dir, descriptor)
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from .errors import Code, SealError

_ROOT: Final = 0


class Standing(NamedTuple):
    """Of a file or folder.

    Attributes:
        mode: Its mode.
        owner: User id.
        group: Group id.
        read_only: Whether it lies on a mount that cannot be written.
    """

    mode: int
    owner: int
    group: int
    read_only: bool

    @classmethod
    def of(cls, place: int | Path) -> Standing:
        """Of an open descriptor or a path.

        Raises:
            OSError: it cannot be looked at.
        """
        status = os.stat(place)  # noqa: PTH116 — may be a descriptor
        read_only = bool(os.statvfs(place).f_flag & os.ST_RDONLY)
        return cls(status.st_mode, status.st_uid, status.st_gid, read_only)


def check_folder(folder: Path, descriptor: int) -> None:
    """Accepts by returning that nobody else may write a folder, or put another one into its place.

    Args:
        folder: Its path.
        descriptor: The open folder.

    Raises:
        SealError: E_PERM, E_IO.
    """
    check(str(folder), descriptor)
    path = Path(os.path.realpath(folder))
    for above in path.parents:
        standing = _standing(above)
        if standing.mode & stat.S_ISVTX:  # as /tmp: what lies there is renamed by its owner alone
            standing = standing._replace(mode=standing.mode & ~(stat.S_IWGRP | stat.S_IWOTH))
        if (found := objection(str(above), standing, we=os.geteuid())) is not None:
            home = _home()
            if home is not None and home in path.parents and above in home.parents:
                return  # whoever keeps the homes of users is trusted with this one
            raise found


def check(where: str, descriptor: int) -> None:
    """Accepts by returning that nobody else may write an open file or folder.

    Raises:
        SealError: E_PERM.
    """
    if (found := objection(where, _standing(descriptor), we=os.geteuid())) is not None:
        raise found


def _standing(place: int | Path) -> Standing:
    try:
        return Standing.of(place)
    except OSError as error:
        problem = f"cannot look at it: {error.strerror}"
        raise SealError(Code.IO, str(place), problem, "check the rights on the folders above the keys") from error


def objection(where: str, standing: Standing, *, we: int) -> SealError | None:
    """What speaks against a file or folder, with `we` as the user id that we have."""
    mode = stat.S_IMODE(standing.mode)
    if standing.mode & stat.S_IWOTH:
        problem = f"expected a mode that others cannot write, got {mode:04o}"
        return SealError(Code.PERM, where, problem, "run: chmod o-w on it, and check that the keys are still yours")
    if standing.read_only:
        return None
    if standing.owner not in {_ROOT, we}:
        problem = f"expected root or user {we}, who uses these keys, as its owner, got user {standing.owner}"
        return SealError(Code.PERM, where, problem, "change its owner with chown, or mount it read-only")
    if standing.mode & stat.S_IWGRP and not _is_private_group(standing.group, we):
        problem = f"expected a mode that the group cannot write, got {mode:04o}"
        return SealError(Code.PERM, where, problem, "run: chmod g-w on it, and check that the keys are still yours")
    return None


def _is_private_group(group: int, user: int) -> bool:
    """Whether a group is that of one user, who needs no rights to the keys to be believed."""
    import grp  # noqa: PLC0415 — hardly anybody needs these
    import pwd  # noqa: PLC0415

    try:
        person, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:  # a container's user that nobody entered
        return False
    if (person.pw_gid, person.pw_name) != (group, found.gr_name) or not set(found.gr_mem) <= {person.pw_name}:
        return False
    # a group does not list those whose own it is
    return all(other.pw_uid == user for other in pwd.getpwall() if other.pw_gid == group)


def _home() -> Path | None:
    """Our user's home folder, by the system's word: HOME may be anybody's."""
    import pwd  # noqa: PLC0415 — see above

    try:
        return Path(os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir))
    except KeyError:
        return None
