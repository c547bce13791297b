"""Schemas that nobody means well: the guest `json` answers or refuses each within a bound of instructions, and goes on."""

from __future__ import annotations

import random
from typing import Any

import pytest
import wasmtime
from grammar_guest import SMALL, GrammarGuest
from json_reference import dumps
from plugin_harness import GuestRefusedError

from sealhost.plugins import reference_plugin

MOST = 130_000_000
"""Instructions of one step: about 30 ms."""


@pytest.fixture(scope="module")
def hostile_guest(guest_engine):
    module = reference_plugin("sampler", "json") / "plugin.wasm"
    return GrammarGuest(guest_engine, wasmtime.Module(guest_engine, module.read_bytes()))


def pairs(count: int, of: Any = lambda i, j: {"minLength": 2 * i + j}) -> list[dict[str, Any]]:
    """So many choices between two schemas, all of which hold at once: 2^count ways."""
    return [{"anyOf": [of(i, j) for j in range(2)]} for i in range(count)]


RANGES = "".join(f"\\u{60000 - 20 * i:04x}-\\u{60003 - 20 * i:04x}" for i in range(400))
HOSTILE = {
    "words for readers, met again in each way": dumps({"allOf": pairs(60, lambda i, j: {"$ref": "#/$defs/a"} if j else {"minLength": i})})[:-1]
    + ',"$defs":{"a":{' + ",".join(['"title":1'] * 1000) + "}}}",
    "a long list of types": dumps({"allOf": pairs(30), "type": ["string"] * 900}),
    "a number of many digits": dumps({"allOf": pairs(20)})[:-1] + ',"minLength":0.' + "0" * 9000 + "}",
    "many schemas for each of many items": dumps({"properties": {f"p{k}": {"$ref": "#/$defs/a", "minItems": k} for k in range(60)}, "$defs": {"a": {"maxItems": 1024, "allOf": [{"items": {"minLength": i}} for i in range(120)]}}}),
    "references that have far to go": dumps({"$defs": {**{f"a{i}": {} for i in range(500)}, "z": {}}, "allOf": pairs(100, lambda i, j: {"$ref": "#/$defs/z"} if j else {"minimum": i})}),
    "a class for each of many values": dumps({"enum": [str(i) for i in range(900)], "pattern": f"[{RANGES}]"}),
    "a class that comes again and again": dumps({"pattern": f"([{RANGES}]{{1000}}){{30}}"}),
    "long texts": dumps({"allOf": pairs(14), "enum": ["x" * 7000, "y" * 7000]}),
    "names in many lists": dumps({"allOf": [{"properties": {f"a{i}_{k}": True for i in range(60)}} for k in range(15)]}),
    "large values that have to be equal": dumps({"allOf": [{"enum": [{f"k{i}": i for i in range(200)}]}] * 3, "properties": {f"k{i}": {"minimum": 0} for i in range(200)}}),
    "members that are counted, of patterns that are large": dumps({"maxProperties": 1024, "patternProperties": {"a.{20}b": {}, "c.{20}d": {}}}),
    "steps at many bounds": dumps({"properties": {f"p{i}": {"multipleOf": 1023, "minimum": i / 7, "maximum": 10**6 + i} for i in range(150)}}),
    "values at many choices": dumps({"enum": list(range(1000)), "anyOf": [{"multipleOf": i + 2} for i in range(200)]}),
    "values in two long lists": dumps({"allOf": [{"enum": list(range(1000))}, {"enum": list(range(1000, 2200))}]}),
    "choices at choices": dumps({"anyOf": [{"minimum": i} for i in range(300)], "oneOf": [{"maximum": i} for i in range(300)]}),
    "an address that has to be long": dumps({"format": "email", "minLength": 200}),
    "names that name each other": dumps({"propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"enum": [{"a": 1}, "b"], "propertyNames": {"$ref": "#/$defs/n"}}}}),
    "a pattern for each of many names": dumps({"properties": {f"p{i}": {} for i in range(500)}, "propertyNames": {"pattern": "^(?!q)[a-z]{1,50}[0-9]{1,50}$", "maxLength": 500}}),
    "names looked for by what they are called": dumps({"allOf": [{"$ref": f"#a{i}"} for i in range(150)], "$defs": {f"d{i}": {"$anchor": f"a{i}", "minLength": i} for i in range(150)}}),
    "conditions without an end": dumps({"pattern": "^" + "(?=(" * 800}),
    "conditions": dumps({"pattern": "^" + "".join(f"(?!.{{{i}}}a)" for i in range(9, 300)) + "b"}),
    "formats that have to fit at once": dumps({"allOf": [{"format": "uri"}, {"pattern": "^https?://"}, {"pattern": "[0-9]$"}]}),
    "a count of what is within": dumps({"maxProperties": 1024, "minProperties": 1, "additionalProperties": {"properties": {"x": {"$ref": "#"}}}}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_work_is_bounded_whatever_a_schema_multiplies(name, hostile_guest):
    assert len(dumps({"schema": HOSTILE[name]}).encode()) <= 16_384
    refusal = hostile_guest.refusal({"schema": HOSTILE[name]})
    assert refusal is None or any(words in refusal for words in ("make it simpler", "some text fits", "schema: "))
    assert hostile_guest.spent < MOST
    assert hostile_guest.takes({"schema": {"const": 1}}, b"1")


KEYWORDS = (
    "type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "items", "additionalItems", "prefixItems", "minItems",
    "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "$ref",
)  # fmt: skip
SCALARS = (
    0, 1, 2, 3, 7, 100, 1024, 1025, 4096, 0.5, 0.01, -1, -0.0, 1e-5, 1e16, 12345678901234567890, 1e300, True, False, None, "", "a", "^a", "b$", "date", "uri", "email", "hostname",
    "string", "integer", "object", "array", "#", "#/$defs/a", "#/$defs/b", "#/properties/a", "[a-z]+", "^(?=a)(?!b)", "(a|b)*", "\\", "é", "\u0001", ".*", "^.{3}$",
)  # fmt: skip


def junk(rng: random.Random, depth: int) -> Any:
    """Any value, mostly one that is no schema."""
    if depth > 4 or rng.random() < 0.4:
        return rng.choice(SCALARS)
    if rng.random() < 0.4:
        return [junk(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return any_schema(rng, depth + 1)


def any_schema(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """Keywords with values that mostly are of their kind."""
    words = rng.sample(KEYWORDS, rng.randint(0, 4) if depth < 5 else 0)
    return {word: junk(rng, depth + 1) if rng.random() < 0.25 else _value(rng, word, depth + 1) for word in words}


def _value(rng: random.Random, word: str, depth: int) -> Any:
    inner = [any_schema(rng, depth) for _ in range(rng.randint(1, 3))]
    if word in ("allOf", "anyOf", "oneOf", "prefixItems"):
        return inner
    if word in ("properties", "patternProperties"):
        return dict(zip(("a", "^a", "b$"), inner, strict=False))
    plain = {
        "items": inner[0],
        "additionalProperties": inner[0],
        "$ref": rng.choice(["#", "#/$defs/a", "#/$defs/b"]),
        "required": ["a", "b"][: rng.randint(0, 2)],
        "type": rng.choice(["string", "integer", "number", "object", "array", "null"]),
    }
    return plain[word] if word in plain else junk(rng, depth)


def test_schemas_by_chance_are_answered_or_refused(hostile_guest):
    answered = 0
    for seed in range(600):
        rng = random.Random(seed)
        raw = dumps({**any_schema(rng), "$defs": {"a": any_schema(rng, 2), "b": any_schema(rng, 2)}})
        generated: list[int] = []
        try:
            while len(generated) < 6 and SMALL.eos not in generated:
                allowed = hostile_guest.allowed({"schema": raw}, generated, new=not generated)
                assert allowed, raw
                assert hostile_guest.spent < MOST, raw
                generated.append(rng.choice(sorted(allowed)))
            answered += 1
        except GuestRefusedError:
            assert not generated, raw  # what is begun goes on
    assert answered > 100
