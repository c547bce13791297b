"""Bytes of a request body become plain Python values, or are refused with a message for the client.

Rules
* Nesting deeper than MAX_DEPTH is refused before parsing, so the limit is ours and the same on every Python; so are
  more than MAX_PARTS arrays, objects and members, which take the parser, on the event loop, seconds and a gigabyte.
* A byte order mark, which some editors and shells put in front, is passed over, as RFC 8259 allows.
* What JSON does not have is refused: NaN, Infinity, lone surrogates, invalid UTF-8, trailing characters.

Example:
    body = parse_object(b'{"model": "smollm2"}')
"""

from __future__ import annotations

import codecs
import re
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from ..errors import RequestError

MAX_DEPTH = 64
"""Nested arrays and objects; a chat request needs six, and every parser we use survives ten times as many."""

MAX_PARTS = 1 << 16
"""Arrays, objects and members of objects together: 4,096 messages in parts have half as many."""

_BLOCK = 1 << 20
"""Bytes that are looked at together, so that looking takes little memory."""

_QUOTE, _BACKSLASH = b'"\\'
_STEPS: Final = {b"[": 1, b"{": 1, b"]": -1, b"}": -1, b":": 0}
_IS_MARK = np.zeros(256, np.bool_)
_IS_MARK[list(b'"\\[]{}:')] = True
_DEEPER = np.zeros(256, np.int8)
_IS_PART = np.zeros(256, np.bool_)
for _mark, _step in _STEPS.items():
    _DEEPER[_mark[0]] = _step
    _IS_PART[_mark[0]] = _step >= 0

_LONE_SURROGATE = re.compile(
    rb"(?:[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|\\(?!u[dD][89a-fA-F]).)*+\\u[dD][89a-fA-F]", re.DOTALL
)
"""Everything up to an escaped half of a pair without the other half; possessive, so linear in the size of the body."""

_KINDS = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}
_DECODER = msgspec.json.Decoder()
_REMEDY = "send one JSON object in UTF-8"


def parse_object(body: bytes) -> dict[str, Any]:
    """Parses a body that must be one JSON object.

    Raises:
        RequestError: 400, the body is no JSON, has too many parts or too deep ones, or is not an object.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
    if not body:
        raise RequestError("expected a JSON object, got an empty body", _REMEDY)
    shape = _shape(body)
    if shape.depth > MAX_DEPTH:
        raise RequestError(f"expected JSON nested at most {MAX_DEPTH} levels deep, got more", "flatten the body")
    if shape.parts > MAX_PARTS:
        problem = f"expected at most {MAX_PARTS} arrays, objects and members, got {shape.parts}"
        raise RequestError(problem, "send less")
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unparsable(body, str(error)) from None
    if not isinstance(value, dict):
        raise RequestError(f"expected a JSON object, got {_KINDS[type(value)]}", _REMEDY)
    return value


def _unparsable(body: bytes, reason: str) -> RequestError:
    """The refusal of a body, in clearer words than the parser's where it has misleading ones."""
    if "out of range" in reason:
        problem = "expected numbers that fit into 64 bits or a double, got a larger one"
        return RequestError(problem, "send a smaller number")
    if _LONE_SURROGATE.match(body):  # to the parser a body that ends too early, or none at all
        problem = "expected escapes of whole characters, got a surrogate without its other half"
        return RequestError(problem, _REMEDY)
    return RequestError(f"expected a JSON object, got a body that does not parse: {reason}", _REMEDY)


class _Shape(NamedTuple):
    """What brackets and colons outside of strings say, up to a body's first fault, at which the parser stops."""

    depth: int
    parts: int


def _shape(body: bytes) -> _Shape:
    """Linear in the size of the body, whatever stands in it."""
    most = sum(body.count(mark) for mark, step in _STEPS.items() if step >= 0)
    if most <= MAX_DEPTH:
        return _Shape(most, most)
    letters = np.frombuffer(body, np.uint8)
    depth = deepest = parts = 0
    in_string = is_escaped = False  # the first letter of a block
    for start in range(0, len(letters), _BLOCK):
        block = letters[start : start + _BLOCK]
        at = np.flatnonzero(_IS_MARK[block])
        marks = block[at]
        escaped, is_escaped = _escaped(at, marks == _BACKSLASH, len(block), first=is_escaped)
        quotes = np.cumsum((marks == _QUOTE) & ~escaped, dtype=np.int32) + in_string
        outside = marks[(quotes & 1) == 0]
        in_string = bool(quotes[-1] & 1) if len(quotes) else in_string
        depths = np.cumsum(_DEEPER[outside], dtype=np.int32)
        deepest = max(deepest, depth + int(depths.max(initial=0)))
        depth += int(depths[-1]) if len(depths) else 0
        parts += int(_IS_PART[outside].sum())
    return _Shape(deepest, parts)


def _escaped(at: Any, is_backslash: Any, size: int, *, first: bool) -> tuple[Any, bool]:
    """Which marks of a block stand behind an odd run of backslashes, and whether what follows the block does.

    Args:
        at: Where they stand, ascending. Shape: (n,), int64.
        is_backslash: Which of them are backslashes. Shape: (n,), bool.
        size: Letters of the block.
        first: Whether the block's first letter stands behind such a run.
    """
    if not is_backslash.any():
        escaped = np.zeros(len(at), np.bool_)
        if first and len(at) and at[0] == 0:
            escaped[0] = True
        return escaped, False
    follows = np.zeros(len(at), np.bool_)  # directly behind a backslash
    follows[1:] = is_backslash[:-1] & (at[1:] == at[:-1] + 1)
    begins = np.where(is_backslash & ~follows, at, -1)
    runs = np.maximum.accumulate(begins)  # where the last run of backslashes begins
    before = np.where(follows, at - runs, 0) + (first & (np.where(follows, runs, at) == 0))
    last = len(at) - 1
    behind = bool(is_backslash[last] and at[last] == size - 1 and (int(before[last]) + 1) & 1)
    return (before & 1).astype(np.bool_), behind
