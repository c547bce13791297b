"""The variables that a request gives to a chat template, `chat_template_kwargs`, such as Qwen 3's `enable_thinking`.

Rules (clause 5.17 of host/README.md)
* Their names are identifiers, and none is one that the host sets: a client must not replace the messages, the special
  tokens or the functions of a template. Names of members inside them are identifiers, too.
* Their texts are a client's, so they cannot forge control tokens either: `template` marks them like messages. Names are
  not marked, because a template finds members by them; an identifier spells no control token.
* If a template fails with them, that is the client's fault.

Example:
    variables = template_variables({"enable_thinking": False})
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

FIELD: Final = "chat_template_kwargs"

MAX_VARIABLES: Final = 32
"""Variables of one request; published templates know five at most."""

MAX_BYTES: Final = 16 << 10
"""Of all of them as JSON, as for a sampler's configuration."""

RESERVED: Final = frozenset(
    (
        *("messages", "tools", "documents", "add_generation_prompt", "continue_final_message"),
        *("bos_token", "eos_token", "raise_exception", "strftime_now"),
        *("cycler", "debug", "dict", "joiner", "namespace", "range", "loop", "self"),
    )
)
"""What the host gives a template, and what its engine does."""

NO_VARIABLES: Final[Mapping[str, Any]] = MappingProxyType({})

_MAX_FAULT = 300
"""Letters of a template's fault that a client is told: they may be its own."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def template_variables(given: dict[str, Any] | None) -> dict[str, Any]:
    """Checks the variables of a request.

    Raises:
        RequestError: 400, there are too many, they are too large, or one has a name that cannot be.
    """
    variables = given or {}
    if len(variables) > MAX_VARIABLES:
        raise _wrong(f"at most {MAX_VARIABLES} variables, got {len(variables)}")
    if reserved := RESERVED & variables.keys():
        raise _wrong(f"no variable of the host's own, got {min(reserved)}")
    for name in _names(variables):
        if not _NAME.fullmatch(name):
            raise _wrong(f"names of 1 to 64 letters, digits and underscores, got {name[:64]!r}")
    if (size := len(msgspec.json.encode(variables))) > MAX_BYTES:
        raise _wrong(f"at most {MAX_BYTES} bytes as JSON, got {size}")
    return variables


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A value with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [with_texts(one, change) for one in value]
    if isinstance(value, dict):
        return {name: with_texts(one, change) for name, one in value.items()}
    return value


def texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    for one in _within(value):
        yield from texts(one)


def unusable(fault: str) -> RequestError:
    """The refusal of variables with which a template fails."""
    problem = f"expected values that the model's chat template can use: {fault[:_MAX_FAULT]}"
    return RequestError(problem, "correct them", param=FIELD)


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for one in _within(value):
        yield from _names(one)


def _within(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _wrong(expected: str) -> RequestError:
    return RequestError(f"expected {expected}", "see what the model's chat template takes", param=FIELD)
