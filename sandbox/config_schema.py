"""What a sampler's `sampler_config` may hold: a small subset of JSON schema, checked in bounded time (README §9).

    schema = ConfigSchema({"type": "object", "properties": {"tau": {"type": "number", "minimum": 0}}})
    schema.check({"tau": -1})      # SandboxError: sampler_config.tau: expected at least 0, got -1

Rules
* A schema comes from a third party: what it may ask for is bounded when it is read, and nothing of it can loop, refer
  elsewhere or match patterns.
* A keyword that is not known is refused at once, never ignored: it would be a promise that nobody keeps.

Source: JSON Schema 2020-12, validation vocabulary; the meaning of every keyword taken is the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from .errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WHERE: Final = "sampler_config"
"""The request's field, as messages name it."""

MAX_CONFIG_BYTES: Final = 16 * 1024
"""Of the serialised configuration: a grammar of some pages; longer ones belong into a plugin."""

MAX_SCHEMAS: Final = 256
"""Schemas within a schema."""

MAX_NAMES: Final = 64
"""Entries of one `properties`, `required` or `enum`: what one value can cost to check."""

MAX_DEPTH: Final = 8
"""Levels of schemas within schemas."""

_SHOWN: Final = 64
"""Letters of a value or a name that a message shows."""

_ANNOTATIONS: Final = frozenset(("$schema", "$id", "$comment", "title", "description", "default", "examples"))
"""Say something to readers and nothing about values."""

_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
}

_LIMITS: Final[dict[str, tuple[str, str, Callable[[Any, Any], bool], str]]] = {
    # keyword: type of values it speaks of, what is compared, whether it holds, in words
    "minimum": ("number", "value", lambda value, limit: value >= limit, "at least"),
    "maximum": ("number", "value", lambda value, limit: value <= limit, "at most"),
    "exclusiveMinimum": ("number", "value", lambda value, limit: value > limit, "more than"),
    "exclusiveMaximum": ("number", "value", lambda value, limit: value < limit, "less than"),
    "minLength": ("string", "letters", lambda value, limit: len(value) >= limit, "at least"),
    "maxLength": ("string", "letters", lambda value, limit: len(value) <= limit, "at most"),
    "minItems": ("array", "items", lambda value, limit: len(value) >= limit, "at least"),
    "maxItems": ("array", "items", lambda value, limit: len(value) <= limit, "at most"),
    "minProperties": ("object", "properties", lambda value, limit: len(value) >= limit, "at least"),
    "maxProperties": ("object", "properties", lambda value, limit: len(value) <= limit, "at most"),
}

_STRUCTURE: Final = frozenset(("type", "enum", "const", "properties", "required", "additionalProperties", "items"))


class SchemaError(Exception):
    """A schema that this host cannot check; the text says "expected X, got Y" and where."""


class ConfigSchema:
    """A schema that was read and is within its bounds.

    Args:
        schema: As the manifest has it.

    Raises:
        SchemaError: When something in it is not known, malformed or too much.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = _Reader().read(schema, "config_schema", 1)

    def check(self, config: Mapping[str, Any]) -> None:
        """Checks a configuration.

        Args:
            config: A parsed JSON object of at most MAX_CONFIG_BYTES when serialised.

        Raises:
            SandboxError: Naming the first value that does not fit.
        """
        self._root.check(config, WHERE)


def serialised(config: Mapping[str, Any]) -> bytes:
    """The bytes that a guest gets: compact JSON in UTF-8 with sorted keys, the same for equal configurations.

    Raises:
        SandboxError: When they are too many, or the object is not JSON.
    """
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    found = bytearray()
    try:
        for piece in encoder.iterencode(config):  # piece by piece, so that a giant one costs no more than the limit
            found += piece.encode()
            if len(found) > MAX_CONFIG_BYTES:
                raise bad_config(WHERE, f"expected at most {MAX_CONFIG_BYTES} bytes of JSON, got more")
    except (TypeError, ValueError, RecursionError) as error:
        raise bad_config(WHERE, f"expected a JSON object, got one that cannot be written: {error}") from None
    return bytes(found)


def bad_config(where: str, problem: str) -> SandboxError:
    """A refusal of a request's configuration."""
    return SandboxError(where, problem, "correct the configuration, see the sampler's documentation")


class _Schema:
    """One schema: what it says of the value at its place, and the schemas of what is inside."""

    __slots__ = ("allowed", "items", "limits", "others", "properties", "required", "types")

    def __init__(self) -> None:
        self.types: tuple[str, ...] = ()
        self.allowed: dict[Any, Any] | None = None
        self.limits: list[tuple[str, float]] = []
        self.properties: dict[str, _Schema] = {}
        self.required: tuple[str, ...] = ()
        self.others: _Schema | bool = True
        self.items: _Schema | None = None

    def check(self, value: Any, where: str) -> None:
        if self.types and not any(_TYPES[name](value) for name in self.types):
            raise bad_config(where, f"expected {' or '.join(self.types)}, got {_shown(value)}")
        if self.allowed is not None and _key(value) not in self.allowed:
            options = ", ".join(_shown(one) for one in self.allowed.values())
            raise bad_config(where, f"expected one of {options[: 8 * _SHOWN]}, got {_shown(value)}")
        for keyword, limit in self.limits:
            kind, unit, holds, words = _LIMITS[keyword]
            if _TYPES[kind](value) and not holds(value, limit):
                got = _shown(value) if unit == "value" else len(value)
                raise bad_config(where, f"expected {words} {limit}{'' if unit == 'value' else ' ' + unit}, got {got}")
        if isinstance(value, dict):
            self._check_object(value, where)
        elif isinstance(value, list) and self.items is not None:
            for index, one in enumerate(value):
                self.items.check(one, f"{where}[{index}]")

    def _check_object(self, value: dict[str, Any], where: str) -> None:
        for name in self.required:
            if name not in value:
                raise bad_config(f"{where}.{name}", "expected it to be there, got none")
        for name, one in value.items():
            place = f"{where}.{name[:_SHOWN]}"
            schema = self.properties.get(name, self.others)
            if schema is False:
                known = ", ".join(self.properties) or "nothing"
                raise bad_config(place, f"expected only {known[: 8 * _SHOWN]}, got another property")
            if isinstance(schema, _Schema):
                schema.check(one, place)


class _Reader:
    """Reads a schema within its bounds."""

    def __init__(self) -> None:
        self._count = 0

    def read(self, schema: Any, where: str, depth: int) -> _Schema:
        self._count += 1
        if self._count > MAX_SCHEMAS:
            raise SchemaError(f"expected at most {MAX_SCHEMAS} schemas in config_schema, got more")
        if depth > MAX_DEPTH:
            raise SchemaError(f"expected at most {MAX_DEPTH} levels in config_schema, got more at {where}")
        if not isinstance(schema, dict):
            raise SchemaError(f"expected an object at {where}, got {_shown(schema)}")
        for keyword in schema:
            if keyword not in _STRUCTURE and keyword not in _LIMITS and keyword not in _ANNOTATIONS:
                raise SchemaError(f"expected keywords that this host checks, got {_shown(keyword)} at {where}")
        made = _Schema()
        made.types = self._types(schema, where)
        made.allowed = self._allowed(schema, where)
        made.limits = [(name, self._limit(schema[name], name, where)) for name in _LIMITS if name in schema]
        made.required = self._required(schema, where)
        made.properties = {
            name: self.read(one, f"{where}.{name[:_SHOWN]}", depth + 1)
            for name, one in self._bounded(schema.get("properties", {}), dict, f"{where}.properties").items()
        }
        others = schema.get("additionalProperties", True)
        made.others = others if isinstance(others, bool) else self.read(others, f"{where}.*", depth + 1)
        made.items = self.read(schema["items"], f"{where}[]", depth + 1) if "items" in schema else None
        return made

    def _types(self, schema: dict[str, Any], where: str) -> tuple[str, ...]:
        if "type" not in schema:
            return ()
        found = schema["type"]
        names = [found] if isinstance(found, str) else self._bounded(found, list, f"{where}.type")
        if not names:
            raise SchemaError(f"expected at least one name at {where}.type, got none")
        for name in names:
            if name not in _TYPES:
                raise SchemaError(f"expected one of {', '.join(_TYPES)} at {where}.type, got {_shown(name)}")
        return tuple(names)

    def _allowed(self, schema: dict[str, Any], where: str) -> dict[Any, Any] | None:
        """What `enum` and `const` leave."""
        sets = []
        if "enum" in schema:
            sets.append({_key(one): one for one in self._bounded(schema["enum"], list, f"{where}.enum")})
        if "const" in schema:
            sets.append({_key(schema["const"]): schema["const"]})
        if not sets:
            return None
        return {key: one for key, one in sets[0].items() if key in sets[-1]}

    def _limit(self, limit: Any, keyword: str, where: str) -> float:
        kind = "number" if _LIMITS[keyword][1] == "value" else "integer"
        if not _TYPES[kind](limit) or (kind == "integer" and limit < 0):
            raise SchemaError(f"expected a {kind} at {where}.{keyword}, got {_shown(limit)}")
        number: float = limit
        return number

    def _required(self, schema: dict[str, Any], where: str) -> tuple[str, ...]:
        names = self._bounded(schema.get("required", []), list, f"{where}.required")
        for name in names:
            if not isinstance(name, str):
                raise SchemaError(f"expected names at {where}.required, got {_shown(name)}")
        return tuple(names)

    def _bounded(self, value: Any, kind: type[Any], where: str) -> Any:
        if not isinstance(value, kind):
            raise SchemaError(f"expected {'an object' if kind is dict else 'an array'} at {where}, got {_shown(value)}")
        if len(value) > MAX_NAMES:
            raise SchemaError(f"expected at most {MAX_NAMES} entries at {where}, got {len(value)}")
        return value


def _key(value: Any) -> Any:
    """Equal for equal JSON values only: true is not 1, and 1.0 is."""
    if isinstance(value, dict):
        return ("object", frozenset((name, _key(one)) for name, one in value.items()))
    if isinstance(value, list):
        return ("array", *map(_key, value))
    return ("boolean", value) if isinstance(value, bool) else value


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
