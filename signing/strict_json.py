"""A strict subset of JSON for documents that decide about trust (README clauses 2.1 to 2.3).

The standard library's parser does the work between a check of size, encoding and depth before it and hooks for
duplicate keys and numbers inside it, so memory and time are bounded and only SealError comes out.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from .errors import Code, SealError
from .limits import MAX_INTEGER, MAX_JSON_DEPTH, MAX_JSON_DIGITS, MAX_MANIFEST_BYTES

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# possessive, and an unterminated string runs to the end: linear in every case
_STRINGS_AND_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_REMEDY = "fetch the file again, or have the publisher write strict JSON"


def parse_strict_json(data: bytes, where: str) -> Any:
    """Parses UTF-8 JSON without duplicate keys, fractions, exponents, NaN or lone surrogates.

    Args:
        data: The document's bytes.
        where: Name for messages.

    Raises:
        SealError: E_PARSE.
    """
    text = _decode(data, where)
    _check_depth(text, where)

    def refuse(problem: str) -> NoReturn:
        raise SealError(Code.PARSE, where, problem, _REMEDY)

    def integer(digits: str) -> int:
        if len(digits) > MAX_JSON_DIGITS + 1 or digits == "-0" or abs(int(digits)) > MAX_INTEGER:
            refuse(f"expected integers between -(2**53 - 1) and 2**53 - 1, got {digits[:24]}")
        return int(digits)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in items:
            if key in found:
                refuse(f"expected each key once in an object, got {key!r} again")
            found[key] = item
        return found

    def number(token: str) -> NoReturn:
        refuse(f"expected whole numbers without fraction or exponent, got {token[:24]}")

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_int=integer, parse_float=number, parse_constant=number)
    except json.JSONDecodeError as error:
        refuse(f"expected JSON, got a syntax error at line {error.lineno} column {error.colno} ({error.msg})")
    _check_surrogates(value, refuse_with=refuse)
    return value


def _decode(data: bytes, where: str) -> str:
    if len(data) > MAX_MANIFEST_BYTES:
        problem = f"expected at most {MAX_MANIFEST_BYTES} bytes, got {len(data)}"
        raise SealError(Code.PARSE, where, problem, _REMEDY)
    if data.startswith(_BYTE_ORDER_MARK):
        raise SealError(Code.PARSE, where, "expected UTF-8 without a byte order mark, got one", _REMEDY)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8, got an invalid byte at offset {error.start}"
        raise SealError(Code.PARSE, where, problem, _REMEDY) from error


def _check_depth(text: str, where: str) -> None:
    """Counts brackets outside strings; what is no JSON may pass here, the parser then refuses it."""
    depth = 0
    for match in _STRINGS_AND_BRACKETS.finditer(text):
        mark = match.group()[0]
        depth += (mark in "[{") - (mark in "]}")
        if depth > MAX_JSON_DEPTH:
            problem = f"expected at most {MAX_JSON_DEPTH} nested arrays and objects, got more"
            raise SealError(Code.PARSE, where, problem, _REMEDY)


def _check_surrogates(value: Any, *, refuse_with: Any) -> None:
    """Half a surrogate pair, written as an escape, is no character; depth is bounded, so recursion is."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            refuse_with("expected Unicode text, got half of a surrogate pair")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_surrogates(key, refuse_with=refuse_with)
            _check_surrogates(item, refuse_with=refuse_with)
    elif isinstance(value, list):
        for item in value:
            _check_surrogates(item, refuse_with=refuse_with)
