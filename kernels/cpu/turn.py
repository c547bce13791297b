"""Lets one process at a time compile into a cache folder; the others wait for it and take what it made.

Rules
* The lock is the system's (flock) on a file beside the compiled code, so it ends with the process that has it.
* Nobody waits for ever: after PATIENCE_S, or where the folder allows no lock, each compiles for itself as before.

Example:
    with turn(folder / f"{key}.lock", tell):
        compile what is still missing
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S = 180.0
"""Several times what a compilation takes on a busy machine: who has the lock so long was stopped, or hangs."""
_POLL_S = 0.05


@contextmanager
def turn(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """While no other process that asked for this file has its turn.

    Args:
        path: The file; made if it is not there, and left.
        tell: Told once, in words, whom it waits for, and again when it gives that up.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:  # a folder that cannot be written to: nothing will be kept there either
        yield
        return
    try:
        if _wait(descriptor, tell):
            with suppress(OSError):  # a full disk: the others then cannot say whom they wait for
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing alone would leave it to a child that was forked meanwhile
        os.close(descriptor)


def _wait(descriptor: int, tell: Callable[[str], None]) -> bool:
    """Whether the lock is had: not where the file system has none, nor after PATIENCE_S."""
    deadline, told = time.monotonic() + PATIENCE_S, False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError:
            return False
        else:
            return True
        if not told:
            tell(f"waiting for {_owner(descriptor)} that compiles these kernels")
            told = True
        if time.monotonic() >= deadline:
            tell("compiling them here: the other process did not come to an end")
            return False
        time.sleep(_POLL_S)


def _owner(descriptor: int) -> str:
    """Who has the lock, as far as it has said so."""
    number = os.pread(descriptor, 20, 0)
    return f"process {number.decode()}" if number.isdigit() else "another process"
