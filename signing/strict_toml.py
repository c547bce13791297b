"""TOML for documents that decide about trust, as checked values (README clause 10.1).

The standard library's parser refuses duplicate keys by itself; here are the bounds around it, so that only
SealError comes out.
"""

from __future__ import annotations

import tomllib
from typing import Final, TypeVar

import msgspec

from .errors import Code, SealError
from .limits import MAX_TRUST_FILE_BYTES

_REMEDY: Final = "correct the file (README chapter 10 of signing), or fetch it again"

T = TypeVar("T")


def parse_strict_toml(data: bytes, kind: type[T], where: str) -> T:
    """Parses UTF-8 TOML into a msgspec struct.

    Args:
        data: The document's bytes.
        kind: A struct with `forbid_unknown_fields`.
        where: Name for messages.

    Raises:
        SealError: E_PARSE.
    """
    if len(data) > MAX_TRUST_FILE_BYTES:
        problem = f"expected at most {MAX_TRUST_FILE_BYTES} bytes, got {len(data)}"
        raise SealError(Code.PARSE, where, problem, _REMEDY)
    try:
        return msgspec.convert(tomllib.loads(data.decode("utf-8")), kind, strict=True)
    except msgspec.ValidationError as error:
        text = str(error)
        raise SealError(Code.PARSE, where, text[:1].lower() + text[1:], _REMEDY) from error
    except (ValueError, RecursionError, OverflowError) as error:
        # not UTF-8, not TOML, a number or a date that Python cannot hold, nesting without end
        raise SealError(Code.PARSE, where, f"expected TOML, got: {str(error)[:120]}", _REMEDY) from error
