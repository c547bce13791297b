"""Hands weights that were begun to the verb that takes them, past the framework that calls it.

Example:
    with handed_over(begun):
        ...  # much later
        with take_begun() as ahead:
            verify(root, trust, reading="ahead", ahead=ahead)
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ...signing.ahead import HashedAhead

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGUN: ContextVar[HashedAhead | None] = ContextVar("begun", default=None)


@contextlib.contextmanager
def handed_over(begun: HashedAhead | None) -> Iterator[None]:
    """Lets one verb that is called in the block take what was begun."""
    token = _BEGUN.set(begun)
    try:
        yield
    finally:
        _BEGUN.reset(token)


def take_begun() -> HashedAhead:
    """What was begun, once, to be closed; from then on, or if there is nothing, one that has nothing."""
    begun = _BEGUN.get()
    _BEGUN.set(None)
    return begun or HashedAhead(None)
