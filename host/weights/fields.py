"""Typed access to a model file's metadata; every refusal names the key.

Example:
    layers = integer(file, "llama.block_count", low=1, high=512)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..errors import WeightsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .gguf import GgufFile, Value
    from .gguf_types import ValueType

T = TypeVar("T")

_UNSUPPORTED = "use a model that fits, or convert this one again"


def integer(file: GgufFile, key: str, *, low: int, high: int, default: int | None = None) -> int:
    """The integer under `key`, from `low` to `high`."""
    value = _required(file, key, default, "an integer")
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size and (value == value.flat[0]).all():
        value = int(value.flat[0])  # some converters write one number a layer
    if isinstance(value, bool) or not isinstance(value, int):
        raise WeightsError(key, f"expected one integer, got {describe(file, key)}", _UNSUPPORTED)
    if not low <= value <= high:
        raise WeightsError(key, f"expected {low} to {high}, got {value}", _UNSUPPORTED)
    return value


def number(file: GgufFile, key: str, *, above: float, most: float, default: float | None = None) -> float:
    """The finite number under `key`, greater than `above` and at most `most`."""
    value = _required(file, key, default, "a number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WeightsError(key, f"expected one number, got {describe(file, key)}", _UNSUPPORTED)
    if not (math.isfinite(value) and above < value <= most):
        raise WeightsError(key, f"expected more than {above:g} and at most {most:g}, got {value:g}", _UNSUPPORTED)
    return float(value)


def boolean(file: GgufFile, key: str, *, default: bool) -> bool:
    """The boolean under `key`."""
    return _typed(file, key, default, "a boolean", lambda value: value if isinstance(value, bool) else None)


def text(file: GgufFile, key: str, default: str | None = None) -> str:
    """The string under `key`."""
    return _typed(file, key, default, "a string", lambda value: value if isinstance(value, str) else None)


def strings(file: GgufFile, key: str, default: tuple[bytes, ...] | None = None) -> tuple[bytes, ...]:
    """The array of strings under `key`, as the file spells them."""
    return _typed(file, key, default, "an array of strings", lambda value: value if isinstance(value, tuple) else None)


def numbers(file: GgufFile, key: str, kinds: tuple[ValueType, ...], length: int) -> NDArray[np.generic] | None:
    """The array under `key`, of one of these element types and of this length; None when the key is absent."""
    value = file.metadata.get(key)
    if value is None:
        return None
    wanted = " or ".join(kind.name for kind in kinds)
    if not isinstance(value, np.ndarray) or file.kinds[key] not in kinds:
        raise WeightsError(key, f"expected an array of {wanted}, got {describe(file, key)}")
    if len(value) != length:
        raise WeightsError(key, f"expected {length} entries, one for each token, got {len(value)}")
    return value


def describe(file: GgufFile, key: str) -> str:
    """The type of the value under `key`, in words."""
    value, kind = file.metadata[key], file.kinds[key].name
    return f"an array of {len(value)} {kind}" if isinstance(value, tuple | np.ndarray) else f"a {kind}"


def _typed(file: GgufFile, key: str, default: T | None, wanted: str, take: Callable[[Value | T], T | None]) -> T:
    taken = take(_required(file, key, default, wanted))
    if taken is None:
        raise WeightsError(key, f"expected {wanted}, got {describe(file, key)}")
    return taken


def _required(file: GgufFile, key: str, default: T | None, wanted: str) -> Value | T:
    value = file.metadata.get(key, default)
    if value is None:
        raise WeightsError(key, f"expected {wanted}, the key is missing")
    return value
