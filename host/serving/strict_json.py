"""Bytes of a request body become plain Python values, or are refused with a message for the client.

Rules
* Nesting deeper than MAX_DEPTH is refused before parsing, so the limit is ours and the same on every Python.
* What JSON does not have is refused: NaN, Infinity, lone surrogates, invalid UTF-8, trailing characters.

Example:
    body = parse_object(b'{"model": "smollm2"}')
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np

from ..errors import RequestError

MAX_DEPTH = 64
"""Nested arrays and objects; a chat request needs six, and every parser we use survives ten times as many."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, or an unterminated one to the end; possessive, so linear whatever comes."""

_DECODER = msgspec.json.Decoder()
_REMEDY = "send one JSON object in UTF-8"


def parse_object(body: bytes) -> dict[str, Any]:
    """Parses a body that must be one JSON object.

    Raises:
        RequestError: 400, the body is no JSON, is nested too deeply or is not an object.
    """
    if _depth_exceeds(body, MAX_DEPTH):
        raise RequestError(f"expected JSON nested at most {MAX_DEPTH} levels deep, got more", "flatten the body")
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"expected a JSON object, got a body that does not parse: {error}", _REMEDY) from None
    if not isinstance(value, dict):
        raise RequestError(f"expected a JSON object, got {type(value).__name__}", _REMEDY)
    return value


def _depth_exceeds(body: bytes, limit: int) -> bool:
    """Whether brackets outside of strings nest deeper than `limit`; linear in the size of the body."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    letters = np.frombuffer(_STRING.sub(b"", body), dtype=np.uint8)
    opened = (letters == ord("[")) | (letters == ord("{"))
    closed = (letters == ord("]")) | (letters == ord("}"))
    depth = np.cumsum(opened.astype(np.int8) - closed.astype(np.int8), dtype=np.int64)
    return bool(depth.max(initial=0) > limit)
