"""What whoever hashes asks of the system.

`sealhost verify` forks before it imports anything else: importing keeps one core busy while the others could hash
(README clause 7.3). So this file, and those that run before the fork (`ahead`, `apart`, `limits`, `names`), import at
their top only what costs next to nothing; a test holds them to it. `typing` alone takes as long as hashing 10 MB.
"""

from __future__ import annotations

import mmap
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

POPULATED: Final = getattr(mmap, "MAP_POPULATE", 0)
"""Of a map: that all its pages are there at once, where the system can do that."""

_MAX_WORKERS: Final = 32
"""Threads at most: beyond it memory bandwidth is used up."""


def worker_count(chunks: int) -> int:
    """Threads or processes for that many chunks: the cores this process may use."""
    return max(1, min(len(os.sched_getaffinity(0)), chunks, _MAX_WORKERS))
