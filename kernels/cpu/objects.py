"""Object code of a step, as compiled, cached and linked."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Flow(NamedTuple):
    """The part that no instruction set changes: the symbol of `enter(context, thread)`, and objects."""

    symbol: str
    objects: tuple[bytes, ...]


class Part(Enum):
    """What is compiled, and kept, on its own; the value says what it is to a person."""

    FLOW = "the flow of a step"
    PRODUCTS = "the matrix products"
    ATTENTION = "attention"
    HASHING = "SHA-256"
