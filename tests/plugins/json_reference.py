"""The texts that fit a JSON Schema, as the README of the guest `json` says, for the brute-force acceptor."""

from __future__ import annotations

import functools
import json
from itertools import pairwise
from typing import Any

from grammar_reference import EMPTY, NEVER, Language, alt, cat, others, pattern, repeat, rule, text

HEX = "[0-9a-fA-F]"
ESCAPE = pattern(
    rf"\\(?:[\"\\/bfnrt]|u(?:[0-9a-cA-CefEF]{HEX}{{3}}|[dD][0-7]{HEX}{{2}}|[dD][89abAB]{HEX}{{2}}\\u[dD][c-fC-F]{HEX}{{2}}))"
)
LETTER = alt(others((0, 31), (34, 34), (92, 92)), ESCAPE)
TAIL = cat(repeat(LETTER, 0), text('"'))
STRING = cat(text('"'), TAIL)
NUMBER = pattern(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,2})?")
INTEGER = pattern(r"0|-?[1-9][0-9]{0,15}")
COMMA, COLON = pattern(", ?"), pattern(": ?")
WORDS = {"null": text("null"), "boolean": alt(text("true"), text("false"))}
TYPES = {"null", "boolean", "string", "integer", "number", "array", "object"}
SUBJECTS = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
}


class Texts:
    """Of one schema with what it refers to."""

    def __init__(self, schema: Any) -> None:
        self.root = schema
        self.any = rule(functools.cache(lambda: self.of({"type": sorted(TYPES - {"integer"})})))
        self._made: dict[str, Language] = {}

    def of(self, schema: Any) -> Language:
        """The language of a schema."""
        if schema is True or schema == {}:
            return self.any
        if schema is False:
            return NEVER
        if "$ref" in schema:
            return self._referred(schema["$ref"])
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        types = schema.get("type") or [one for one, words in SUBJECTS.items() if words & schema.keys()] or sorted(TYPES)
        types = [types] if isinstance(types, str) else types
        if values is not None:
            return alt(*(text(dumps(value)) for value in values if _kinds(value) & set(types)))
        for keyword in ("anyOf", "oneOf", "allOf"):
            if keyword in schema:
                return alt(*map(self.of, schema[keyword]))
        return alt(*(self._typed(one, schema) for one in types))

    def _referred(self, ref: str) -> Language:
        if ref not in self._made:
            found = self.root
            for part in ref.split("/")[1:]:
                found = (
                    found[int(part)] if isinstance(found, list) else found[part.replace("~1", "/").replace("~0", "~")]
                )
            self._made[ref] = rule(functools.cache(lambda: self.of(found)))
        return self._made[ref]

    def _typed(self, kind: str, schema: dict[str, Any]) -> Language:
        if kind in WORDS:
            return WORDS[kind]
        if kind == "string":
            return _string(schema)
        if kind in ("integer", "number"):
            return _number(kind, schema)
        return self._array(schema) if kind == "array" else self._object(schema)

    def _array(self, schema: dict[str, Any]) -> Language:
        prefix, rest = schema.get("prefixItems", []), self.of(schema.get("items", True))
        least, most = int(schema.get("minItems", 0)), schema.get("maxItems")
        most = None if most is None else int(most)
        settled = max(len(prefix), least, 1)
        state = alt(cat(repeat(cat(COMMA, rest), 0), text("]"))) if most is None else text("]")
        for at in reversed(range(settled if most is None else most)):
            item = self.of(prefix[at]) if at < len(prefix) else rest
            state = alt(cat(COMMA if at else EMPTY, item, state), text("]") if at >= least else NEVER)
        return cat(text("["), state if least <= (settled if most is None else most) else NEVER)

    def _object(self, schema: dict[str, Any]) -> Language:
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties", "properties" not in schema)
        required = schema.get("required", [])
        members = [
            *properties.items(),
            *((one, additional) for one in dict.fromkeys(required) if one not in properties),
        ]
        more = empty = text("}")
        if additional is not False:
            other = cat(_other_name([name for name, _ in members]), COLON, self.of(additional))
            more = cat(repeat(cat(COMMA, other), 0), text("}"))
            empty = alt(cat(other, more), text("}"))
        for name, value in reversed(members):
            this = cat(text(dumps(name)), COLON, self.of(value), more)
            if name in required:
                more, empty = cat(COMMA, this), this
            else:
                more, empty = alt(cat(COMMA, this), more), alt(this, empty)
        return cat(text("{"), empty)


def dumps(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _kinds(value: Any) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int):
        return {"integer", "number"}
    return {{type(None): "null", str: "string", float: "number", list: "array", dict: "object"}[type(value)]}


def _string(schema: dict[str, Any]) -> Language:
    if "pattern" in schema:  # only simple ones: letters without escapes, anchored
        return cat(text('"'), pattern(schema["pattern"]), text('"'))
    if "maxLength" not in schema:
        return cat(text('"'), repeat(LETTER, int(schema.get("minLength", 0))), text('"'))
    least, most = int(schema.get("minLength", 0)), int(schema["maxLength"])
    return cat(text('"'), repeat(LETTER, least, most), text('"')) if least <= most else NEVER


def _number(kind: str, schema: dict[str, Any]) -> Language:
    if not SUBJECTS["number"] & schema.keys():
        return INTEGER if kind == "integer" else NUMBER
    lows = [schema["minimum"]] if "minimum" in schema else []
    highs = [schema["maximum"]] if "maximum" in schema else []
    low = max([*lows, *([schema["exclusiveMinimum"] + 1] if "exclusiveMinimum" in schema else [])], default=None)
    high = min([*highs, *([schema["exclusiveMaximum"] - 1] if "exclusiveMaximum" in schema else [])], default=None)
    assert low is not None, "small ranges only: each number is an alternative"
    assert high is not None, "small ranges only: each number is an alternative"
    whole = alt(*(text(str(value)) for value in range(low, high + 1)))
    if kind == "integer":
        return whole
    assert schema.keys() <= {"type", "minimum", "maximum"}
    between = []
    for one, other in pairwise(range(low, high + 1)):
        between.append(str(one) if one >= 0 else f"-{-other}")
    return alt(whole, *(cat(text(one), pattern(r"\.[0-9]{1,16}")) for one in between))


def _other_name(names: list[str]) -> Language:
    """A quoted name that is none of these, with no escapes as long as it begins like one of them."""

    def rest(at: int, group: list[str]) -> Language:
        letters = sorted({name[at] for name in group if len(name) > at})
        free = others((0, 31), (34, 34), (92, 92), *((ord(letter), ord(letter)) for letter in letters))
        ways = [cat(free, TAIL), NEVER if any(len(name) == at for name in group) else text('"')]
        ways += [
            cat(text(letter), rest(at + 1, [name for name in group if name[at : at + 1] == letter]))
            for letter in letters
            if letter not in '"\\'
        ]
        return alt(*ways)

    return STRING if not names else cat(text('"'), rest(0, names))
