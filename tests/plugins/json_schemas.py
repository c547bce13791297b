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


WIDER: list[Any] = [
    {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"ab": {"const": 1}, "a": {"maximum": 12, "minimum": 1}}}]},
    {"allOf": [{"minLength": 2}, {"maxLength": 3}], "type": ["string", "null"]}, {"allOf": [{"enum": ["a", "ab", 1, 12]}, {"enum": ["ab", 12.0, None]}]},
    {"type": "string", "anyOf": [{"maxLength": 1}, {"minLength": 3, "maxLength": 4}, {"type": "null"}]}, {"anyOf": [{"type": "integer"}, {"type": "string"}], "oneOf": [{"maximum": 12, "minimum": 0}, {"const": "a"}]},
    {"type": "object", "properties": {"a": {"type": "null"}}, "anyOf": [{"required": ["a"]}, {"properties": {"b": {"const": 1}}, "required": ["b"]}]},
    {"$ref": "#/$defs/a", "maxLength": 2, "$defs": {"a": {"type": "string", "minLength": 1}}}, {"$ref": "#/$defs/a", "type": "string", "$defs": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    {"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {"const": "b"}}}], "$defs": {"a": {"properties": {"a": {"const": 1}}, "required": ["a", "b"]}}},
    {"type": "object", "properties": {"next": {"allOf": [{"$ref": "#"}, {"required": ["name"]}]}, "name": {"const": 1}}},
    {"allOf": [{"properties": {"a": {"const": 1}}, "additionalProperties": False}, {"properties": {"a": {"type": "integer"}, "b": {"const": 2}}}]},
    {"allOf": [{"properties": {"a": {"const": 1}}, "additionalProperties": {"type": "integer"}}, {"additionalProperties": {"enum": [1, 12, "a"]}}]},
    {"allOf": [{"items": {"type": "integer"}}, {"prefixItems": [{"enum": [1, "a", 12]}, {"maximum": 3, "minimum": 0}], "maxItems": 3}]},
    {"allOf": [{"prefixItems": [{"const": 1}, {"const": 12}, {}]}, {"items": {"type": "integer"}, "maxItems": 2}, {"prefixItems": [{"type": "integer"}], "items": False}]},
    {"enum": [1, 12, "ab", "abc", [1, 12], [12], {"a": 1, "b": 2}, {"b": 1}, None], "minimum": 3, "minLength": 3, "items": {"minimum": 12}, "required": ["a"]},
    {"const": {"a": [1, {"b": "x"}]}, "properties": {"a": {"prefixItems": [{"type": "integer"}]}}}, {"enum": ["2024-01-01", "a", 3, "2023-02-29", "2024-02-29"], "format": "date"},
    {"enum": ["a1", "1a", "a", 1], "pattern": "^a"}, {"enum": [0.5, 1, 1.5, 2, "a"], "multipleOf": 0.5, "maximum": 1.5}, {"enum": [[1, 1.0], [1, 2], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], []], "uniqueItems": True},
    {"patternProperties": {"^a": {"const": 1}}}, {"patternProperties": {"^a": {"const": 1}, "b$": {"type": "integer"}}, "additionalProperties": {"type": "null"}},
    {"properties": {"ab": {"type": "integer"}, "name": {}}, "patternProperties": {"b": {"enum": [1, 12, "x"]}}, "additionalProperties": False, "required": ["ab"]},
    {"allOf": [{"patternProperties": {"^a": {"type": "integer"}}}, {"patternProperties": {"^.b": {"enum": [1, "a"]}}, "additionalProperties": False}]},
    {"patternProperties": {"^[a-c]{2}$": {"const": 1}, "é": {"const": 2}}, "properties": {"a\nb": {"const": 3}, "ab": {"type": "integer"}}},
    {"multipleOf": 3, "type": "integer"}, {"multipleOf": 12}, {"type": "number", "multipleOf": 0.25, "minimum": -1}, {"type": "integer", "multipleOf": 7, "minimum": -30, "maximum": 100}, {"multipleOf": 0.01, "minimum": 0, "exclusiveMaximum": 1.1},
    {"allOf": [{"multipleOf": 4}, {"multipleOf": 6}, {"maximum": 50}]}, {"type": "integer", "multipleOf": 2.5}, {"multipleOf": 100}, {"type": "integer", "multipleOf": 1200},
    {"type": "number", "minimum": 0.5, "maximum": 12.25}, {"type": "number", "exclusiveMinimum": -1.5, "exclusiveMaximum": 0.001}, {"type": "integer", "minimum": -1.5, "maximum": 12.5}, {"exclusiveMinimum": 1, "exclusiveMaximum": 2},
    {"minimum": 0.123, "maximum": 0.123}, {"exclusiveMinimum": 12}, {"maximum": -0.5}, {"minimum": 1e2, "maximum": 1.23e3}, {"minimum": 12.5, "type": "integer"}, {"exclusiveMaximum": 0}, {"minimum": 0},
    {"pattern": "^[a-c]+$", "maxLength": 3}, {"pattern": "b", "minLength": 2, "maxLength": 4}, {"allOf": [{"pattern": "a"}, {"pattern": "^.{3}$"}]}, {"pattern": "^a|b$", "minLength": 3}, {"pattern": "b"}, {"pattern": "^a.*b$"},
    {"pattern": "^[^0-9]*$"}, {"pattern": "^[\\s\\S]{2}"}, {"pattern": '\\\\|"'}, {"pattern": "^[ -~]a*."}, {"allOf": [{"pattern": "^[^a]*$"}, {"pattern": "é"}]}, {"allOf": [{"pattern": "é"}, {"pattern": "a"}]},
    *({"format": name} for name in ("date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")), {"type": "string", "format": "colour"}, {"format": "date", "type": ["string", "null"]},
    {"format": "uri", "minLength": 1, "maxLength": 12}, {"format": "email", "maxLength": 7}, {"pattern": "^(a|é*b)+[0-9]?$", "maxLength": 4}, {"pattern": "\\\\", "maxLength": 3}, {"pattern": ".{3}", "maxLength": 40},
    {"properties": {"a": {"format": "ipv4", "maxLength": 9}, "b": {"format": "ipv4", "maxLength": 12}}}, {"allOf": [{"pattern": "b"}, {"pattern": "[0-9]"}], "maxLength": 4, "minLength": 3}, {"pattern": "^.*a$", "maxLength": 2},
    {"format": "date", "pattern": "^20"}, {"format": "hostname", "maxLength": 6}, {"format": "ipv4", "minLength": 14}, {"format": "duration", "allOf": [{"pattern": "T"}, {"maxLength": 5}]},
    {"minProperties": 1}, {"maxProperties": 2}, {"properties": {"a": {"const": 1}, "b": {"const": 2}, "ab": {"const": 3}}, "minProperties": 2}, {"properties": {"a": {"const": 1}, "b": {"const": 2}, "ab": {"const": 3}}, "maxProperties": 1, "required": ["b"]},
    {"properties": {"a": {"const": 1}, "b": {"const": 2}}, "minProperties": 2, "maxProperties": 3, "additionalProperties": {"const": 0}}, {"patternProperties": {"^a": {"const": 1}}, "minProperties": 1, "maxProperties": 1},
    {"maxProperties": 0}, {"minProperties": 2, "required": ["a"]}, {"uniqueItems": True, "maxItems": 1}, {"items": {"enum": ["a", "ab", 1, [1]]}, "uniqueItems": True},
    {"items": {"$ref": "#/$defs/a"}, "uniqueItems": True, "minItems": 2, "maxItems": 3, "$defs": {"a": {"enum": [1, 12, "é", {"a": 1}, None], "minimum": 2}}},
    {"allOf": [{"items": {"enum": [1, 2, 12]}}, {"items": {"type": "integer", "maximum": 10}, "uniqueItems": True}]}, {"items": False, "uniqueItems": True}, {"items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 2}, {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#"}], "minLength": 1, "$defs": {"a": {"maxLength": 1}}},
]  # fmt: skip
"""Keywords beside each other, and those that limit names, counts, steps and formats."""

DRAFT_4, DRAFT_7 = (
    {"$schema": "http://json-schema.org/draft-04/schema#"},
    {"$schema": "http://json-schema.org/draft-07/schema#"},
)
COMMON: list[Any] = [
    {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, {"type": "number", "minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308},
    {"minimum": 10**16 - 3, "maximum": 1e20}, {"exclusiveMinimum": 9999999999999998.5, "type": "integer"}, {"minimum": 1e-20, "maximum": 3e-16}, {"exclusiveMaximum": -1e-20, "minimum": -2e-16}, {"minimum": -1e-300, "maximum": 1.5e-16},
    {"maximum": -9999999999999999, "minimum": -1e30}, {"allOf": [{"minimum": 0.30000000000000004}, {"exclusiveMinimum": 0.3}], "maximum": 0.75, "multipleOf": 0.25}, {"enum": [-1, 0, 1, 5], "minimum": 1e-20, "exclusiveMaximum": 5.00000000000000000001},
    {"type": "integer", "minimum": 3, "exclusiveMinimum": True, "maximum": 12, "exclusiveMaximum": False, **DRAFT_4}, {"exclusiveMaximum": True, "maximum": 12.5, "minimum": 12, **DRAFT_4},
    {"items": [{"const": 1}, {"type": "string"}], **DRAFT_7}, {"items": [{"const": 1}], "additionalItems": False, **DRAFT_7}, {"items": [{"const": 1}, {}], "additionalItems": {"type": "null"}, "minItems": 1, **DRAFT_7},
    {"items": {"const": 1}, "additionalItems": False, **DRAFT_7}, {"type": "array", "additionalItems": False, **DRAFT_7}, {"items": [{}], "additionalItems": {"enum": [1, 12]}, "maxItems": 3, **DRAFT_7},
    {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "enum": [1, 12]}}}, {"$id": "https://example.org/s", "$ref": "https://example.org/s#/$defs/a", "$defs": {"a": {"const": "a"}}}, {"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"const": 1}}},
    {"properties": {"a": {"$ref": "urn:b"}, "b": {"$ref": "urn:b#/$defs/c"}}, "$defs": {"b": {"$id": "urn:b#", "const": 1, "$defs": {"c": {"const": "b"}}}}},
    {"maxLength": 2147483647}, {"minLength": 2, "maxLength": 10**12}, {"type": "string", "contentMediaType": "application/json", "contentSchema": {"type": "integer"}, "x-order": 1, "example": "a"},
    {"pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}, {"pattern": "^(?=.*[0-9])(?=.*[a-z])[a-z0-9]{2,4}$"}, {"pattern": "^(?!ab)[a-c]{1,3}$", "maxLength": 2}, {"pattern": "^(?=a)", "minLength": 2}, {"enum": ["ab", "ba", "a", "", "abc"], "pattern": "^(?!ab$|b)"},
    {"format": "email", "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"}, {"pattern": "^(?!a|b)"}, {"pattern": "^(?![a)])[(é].?$"}, {"pattern": "^(?=[^\\s]{3}$)(?!.*aa)", "maxLength": 9},
    {"pattern": "^[ab]{2,4000}$"}, {"pattern": "^.{1,60000}$"}, {"propertyNames": {"enum": ["a", "ab"]}, "additionalProperties": {"type": "integer"}}, {"propertyNames": {"pattern": "^[a-c]+$"}}, {"propertyNames": {"minLength": 1, "maxLength": 2}, "additionalProperties": {"const": 1}, "maxProperties": 2}, {"propertyNames": {"type": "string"}, "additionalProperties": {"type": "number"}},
    {"properties": {"a": {"const": 1}, "name": {"const": 2}, "é": {}}, "propertyNames": {"pattern": "^[^n]"}, "additionalProperties": {"const": 3}}, {"propertyNames": {"$ref": "#/$defs/n"}, "required": ["ab"], "$defs": {"n": {"enum": ["a", "ab", "ab", 3, "b"]}}}, {"propertyNames": False},
    {"propertyNames": {"enum": ["a", "ab", "b"], "maxLength": 1}, "properties": {"ab": {}, "a": {"const": 1}}, "patternProperties": {"^b": {"type": "integer"}}}, {"propertyNames": {"const": "a"}, "properties": {"b": {}}}, {"propertyNames": {"pattern": "a"}, "required": ["b"], "type": ["object", "null"]},
    {"propertyNames": {"pattern": "^(?!a|n)"}, "patternProperties": {"b": {"const": 1}, "^1": {"type": "integer"}}, "additionalProperties": {"const": 2}}, {"propertyNames": {"format": "date"}, "additionalProperties": {"const": 0}}, {"propertyNames": {"type": "integer"}}, {"propertyNames": {"minLength": 2}, "properties": {"abc": {"const": 1}}, "additionalProperties": {"const": 2}},
    {"enum": [{"a": 1}, {"b": 1}, {"ab": 1, "a": 1}, 1], "propertyNames": {"pattern": "^a"}}, {"allOf": [{"propertyNames": {"minLength": 2}}, {"propertyNames": {"pattern": "^[ab]*$"}}], "additionalProperties": {"const": 1}}, {"propertyNames": {"enum": ["a", "b"]}, "minProperties": 2, "additionalProperties": {"const": 1}},
]  # fmt: skip
"""What schemas in use say in other words: bounds of machine numbers, earlier drafts, names of schemas, words for readers."""


def random_join(rng: random.Random) -> dict[str, Any]:
    """Schemas that hold at once in some way; maybe no value fits them."""
    kind = rng.choice([_texts, _numbers, _numbers, _objects, _objects, _arrays, _values, _mixed])
    parts = [kind(rng) for _ in range(rng.randint(1, 3))]
    (whole, *rest), referred = parts, {}
    for part in rest:
        way = rng.randrange(4)
        if way == 0:
            whole = {"allOf": [whole, part]}
        elif way == 1 and not whole.keys() & part.keys():
            whole = {**whole, **part}
        elif way == 2 and not referred:
            referred, whole = {"x": part}, {**whole, "$ref": "#/$defs/x"}
        elif "anyOf" not in whole:
            whole = {**whole, "anyOf": [part, kind(rng)]}
    return {**whole, "$defs": referred} if referred else whole


def _some(rng: random.Random, words: dict[str, Any], least: int = 1) -> dict[str, Any]:
    return {word: words[word] for word in rng.sample(sorted(words), rng.randint(least, min(3, len(words))))}


def _texts(rng: random.Random) -> dict[str, Any]:
    patterns = [
        "^a",
        "b$",
        "^[a-c]*$",
        "a|é",
        "^(ab|12)+$",
        "^.{2}$",
        "[0-9]",
        "^1|a$",
        "\\\\",
        "^[^\\s]*$",
        "^(?!a|é)",
        "^(?=.*b)(?!ab)[a-c]*$",
    ]
    return _some(
        rng,
        {
            "minLength": rng.randint(0, 4),
            "maxLength": rng.randint(1, 6),
            "pattern": rng.choice(patterns),
            "type": rng.choice(["string", ["string", "null"]]),
            "format": rng.choice(["date", "ipv4", "time", "duration", "uuid"]),
        },
    )


def _numbers(rng: random.Random) -> dict[str, Any]:
    def value() -> float:
        return rng.choice(
            [rng.randint(-30, 30), rng.randint(-3000, 3000) / 10 ** rng.randint(1, 3), rng.randint(-(10**15), 10**15)]
        )

    return _some(
        rng,
        {
            rng.choice(["minimum", "exclusiveMinimum"]): value(),
            rng.choice(["maximum", "exclusiveMaximum"]): value(),
            "multipleOf": rng.choice([1, 2, 3, 7, 10, 12, 20, 500, 0.5, 0.25, 0.1, 0.01, 0.003, 1.5, 0.015]),
            "type": rng.choice(["integer", "number", ["number", "null"]]),
        },
    )


def _objects(rng: random.Random) -> dict[str, Any]:
    def value() -> Any:
        return rng.choice([_numbers, _texts, _values, lambda rng: rng.random() < 0.7])(rng)

    names = ["a", "ab", "b", "name", "é"]
    return _some(
        rng,
        {
            "properties": {name: value() for name in rng.sample(names, rng.randint(0, 3))},
            "patternProperties": {one: value() for one in rng.sample(["^a", "b$", "é", "^.$"], rng.randint(1, 2))},
            "additionalProperties": value(),
            "propertyNames": rng.choice([_texts, _values])(rng),
            "required": rng.sample(names, rng.randint(0, 2)),
            "minProperties": rng.randint(0, 3),
            "maxProperties": rng.randint(0, 3),
            "type": "object",
        },
    )


def _arrays(rng: random.Random) -> dict[str, Any]:
    def value() -> Any:
        return rng.choice([_numbers, _texts, _values, _objects, lambda rng: rng.random() < 0.7])(rng)

    return _some(
        rng,
        {
            "items": value(),
            "prefixItems": [value() for _ in range(rng.randint(1, 3))],
            "minItems": rng.randint(0, 2),
            "maxItems": rng.randint(1, 4),
        },
    )


def _values(rng: random.Random) -> dict[str, Any]:
    values = [
        "a",
        "ab",
        "12",
        "é",
        1,
        12,
        0.5,
        1.0,
        -3,
        None,
        True,
        [],
        [1],
        [1, "a"],
        {},
        {"a": 1},
        {"a": "b", "b": 1},
        {"a": 1, "b": [12]},
    ]
    return rng.choice(
        [{"enum": rng.sample(values, rng.randint(2, 9))}, {"enum": values}, {"const": rng.choice(values)}]
    )


def _mixed(rng: random.Random) -> dict[str, Any]:
    return rng.choice([_texts, _numbers, _objects, _arrays, _values])(rng)


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
