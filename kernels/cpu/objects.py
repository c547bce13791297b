"""Object code of a step, as compiled, cached and linked."""

from __future__ import annotations

from typing import NamedTuple


class Flow(NamedTuple):
    """The part that no instruction set changes: the symbol of `enter(context, thread)`, and objects."""

    symbol: str
    objects: tuple[bytes, ...]
