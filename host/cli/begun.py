"""Weights that are read and hashed while the rest of the command line's program is still being imported.

Importing keeps one core busy for half a second; another can hash half a gigabyte meanwhile. Which bundle a verb will
load is guessed from its words, since what reads them is imported, too: a wrong guess costs that core's time, no more
(signing/README.md, 7.3).

Example:
    with begun_weights(["run", "smollm2", "Hello"]):
        ...  # much later
        with take_begun() as ahead:
            verify(root, trust, reading="ahead", ahead=ahead)
"""

from __future__ import annotations

import contextlib
import os
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...signing.ahead import HashedAhead
from ...signing.paths import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_VERBS: Final = frozenset({"run", "chat", "bench"})
"""Those that load one bundle and answer on the terminal."""

_BEGUN: ContextVar[HashedAhead | None] = ContextVar("begun", default=None)
"""The way from the command line's first words to the verb, past the framework that calls it."""


@contextlib.contextmanager
def begun_weights(arguments: Sequence[str]) -> Iterator[None]:
    """Begins to read what a command line seems to name; ends that with the block, if nobody took it."""
    root = _guess(arguments)
    if root is None:
        yield
        return
    with HashedAhead(root, keep=True) as ahead:
        token = _BEGUN.set(ahead)
        try:
            yield
        finally:
            _BEGUN.reset(token)


@contextlib.contextmanager
def take_begun() -> Iterator[HashedAhead | None]:
    """What was begun, if anything, for one bundle; what is not used of it by the end of the block is dropped."""
    with contextlib.ExitStack() as stack:
        ahead = _BEGUN.get()
        if ahead is not None:
            _BEGUN.set(None)
            stack.callback(ahead.close)
        yield ahead


def _guess(arguments: Sequence[str]) -> Path | None:
    """The bundle that a verb will load ahead: the first word after it that names a folder with weights."""
    if not arguments or arguments[0] not in _VERBS or "--lazy" in arguments or "SEALHOST_LAZY" in os.environ:
        return None
    return next((Path(word) for word in arguments[1:] if os.path.isfile(os.path.join(word, WEIGHTS))), None)  # noqa: PTH113, PTH118 — a prompt may be no path at all
