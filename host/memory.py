"""How much memory this process may still take, so that a model that cannot fit is refused before the kernel kills us.

Rules
* Linux's own estimate (MemAvailable) and the limits of the control groups that the process is in (version 2), of
  which the smallest counts. What the kernel can drop, such as the page cache, counts as free.
* A value that cannot be read sets no limit: on other systems nothing is known, and nothing is refused.

Source: Linux kernel documentation, filesystems/proc and admin-guide/cgroup-v2.

Example:
    free = available_bytes()
    check_fits(4 << 30)     # or raises
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from .errors import UsageError

_REMEDY = "free some, or drain the host and start it with the other version"

_GROUP_LINE = "0::/"
"""Begins the one line of /proc/self/cgroup that names the group of version 2."""


def available_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that can still be taken; None where nobody says.

    Args:
        root: Where /proc and /sys are; for tests.
    """
    known = [_available(root), *_left_in_groups(root)]
    limits = [one for one in known if one is not None]
    return min(limits) if limits else None


def fits(needed: int) -> bool:
    """Whether so many bytes can still be taken, as far as anybody knows."""
    free = available_bytes()
    return free is None or needed <= free


def check_fits(needed: int, *, freed: int = 0, beside: str = "what is served", remedy: str = _REMEDY) -> None:
    """Refuses what cannot fit beside what is there: the kernel would end the whole process for it.

    Args:
        needed: Bytes.
        freed: Bytes that would be given back for it.
        beside: What is there.
        remedy: What to do.

    Raises:
        UsageError: fewer can be taken.
    """
    free = available_bytes()
    if free is not None and needed > free + freed:
        problem = f"expected {needed >> 20} MiB of memory beside {beside}, got {(free + freed) >> 20} MiB"
        raise UsageError("memory", problem, remedy)


def _available(root: Path) -> int | None:
    kib = _fields(root / "proc/meminfo").get("MemAvailable:")
    return kib * 1024 if kib is not None else None


def _left_in_groups(root: Path) -> list[int | None]:
    """What the limits of the process's group and of all above it leave."""
    lines = _text(root / "proc/self/cgroup").splitlines()
    named = next((line.removeprefix(_GROUP_LINE) for line in lines if line.startswith(_GROUP_LINE)), None)
    if named is None:
        return []
    place = PurePosixPath(named)
    return [_left(root / "sys/fs/cgroup" / one) for one in (place, *place.parents)]


def _left(group: Path) -> int | None:
    limit, used = _text(group / "memory.max").strip(), _text(group / "memory.current").strip()
    if not limit.isdecimal() or not used.isdecimal():  # "max", or no such file
        return None
    droppable = _fields(group / "memory.stat").get("inactive_file", 0)
    return max(0, int(limit) - int(used) + droppable)


def _fields(path: Path) -> dict[str, int]:
    """The lines of a file that begin with a name and a number."""
    words = [line.split() for line in _text(path).splitlines()]
    return {line[0]: int(line[1]) for line in words if len(line) >= 2 and line[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
