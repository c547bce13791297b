"""What files this process has open, for tests of what is left behind."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path

OWN = Path("/proc/self/fd")


def open_files() -> set[tuple[str, str]]:
    """Descriptors and what they are of; without those of unreachable objects, which may be other tests' and go at any time.

    Compare by `after <= before`: what others close meanwhile is no leak.
    """
    gc.collect()
    found = set()
    for path in OWN.iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists the others
            found.add((path.name, str(path.readlink())))
    return found
