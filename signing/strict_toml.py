"""TOML for documents that decide about trust, as checked values (README clause 10.1).

The standard library's parser refuses duplicate keys by itself; here are the bounds around it, so that only SealError
comes out. Its time and memory grow with the square of a dotted key's parts, so those are counted before it is asked.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

from .errors import Code, SealError
from .limits import MAX_TOML_DEPTH, MAX_TRUST_FILE_BYTES

_REMEDY: Final = "correct the file (README chapter 10 of signing), or fetch it again"

# comments and strings in the order in which they begin; possessive, so linear. What is no TOML may be read otherwise
# from its first fault on, but there the parser stops
_TEXTS = re.compile(
    r"""\#[^\n]*+|\"{3}(?:[^"\\]|\\.|"{1,2}+(?!"))*+"{0,3}|'{3}(?:[^']|'{1,2}+(?!'))*+'{0,3}"""
    r"""|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?""",
    re.DOTALL,
)
_DEEP = re.compile(r"[.\[{]")

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
    import tomllib  # noqa: PLC0415 — a keys folder without a policy needs none

    if len(data) > MAX_TRUST_FILE_BYTES:
        problem = f"expected at most {MAX_TRUST_FILE_BYTES} bytes, got {len(data)}"
        raise SealError(Code.PARSE, where, problem, _REMEDY)
    try:
        text = data.decode("utf-8")
        _check_depth(text, where)
        return msgspec.convert(tomllib.loads(text), kind, strict=True)
    except msgspec.ValidationError as error:
        text = str(error)
        raise SealError(Code.PARSE, where, text[:1].lower() + text[1:], _REMEDY) from error
    except (ValueError, RecursionError, OverflowError) as error:
        # not UTF-8, not TOML, a number or a date that Python cannot hold, nesting without end
        raise SealError(Code.PARSE, where, f"expected TOML, got: {str(error)[:120]}", _REMEDY) from error


def _check_depth(text: str, where: str) -> None:
    """Bounds what one line can nest: parts of its dotted keys, arrays and inline tables."""
    for line in _TEXTS.sub("s", text).split("\n"):
        if len(_DEEP.findall(line)) > MAX_TOML_DEPTH:
            problem = f"expected at most {MAX_TOML_DEPTH} dots and opening brackets on a line, got more"
            raise SealError(Code.PARSE, where, problem, _REMEDY)
