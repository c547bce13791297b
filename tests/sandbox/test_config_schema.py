"""A sampler's configuration: which schemas a host takes, which values a schema takes, and what the guest gets."""

from __future__ import annotations

import dataclasses
import time

import pytest

from sealhost.sandbox import AdmissionError, SamplingParams, SandboxError
from sealhost.sandbox.config_schema import (
    MAX_CONFIG_BYTES,
    MAX_DEPTH,
    MAX_NAMES,
    MAX_SCHEMAS,
    ConfigSchema,
    SchemaError,
    serialised,
)

VOCABULARY = 260
SCHEMA = {
    "type": "object",
    "title": "words for readers are not checked",
    "properties": {"tau": {"type": "number", "minimum": 0}, "mode": {"enum": ["fast", "slow"]}},
    "required": ["tau"],
    "additionalProperties": False,
}


def nested(levels: int) -> dict:
    return {} if levels == 1 else {"items": nested(levels - 1)}


GOOD = {
    "nothing is asked for": ({}, {"a": [1, None, {"b": True}]}),
    "an object": ({"type": "object"}, {}),
    "several types": ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": None}),
    "1.0 is an integer": ({"properties": {"a": {"type": "integer"}}}, {"a": 1.0}),
    "1.0 is 1": ({"properties": {"a": {"enum": [1]}}}, {"a": 1.0}),
    "objects are equal in any order": ({"properties": {"a": {"const": {"x": 1, "y": [2]}}}}, {"a": {"y": [2], "x": 1}}),
    "limits of other types do not count": ({"properties": {"a": {"minimum": 5, "maxLength": 1}}}, {"a": [1, 2]}),
    "limits are inclusive": ({"properties": {"a": {"minimum": 1, "maximum": 1}}}, {"a": 1}),
    "letters are code points": ({"properties": {"a": {"maxLength": 1}}}, {"a": "🦭"}),
    "other properties with a schema": ({"additionalProperties": {"type": "integer"}}, {"a": 1, "b": 2}),
    "all at once": (SCHEMA, {"tau": 0.5, "mode": "fast"}),
    "as deep as may be": (nested(MAX_DEPTH), {"a": 1}),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_configuration_that_fits_is_taken(name):
    schema, config = GOOD[name]
    ConfigSchema(schema).check(config)


BAD_VALUES = [
    ({"type": "object", "required": ["a"]}, {}, ".a", "to be there"),
    ({"properties": {"a": {"type": "integer"}}}, {"a": 1.5}, ".a", "expected integer, got 1.5"),
    ({"properties": {"a": {"type": "integer"}}}, {"a": True}, ".a", "got true"),
    ({"properties": {"a": {"type": "number"}}}, {"a": True}, ".a", "expected number"),
    ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": 1}, ".a", "expected string or null, got 1"),
    ({"properties": {"a": {"type": "object"}}}, {"a": []}, ".a", "expected object"),
    ({"properties": {"a": {"type": "array"}}}, {"a": {}}, ".a", "expected array"),
    ({"properties": {"a": {"type": "boolean"}}}, {"a": 0}, ".a", "expected boolean"),
    ({"properties": {"a": {"enum": [1, "x"]}}}, {"a": True}, ".a", 'expected one of 1, "x", got true'),
    ({"properties": {"a": {"enum": [1, 2], "const": 2}}}, {"a": 1}, ".a", "expected one of 2"),
    ({"properties": {"a": {"const": [1, [2]]}}}, {"a": [1, 2]}, ".a", "expected one of"),
    ({"properties": {"a": {"minimum": 1}}}, {"a": 0.5}, ".a", "at least 1, got 0.5"),
    ({"properties": {"a": {"maximum": 1}}}, {"a": 10**400}, ".a", "at most 1"),
    ({"properties": {"a": {"exclusiveMinimum": 1}}}, {"a": 1}, ".a", "more than 1"),
    ({"properties": {"a": {"exclusiveMaximum": 1}}}, {"a": 1}, ".a", "less than 1"),
    ({"properties": {"a": {"minLength": 2}}}, {"a": "é"}, ".a", "at least 2 letters, got 1"),
    ({"properties": {"a": {"maxLength": 2}}}, {"a": "abc"}, ".a", "at most 2 letters, got 3"),
    ({"properties": {"a": {"minItems": 1}}}, {"a": []}, ".a", "at least 1 items"),
    ({"properties": {"a": {"maxItems": 1}}}, {"a": [1, 2]}, ".a", "at most 1 items"),
    ({"minProperties": 1}, {}, "", "at least 1 properties"),
    ({"maxProperties": 1}, {"a": 1, "b": 2}, "", "at most 1 properties"),
    ({"additionalProperties": False}, {"a": 1}, ".a", "expected only nothing"),
    ({"properties": {"b": {}}, "additionalProperties": False}, {"a" * 99: 1}, "." + "a" * 64, "expected only b"),
    ({"additionalProperties": {"type": "string"}}, {"a": 1}, ".a", "expected string"),
    ({"properties": {"a": {"items": {"items": {"type": "string"}}}}}, {"a": [["x"], ["y", 0]]}, ".a[1][1]", "got 0"),
    ({"properties": {"a": {"type": "null"}}}, {"a": "x" * 999}, ".a", "xxx…"),
]


@pytest.mark.parametrize(("schema", "config", "place", "words"), BAD_VALUES)
def test_a_configuration_that_does_not_fit_is_refused_by_its_place(schema, config, place, words):
    with pytest.raises(SandboxError) as caught:
        ConfigSchema(schema).check(config)
    assert caught.value.where == "sampler_config" + place
    assert words in caught.value.problem
    assert len(str(caught.value)) < 800


BAD_SCHEMAS = [
    ({"pattern": "(a+)+$"}, "pattern"),
    ({"$ref": "#"}, r"\$ref"),
    ({"anyOf": []}, "anyOf"),
    ({"properties": {"a": {"format": "uri"}}}, "format.* at config_schema.a"),
    ({"type": "objekt"}, "objekt"),
    ({"type": 1}, "an array at config_schema.type"),
    ({"type": [1]}, "got 1"),
    ({"type": []}, "at least one"),
    ({"enum": {}}, "an array at"),
    ({"enum": list(range(MAX_NAMES + 1))}, f"at most {MAX_NAMES}"),
    ({"required": "a"}, "an array"),
    ({"required": [1]}, "names"),
    ({"required": [str(n) for n in range(MAX_NAMES + 1)]}, f"at most {MAX_NAMES}"),
    ({"properties": []}, "an object"),
    ({"properties": {"a": 1}}, "an object at config_schema.a"),
    ({"properties": {str(n): {} for n in range(MAX_NAMES + 1)}}, f"at most {MAX_NAMES}"),
    ({"additionalProperties": 1}, r"an object at config_schema.\*"),
    ({"items": True}, r"an object at config_schema\[\]"),
    ({"minimum": "1"}, "a number"),
    ({"maximum": True}, "a number"),
    ({"maxItems": -1}, "an integer|a integer"),
    ({"minLength": 1.5}, "integer"),
    (nested(MAX_DEPTH + 1), "levels"),
    ({"properties": {str(n): {"properties": {str(m): {} for m in range(60)}} for n in range(5)}}, f"{MAX_SCHEMAS} schemas"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "words"), BAD_SCHEMAS)
def test_a_schema_that_is_not_of_the_subset_refuses_its_plugin(schema, words, sandbox, build_guest):
    with pytest.raises(SchemaError, match=words):
        ConfigSchema(schema)
    guest = dataclasses.replace(build_guest("sampler"), config_schema=schema)
    with pytest.raises(AdmissionError, match=words) as caught:
        sandbox.load_sampler(guest, VOCABULARY)
    assert caught.value.clause == "1.14"


def test_a_tokenizer_with_a_schema_is_refused(sandbox, build_guest, byte_vocabulary):
    guest = dataclasses.replace(build_guest("tokenizer"), config_schema={})
    with pytest.raises(AdmissionError, match="no config_schema on a tokenizer"):
        sandbox.load_tokenizer(guest, byte_vocabulary)


@pytest.fixture(scope="module")
def configured(sandbox, build_guest):
    """Answers the row's config_length, then the first bytes of the configuration."""
    text = """(global $at (mut i32) (i32.const -1))
    (func (export "step") (param i32) (result i32)
      (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
      (i32.store (i32.const 8328)
        (select (i32.load (i32.const 8236)) (i32.load8_u (i32.add (i32.const 9216) (global.get $at)))
                (i32.lt_s (global.get $at) (i32.const 0))))
      (global.set $at (i32.add (global.get $at) (i32.const 1))) (i32.const 0))"""
    guest = dataclasses.replace(build_guest("sampler", text), config_schema=SCHEMA)
    return sandbox.load_sampler(guest, VOCABULARY)


def test_the_guest_gets_the_configuration_as_compact_json_with_sorted_keys(configured):
    raw = configured.config_bytes({"tau": 2, "mode": "slow"})
    assert raw == b'{"mode":"slow","tau":2}' == configured.config_bytes({"mode": "slow", "tau": 2})
    with configured.session(SamplingParams(), [1], config=raw) as session:
        found = [session.step()[0].tokens[0] for _ in range(1 + len(raw))]
    assert (found[0], bytes(found[1:])) == (len(raw), raw)


def test_no_configuration_is_no_bytes_unless_the_schema_needs_one(configured, sandbox, build_guest):
    with pytest.raises(SandboxError, match=r"sampler_config\.tau"):
        configured.config_bytes(None)
    easy = sandbox.load_sampler(dataclasses.replace(build_guest("sampler"), config_schema={}), VOCABULARY)
    assert (easy.config_bytes(None), easy.config_bytes({})) == (b"", b"{}")


def test_a_sampler_without_a_schema_takes_no_configuration(sandbox, build_guest):
    plain = sandbox.load_sampler(build_guest("sampler"), VOCABULARY)
    assert plain.config_bytes(None) == b""
    with pytest.raises(SandboxError, match="guest takes no configuration"):
        plain.config_bytes({})


def test_a_configuration_beyond_the_guests_room_is_refused(configured):
    with pytest.raises(SandboxError, match="at most 128 bytes of JSON for guest, got 139"):
        configured.config_bytes({"tau": 1, "mode": "x" * 120})


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"a": "x" * MAX_CONFIG_BYTES}, "at most 16384 bytes"),
        ({"a": [0] * 1_000_000}, "at most 16384 bytes"),
        ({"a": float("nan")}, "cannot be written"),
        ({"a": "\ud800"}, "cannot be written"),
        ({"a": {1}}, "cannot be written"),
    ],
    ids=["long", "many", "nan", "surrogate", "set"],
)
def test_what_is_no_small_json_is_refused(config, words):
    with pytest.raises(SandboxError, match=words):
        serialised(config)


def test_a_value_without_end_is_refused():
    config: dict = {}
    config["a"] = [config]
    with pytest.raises(SandboxError, match="cannot be written"):
        serialised(config)


def test_the_costliest_configuration_is_checked_in_bounded_time():
    many = {"a": [{}] * 5000}
    assert len(serialised(many)) < MAX_CONFIG_BYTES
    began = time.process_time()
    one_of = ConfigSchema({"properties": {"a": {"items": {"enum": [{"x": n} for n in range(MAX_NAMES - 1)] + [{}]}}}})
    one_of.check(many)
    with pytest.raises(SandboxError):
        one_of.check({"a": [{}] * 4999 + [{"x": "y"}]})
    assert time.process_time() - began < 1
