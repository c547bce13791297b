"""Bytes of a request body become plain Python values, or are refused with a message for the client.

Rules
* Nesting deeper than MAX_DEPTH is refused before parsing, so the limit is ours and the same on every Python; so are
  more than MAX_PARTS arrays, objects and members, which take the parser, on the event loop, seconds and a gigabyte.
* A byte order mark, which some editors and shells put in front, is passed over, as RFC 8259 allows.
* What JSON does not have is refused: NaN, Infinity, lone surrogates, invalid UTF-8, trailing characters.
* So is a name that an object has twice: a proxy that checks the first and a host that uses the last would not see the
  same request.

Example:
    body = parse_object(b'{"model": "smollm2"}')
"""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from ..errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH = 64
"""Nested arrays and objects; a chat request needs six, and every parser we use survives ten times as many."""

MAX_PARTS = 1 << 16
"""Arrays, objects and members of objects together: 4,096 messages in parts have half as many."""

_BLOCK = 1 << 20
"""Bytes that are looked at together, so that looking takes little memory."""

_QUOTE, _BACKSLASH, _COLON = b'"\\:'
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

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"([ \t\r\n]*:)?', re.DOTALL)
"""A string, and what stands behind it if it is a name."""

_SMALL = 16 << 10
"""Bytes up to which that is quicker than arrays are."""

_KINDS = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}
_NESTED = frozenset({dict, list})
_DECODER = msgspec.json.Decoder()
_REMEDY = "send one JSON object in UTF-8"


def parse_object(body: bytes) -> dict[str, Any]:
    """Parses a body that must be one JSON object.

    Raises:
        RequestError: 400, the body is no JSON, has too many parts or too deep ones, a name twice, or is not an object.
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
    if not _has_members(value, body.count(b":")) and not _has_members(value, _names(body, shape)):
        raise _duplicate(body)
    return value


def _names(body: bytes, shape: _Shape) -> int:
    """Names that a body has in all its objects, which is known to be JSON."""
    if shape.names is not None:
        return shape.names
    if len(body) <= _SMALL:
        return sum(map(bool, _STRING.findall(body)))
    return _looked_at(body).names or 0


def _has_members(value: dict[str, Any], number: int) -> bool:
    """Whether its objects have so many members, none of which a name that came twice has lost; or more, which is never.

    Objects are looked at before arrays, so that the ids of a prompt are not looked at at all where that is enough.
    """
    objects: list[dict[str, Any]] = [value]
    arrays: list[list[Any]] = []
    while objects or arrays:
        inner: Iterable[Any]
        if objects:
            inner = (one := objects.pop()).values()
            number -= len(one)
        else:
            inner = arrays.pop()
        if number <= 0:
            return True
        if not _NESTED.isdisjoint(map(type, inner)):
            objects += [one for one in inner if type(one) is dict]
            arrays += [one for one in inner if type(one) is list]
    return False


def _duplicate(body: bytes) -> RequestError:
    """The refusal of a body in which an object has a name twice; it says which, unless that would take long."""
    name = "one of them"
    if len(body) <= _BLOCK:
        try:
            json.loads(body, object_pairs_hook=_distinct)
        except _TwiceError as twice:
            name = repr(str(twice))
    return RequestError(
        f"expected each name once in an object, got {name} again", "send it once", reason="duplicate_name"
    )


class _TwiceError(Exception):
    """Its text is a name that an object has twice."""


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    """Accepts by returning the members of one object."""
    names = set()
    for name, _ in pairs:
        if name in names:
            raise _TwiceError(name[:100])
        names.add(name)


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
    names: int | None = None


def _shape(body: bytes) -> _Shape:
    """What it has at most, or where that says too little, what it has; names alone are never told in part."""
    most = sum(body.count(mark) for mark, step in _STEPS.items() if step >= 0)
    return _Shape(most, most) if most <= MAX_DEPTH else _looked_at(body)


def _looked_at(body: bytes) -> _Shape:
    """Linear in the size of the body, whatever stands in it."""
    letters = np.frombuffer(body, np.uint8)
    depth = deepest = parts = names = 0
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
        names += int((outside == _COLON).sum())
    return _Shape(deepest, parts, names)


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
