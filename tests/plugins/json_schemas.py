"""Schemas for the tests of the guest `json`: by hand, one for each rule, and by a seeded generator."""

from __future__ import annotations

import random
from typing import Any

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130}, "tags": {"type": "array", "items": {"enum": ["a", "ab", "b"]}}},
    "required": ["name", "age"],
    "additionalProperties": False,
}  # fmt: skip

SCHEMAS: list[Any] = [
    {}, True, {"type": "object"}, {"type": "array"}, {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}, {"type": "null"},
    {"type": ["integer", "null"]}, {"const": {"a": [1, "b\n"], "c": None}}, {"enum": ["a", "ab", "abc", 1, 12, None, True, {"a": 1}]}, {"type": "string", "enum": ["é", "日本"]},
    {"type": "string", "minLength": 2}, {"type": "string", "maxLength": 2}, {"type": "string", "minLength": 1, "maxLength": 3}, {"type": "string", "maxLength": 40},
    {"type": "string", "pattern": "^a[bc]{1,3}$"}, {"type": "string", "pattern": "^(true|é)$"}, {"type": "integer", "minimum": 3, "maximum": 120},
    {"type": "integer", "minimum": -12, "maximum": -3}, {"type": "integer", "exclusiveMinimum": -101, "exclusiveMaximum": 101}, {"type": "number", "minimum": 0, "maximum": 3},
    {"type": "number", "minimum": -2, "maximum": 2}, {"items": {"type": "boolean"}}, {"items": {"type": "integer"}, "minItems": 2}, {"items": {"type": "null"}, "maxItems": 2},
    {"prefixItems": [{"const": 1}, {"const": "a"}], "items": False}, {"prefixItems": [{"const": 1}], "items": {"type": "null"}}, {"items": {}, "minItems": 1, "maxItems": 3},
    PERSON, {"type": "array", "items": PERSON}, {"properties": {"a": {"const": 1}, "ab": {"const": 2}}}, {"properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["b"]},
    {"properties": {"a": {"const": 1}}, "additionalProperties": True}, {"properties": {"name": {"const": 1}, "na": False, "é": {}}, "additionalProperties": {"type": "null"}},
    {"additionalProperties": {"type": "integer"}}, {"required": ["a", "b"]}, {"properties": {'q"\\': {"const": 1}}, "required": ['q"\\']},
    {"properties": {'q"': {"const": 1}, "q": {"const": 2}}, "additionalProperties": {"const": 3}}, {"type": "object", "properties": {}, "additionalProperties": False},
    {"anyOf": [{"type": "string"}, {"type": "integer"}, PERSON]}, {"oneOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"a": {"const": 2}}}]},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "string", "pattern": "^ab{5}$"}, {"const": "éa日aaa"}]}, {"type": "string", "minLength": 2, "maxLength": 6},
    {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "minLength": 4, "maxLength": 5}]}, {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "array", "maxItems": 1}]},
    {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 3}, {"anyOf": [{"type": "string", "minLength": 3}, {"type": "string", "maxLength": 1}]},
    {"allOf": [{"type": "boolean"}]}, {"$ref": "#/$defs/a", "$defs": {"a": {"enum": ["x", "aa"]}}},
    {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]},
    {"$ref": "#/$defs/t", "$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "maxItems": 2}}}, {"items": {"anyOf": [{"type": "array", "items": {"const": 1}}, {"type": "array", "items": {"const": 12}}]}},
]  # fmt: skip


def random_schema(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """One that some value fits, of at most four levels."""
    simple = [_string, _integer, _words, lambda rng: {"type": rng.choice(["number", "boolean", "null"])}]
    if depth < 3 and rng.random() < 0.75 - depth * 0.15:
        return rng.choice([_object, _object, _array, _choice])(rng, depth + 1)
    return rng.choice(simple)(rng)


def _string(rng: random.Random) -> dict[str, Any]:
    least = rng.randint(0, 3)
    return {
        "type": "string",
        **rng.choice(
            [
                {},
                {"minLength": least},
                {"minLength": least, "maxLength": least + rng.randint(0, 9)},
                {"pattern": "^[a-c]{1,4}$"},
            ]
        ),
    }


def _integer(rng: random.Random) -> dict[str, Any]:
    low = rng.randint(-50, 150)
    return {"type": "integer", **rng.choice([{}, {"minimum": low, "maximum": low + rng.randint(0, 300)}])}


def _words(rng: random.Random) -> dict[str, Any]:
    return {"enum": rng.sample(["a", "ab", "name", "é", 1, 12, 0.5, None, True, [1], {"a": 1}], rng.randint(1, 5))}


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(["a", "ab", "b", "name", "age", "é", 'q"'], rng.randint(0, 4))
    made: dict[str, Any] = {"type": "object", "properties": {name: random_schema(rng, depth) for name in names}}
    made["required"] = [name for name in names if rng.random() < 0.6]
    made["additionalProperties"] = rng.choice([False, False, True, {"type": "integer"}])
    return made


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "array", "items": random_schema(rng, depth)}
    if rng.random() < 0.4:
        made["minItems"] = rng.randint(0, 2)
        made["maxItems"] = made["minItems"] + rng.randint(0, 3)
    if rng.random() < 0.3:
        made["prefixItems"] = [random_schema(rng, depth) for _ in range(rng.randint(1, 2))]
    return made


def _choice(rng: random.Random, depth: int) -> dict[str, Any]:
    return {"anyOf": [random_schema(rng, depth) for _ in range(rng.randint(1, 3))]}
