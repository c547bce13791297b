"""The guest `json`: its masks against a brute-force acceptor, its answers against `jsonschema`, its bounds and refusals."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal

import jsonschema
import pytest
import wasmtime
from grammar_guest import SMALL, GrammarGuest
from grammar_reference import Read
from json_reference import CHECKER, Texts, dumps
from json_schemas import COMMON, SCHEMAS, WIDER, random_join, random_schema
from plugin_harness import GuestRefusedError

from sealhost.plugins import reference_plugin


@pytest.fixture(scope="module")
def json_module(guest_engine):
    return wasmtime.Module(guest_engine, (reference_plugin("sampler", "json") / "plugin.wasm").read_bytes())


@pytest.fixture(scope="module")
def json_guest(guest_engine, json_module):
    return GrammarGuest(guest_engine, json_module)


def expected(read: Read) -> set[int]:
    found = {id_ for id_, text in enumerate(SMALL.texts) if text and read.take(text).lives}
    return found | ({SMALL.eos} if read.ends else set())


def drawn(rng: random.Random, allowed: set[int]) -> int:
    """An id, such that structure comes more often than its number says; letters alone would never end."""
    marks = [id_ for id_ in allowed if set(SMALL.texts[id_]) <= set(b'{}[]":, 01tfn')]
    return rng.choice(sorted(marks if marks and rng.random() < 0.7 else allowed))


def compare(guest: GrammarGuest, schema: object, seed: object, steps: int) -> None:
    rng, config = random.Random(str(seed)), {"schema": dumps(schema)}
    read, generated = Read(Texts(schema).of(schema)), []
    # clause 1.4: other names that would have to differ are refused, wherever they stand
    refusal = guest.refusal(config) or ""
    if "at most one more than there are names" in refusal or (not read.lives and "some text fits" in refusal):
        return
    if "make it simpler" in refusal and "propertyNames" in config["schema"]:  # many patterns of names at once
        return
    assert read.lives, schema
    for _step in range(steps):
        allowed = guest.allowed(config, generated, new=not generated)
        assert allowed == expected(read), (seed, schema, b"".join(SMALL.texts[id_] for id_ in generated))
        chosen = drawn(rng, allowed)
        if chosen == SMALL.eos:
            break
        generated.append(chosen)
        read = read.take(SMALL.texts[chosen])


ALL = [*SCHEMAS, *WIDER, *COMMON]


@pytest.mark.parametrize("number", range(len(ALL)))
def test_masks_equal_a_brute_force_acceptor_over_the_whole_vocabulary(number, json_guest):
    for walk in range(2):
        compare(json_guest, ALL[number], (number, walk), 14)


COUNTED = [
    ({"items": {"pattern": "^(a|é|[0-9]b)*$", "maxLength": 24}}, '["' + "aé1b" * 6 + '","' + "aa" * 9),
    ({"items": {"pattern": "a", "maxLength": 40}}, '["' + "abé" * 13 + 'a","' + "b" * 39 + 'a"'),
    ({"properties": {"x": {"format": "email", "maxLength": 30}}}, '{"x":"' + "a" * 20 + "@b.example"),
    ({"anyOf": [{"pattern": "^[ab]*$", "maxLength": 20}, {"pattern": "^[a-c]*$", "maxLength": 25}, {"pattern": "^(aa)*$"}]}, '"' + "a" * 26),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text"), COUNTED, ids=range(len(COUNTED)))
def test_letters_are_counted_to_the_last_one(schema, text, json_guest):
    read, config, generated = Read(Texts(schema).of(schema)), {"schema": dumps(schema)}, []
    for byte in [*text.encode(), None]:
        assert json_guest.allowed(config, generated, new=not generated) == expected(read), bytes(generated)
        if byte is not None:
            generated.append(byte)
            read = read.take(bytes([byte]))


def test_masks_of_random_schemas_equal_the_acceptor(json_guest):
    for seed in range(40):
        compare(json_guest, random_schema(random.Random(seed)), seed, 8)


def test_masks_of_random_schemas_that_hold_at_once_equal_the_acceptor(json_guest):
    for seed in range(60):
        compare(json_guest, random_join(random.Random(seed)), seed, 8)


@pytest.mark.soak
def test_masks_of_many_schemas_that_hold_at_once_equal_the_acceptor(json_guest):
    for seed in range(1000, 2000):
        compare(json_guest, random_join(random.Random(seed)), seed, 20)


@pytest.mark.soak
def test_masks_of_many_random_schemas_equal_the_acceptor(json_guest):
    for seed in range(1000, 1400):
        compare(json_guest, random_schema(random.Random(seed)), seed, 20)


def an_answer(guest: GrammarGuest, schema: object, seed: object) -> bytes | None:
    rng, config, generated = random.Random(str(seed)), {"schema": dumps(schema)}, []
    for _step in range(150):
        allowed = guest.allowed(config, generated, new=not generated)
        ends = [id_ for id_ in allowed if id_ == SMALL.eos or set(SMALL.texts[id_]) <= set(b'"}]')]
        chosen = rng.choice(sorted(ends)) if ends and rng.random() < 0.3 else drawn(rng, allowed)
        if chosen == SMALL.eos:
            return b"".join(SMALL.texts[id_] for id_ in generated)
        generated.append(chosen)
    return None


def exact(raw: str | bytes) -> object:
    """With decimals, for in floats 81.105 is no multiple of 0.015."""

    def number(text: str) -> Decimal | int:
        return int(value) if (value := Decimal(text)) == value.to_integral_value() else value

    return json.loads(raw, parse_float=number)


def test_whatever_ends_is_json_that_fits(json_guest):
    ended = 0
    joined = [random_join(random.Random(seed)) for seed in range(100)]
    joined = [schema for schema in joined if json_guest.refusal({"schema": dumps(schema)}) is None]
    assert len(joined) > 50
    for number, schema in enumerate([*ALL, *(random_schema(random.Random(seed)) for seed in range(40)), *joined]):
        for walk in range(2):
            if (answer := an_answer(json_guest, schema, (number, walk))) is not None:
                jsonschema.validate(exact(answer), exact(dumps(schema)), format_checker=CHECKER)
                ended += 1
    assert ended > 300


FITTING = [
    ({}, [1, -2.5, 'a"b', None, True, [], {}, [1, [2, {"a": None}]], {"x": {"y": [1]}, "z": "é"}]),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, [{"a": 1}, {"a": -3, "b": [1]}]),
    ({"type": ["string", "null"], "maxLength": 3}, ["", "abc", "日本é", None, '\n\\"']),
    ({"type": "integer", "minimum": -120, "maximum": 1999}, [-120, -7, 0, 5, 99, 1000, 1999]),
    ({"type": "integer", "exclusiveMinimum": 7, "exclusiveMaximum": 70007}, [8, 10, 99, 100, 70006]),
    ({"type": "integer", "minimum": 3}, [3, 10, 12345678]),
    ({"type": "number", "minimum": 0, "maximum": 1}, [0, 1, 0.5, 0.25]),
    ({"type": "number", "exclusiveMinimum": 0}, [1, 0.5, 12.75]),
    ({"type": "number", "minimum": -2, "maximum": -1}, [-2, -1, -1.5]),
    ({"type": "string", "pattern": "b+"}, ["b", "abc", '"b"', "é\nb"]),
    ({"type": "string", "pattern": "^[a-c]{2}$"}, ["ab", "cc"]),
    ({"type": "string", "pattern": "^x|y$"}, ["x", "xab", "y", "aby"]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1, "b": 2}]),
    ({"properties": {"ab": {"type": "integer"}}, "additionalProperties": True}, [{"ab": 1}, {"a": "x", "abc": 2}, {"ab": 1, "b": None}]),
    ({"required": ["q"]}, [{"q": 1}, {"q": [], "r": 2}]),
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}, [[], [1], [1, "a"]]),
    ({"items": {"type": "boolean"}, "minItems": 2, "maxItems": 3}, [[True, False], [True, True, True]]),
    ({"enum": ["a", 1, None, {"b": [1, {"c": "d"}]}, [], 'q"']}, ["a", 1, None, {"b": [1, {"c": "d"}]}, [], 'q"']),
    ({"type": "string", "enum": ["a", 1]}, ["a"]),
    ({"type": "string", "anyOf": [{"maxLength": 2}, {"minLength": 4}, {"const": "abc"}]}, ["", "ab", "abc", "abcde"]),
    ({"type": "number", "anyOf": [{"type": "integer"}, {"const": 0.5}]}, [1, 0.5]),
    ({"type": "object", "anyOf": [{"required": ["a"]}, {"$ref": "#/$defs/b", "type": "object"}], "$defs": {"b": {"properties": {"b": {"type": "integer"}}}}}, [{"a": 1}, {"b": 1}]),
    ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "string"}}}], "minProperties": 2}, [{"a": 1, "b": "x"}]),
    ({"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^[a-c]+$"}, {"maxLength": 4}]}, ["ab", "abca"]),
    ({"$ref": "#/$defs/a", "required": ["b"], "$defs": {"a": {"properties": {"a": {"type": "integer"}, "b": {}}}}}, [{"b": []}, {"a": 1, "b": None}]),
    ({"enum": [1, "abcd", [1, 2], {"a": 1}, None, 2000], "maximum": 1999, "items": {"minimum": 1}, "minLength": 4}, [1, "abcd", [1, 2], {"a": 1}, None]),
    ({"type": "number", "minimum": -0.5, "exclusiveMaximum": 2.25}, [-0.5, 0, 0.0, 1, 2, 2.2499]),
    ({"type": "number", "exclusiveMinimum": 0.125, "maximum": 10.5}, [0.1250000001, 1, 9, 10, 10.5, 10.49]),
    ({"type": "integer", "minimum": -2.5, "maximum": 1999.5}, [-2, 0, 1999]),
    ({"multipleOf": 0.01}, [0, 1, 0.5, -3, 0.01, 2000, 1.25, -12345.67]),
    ({"type": "integer", "multipleOf": 5}, [0, 5, 2000, 1000000000000005, -15]),
    ({"type": "integer", "multipleOf": 500, "minimum": 1}, [500, 2000, 12345500]),
    ({"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}, [{}, {"a": 1, "b": "x", "ab": 2}]),
    ({"type": "object", "minProperties": 1, "maxProperties": 2, "properties": {"a": {}, "b": {}}}, [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}]),
    ({"type": "array", "maxItems": 1, "uniqueItems": True}, [[], [1]]),
    ({"properties": {"a": {"$ref": "urn:b"}, "b": {"$ref": "#/$defs/c"}}, "$defs": {"c": {"const": 1}, "b": {"$id": "urn:b", "$ref": "#/$defs/c", "$defs": {"c": {"const": "b"}}}}},
     [{"a": "b", "b": 1}]),
    ({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}}},
     [{}, {"kids": []}, {"kids": [{}, {"kids": [{}]}]}]),
]  # fmt: skip
"""Schemas, and values that fit them."""

MISFITS = [
    1,
    -3,
    0.5,
    2000,
    "",
    "a",
    "abcd",
    "\n",
    None,
    True,
    [],
    [1],
    [1, 2, 3, 4],
    ["a"],
    {},
    {"a": "x"},
    {"b": 1},
    {"ab": "x"},
    {"kids": 1},
]


@pytest.mark.parametrize(("schema", "values"), FITTING, ids=range(len(FITTING)))
def test_what_fits_is_taken_and_what_does_not_is_not(schema, values, json_guest):
    config = {"schema": dumps(schema)}
    for value in values:
        jsonschema.validate(value, schema)
        for raw in (dumps(value), json.dumps(value, ensure_ascii=False)):
            if raw == dumps(value) or "enum" not in schema:  # clause 2.1: literal values are compact
                assert json_guest.takes(config, raw.encode()), raw
    for value in MISFITS:
        if not jsonschema.Draft202012Validator(schema).is_valid(value):
            assert not json_guest.takes(config, dumps(value).encode()), value


def test_a_schema_as_an_object_is_the_same_as_one_as_a_text(json_guest):
    schema = {"type": "object", "properties": {"a": {"const": 'x"'}}, "required": ["a"]}
    for config in ({"schema": schema}, {"schema": dumps(schema)}):
        assert json_guest.takes(config, b'{"a": "x\\""}')


@pytest.mark.parametrize(
    "text",
    [
        b"{ }",
        b"[1 ]",
        b"[1,  2]",
        b" {}",
        b'{"a" :1}',
        b"{\n}",
        b"01",
        b"+1",
        b'"\x01"',
        b'"\\x"',
        b"{,}",
        b"[1,]",
        b'"\\ud800"',
        b"1e400",
    ],
)
def test_what_is_no_json_or_has_other_space_is_not_taken(text, json_guest):
    assert not json_guest.takes({"schema": True}, text)


REFUSED = {
    "not": ({"properties": {"a": {"not": {}}}}, "keyword: expected one of the subset in the guest's README, got not"),
    "if": ({"if": {}}, "got if"),
    "contains": ({"allOf": [{"type": "array"}, {"contains": {}}]}, "got contains"),
    "a misspelt keyword": ({"type": "object", "propertys": {}}, "got propertys"),
    "uniqueItems": ({"uniqueItems": True}, "uniqueItems: expected false, at most one item, or items with an enum of at most 8"),
    "uniqueItems of many": ({"uniqueItems": True, "items": {"enum": list(range(9))}}, "uniqueItems: expected false"),
    "uniqueItems of equal values": ({"uniqueItems": True, "items": {"enum": [1, 1.0]}}, "uniqueItems: expected false"),
    "uniqueItems of choices": ({"uniqueItems": True, "items": {"anyOf": [{"const": 1}, {"const": 2}]}}, "uniqueItems: expected false"),
    "more different items than there are": ({"uniqueItems": True, "items": {"enum": [1, 2]}, "minItems": 3}, "some text fits"),
    "a step of many digits": ({"multipleOf": 1.0009}, "multipleOf: expected a number whose digits are at most 1024"),
    "steps without a common one": ({"allOf": [{"multipleOf": 1e-16}, {"multipleOf": 1e15}]}, "multipleOf: expected a number over 0 of at most 17 digits"),
    "a step of nothing": ({"multipleOf": 0}, "multipleOf: expected a number over 0"),
    "a limit beyond the numbers that are written": ({"minimum": 1e17}, "some text fits"),
    "a limit of many digits": ({"minimum": 10**65}, "minimum: expected a number of at most 64 characters"),
    "a list of items beside another": ({"items": [{}], "prefixItems": [{}]}, "items: expected a schema beside prefixItems"),
    "an anchor that is nowhere": ({"$ref": "#a", "$defs": {"a": {}}}, "$ref: expected #, #/..., #anchor or the $id"),
    "a value of many digits beside limits": ({"enum": [1, 1e-20], "minimum": 0}, "const: expected a number of at most 16 digits"),
    "other names that count": ({"minProperties": 2}, "minProperties: expected at most one more than there are names"),
    "many patterns of names": ({"patternProperties": {f"^{i}": {} for i in range(10)}}, "patternProperties: expected at most 9 patterns"),
    "many patterns": ({"allOf": [{"pattern": f"^.{{{i}}}"} for i in range(11)]}, "pattern: expected at most 10 patterns"),
    "a pattern of names that is none": ({"patternProperties": {"(?=a)": {}}}, "pattern: expected a plain group"),
    "names that may be one thing or another": ({"propertyNames": {"anyOf": [{"const": "a"}, {"pattern": "^b"}]}}, "propertyNames: expected limits of texts or a list of names"),
    "names of many patterns": ({"propertyNames": {"allOf": [{"pattern": f"^.{{{i}}}"} for i in range(10)]}}, "propertyNames: expected fewer patterns"),
    "a name that is needed and not taken": ({"propertyNames": {"maxLength": 1}, "required": ["ab"]}, "some text fits"),
    "names of names": ({"propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"enum": [{"a": 1}], "propertyNames": {"$ref": "#/$defs/n"}}}, "minProperties": 1}, "some text fits"),
    "a format that is no text": ({"format": 1}, "format: expected a text"),
    "unknown type": ({"type": "text"}, "type: expected null, boolean"),
    "unknown type within": ({"allOf": [{"type": "string"}, {"type": ["null", "text"]}]}, "type: expected null, boolean"),
    "ref outside": ({"$ref": "https://example.org/a"}, "$ref: expected #"),
    "ref to nothing": ({"$ref": "#/$defs/a", "minLength": 1}, "$ref: expected #"),
    "a pattern": ({"pattern": "(?=a)"}, "pattern: expected a plain group: no names or flags, and no look-around but"),
    "a look ahead of one of several alternatives": ({"pattern": "^(?=a)ab|c"}, "pattern: expected a plain group"),
    "a look ahead that is no pattern": ({"pattern": "^(?!(a)b"}, "pattern: expected a plain group"),
    "a look ahead that nothing passes": ({"pattern": "^(?=a)(?!a)"}, "some text fits"),
    "half a letter": ({"minLength": 0.5}, "minLength: expected a whole number"),
    "long": ({"minLength": 1e10}, "minLength: expected at most 1000000000"),
    "many items": ({"maxItems": 1025}, "maxItems: expected at most 1024"),
    "no schema": ({"items": 3}, "schema: expected an object, true or false"),
    "no list": ({"anyOf": {}}, "anyOf: expected a list of schemas"),
    "no names": ({"required": [1]}, "required: expected a list of names"),
    "nothing fits": ({"type": "string", "enum": [1]}, "some text fits"),
    "types that have nothing in common": ({"allOf": [{"type": ["string", "null"]}, {"type": "number"}]}, "some text fits"),
    "lengths that have nothing in common": ({"$ref": "#/$defs/a", "maxLength": 2, "$defs": {"a": {"minLength": 3}}}, "some text fits"),
    "patterns that have nothing in common": ({"allOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, "some text fits"),
    "a format that is too short": ({"format": "uuid", "maxLength": 35}, "some text fits"),
    "a value that does not fit": ({"const": [1, {"a": 2}], "items": {"maximum": 1, "required": ["b"]}}, "some text fits"),
    "an object that is closed before it has what it needs": ({"allOf": [{"required": ["a"]}, {"additionalProperties": False}]}, "some text fits"),
    "more members than there are": ({"properties": {"a": {}}, "minProperties": 2}, "some text fits"),
    "nothing fits at any depth": ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "some text fits"),
    "a loop": ({"$ref": "#"}, "some text fits"),
    "a loop beside something": ({"allOf": [{"$ref": "#"}], "type": "string"}, "some text fits"),
    "false": (False, "some text fits"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_schema_beyond_the_subset_is_refused_with_the_keyword(name, json_guest):
    schema, text = REFUSED[name]
    with pytest.raises(GuestRefusedError, match=re.escape(text)):
        json_guest.allowed({"schema": dumps(schema)})
    assert json_guest.takes({"schema": {"const": 1}}, b"1")  # and the guest goes on


def exponential(depth: int) -> dict:
    """Each level offers two arrays that begin alike, so that a text of n brackets has 2^n readings."""
    levels = {
        f"l{i}": {
            "anyOf": [{"prefixItems": [{"$ref": f"#/$defs/l{i + 1}"}], "minItems": n, "type": "array"} for n in (1, 2)]
        }
        for i in range(depth)
    }
    return {"$ref": "#/$defs/l0", "$defs": {**levels, f"l{depth}": {"type": "integer"}}}


HEAVY = {
    "opened and never closed": '{"items":' * 1_350,
    "nested as deep as a configuration holds": '{"items":' * 1_200 + "{}" + "}" * 1_200,
    "references that go on and on": dumps({"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(400)}, "d400": {"type": "null"}}}),
    "exponential": dumps(exponential(40)),
    "long arrays of long arrays": dumps({"items": {"items": {"type": "string", "maxLength": 4096}, "minItems": 1000}, "minItems": 1000}),
    "many optional properties": dumps({"properties": {f"p{i}": {"type": "integer", "minimum": -i} for i in range(300)}}),
    "many patterns": dumps({"properties": {f"p{i}": {"pattern": "^(.{100}a){50}$"} for i in range(90)}}),
    "a large list": dumps({"enum": list(range(2500))}),
    "choices beside choices": dumps({"allOf": [{"anyOf": [{"minLength": 2 * i + j} for j in range(2)]} for i in range(30)]}),
    "schemas that grow as they are followed": dumps({"properties": {f"p{i}": {"allOf": [{"$ref": "#"}, {"properties": {f"p{i}": {"minLength": i}}}]} for i in range(40)}}),
    "patterns that have to fit at once": dumps({"allOf": [{"pattern": f"^(a|b)*a(a|b){{{i}}}$"} for i in range(8, 13)]}),
    "many patterns of names with many names": dumps({"properties": {f"p{i}": {} for i in range(400)}, "patternProperties": {f"{i}.*{i}": {} for i in range(9)}}),
    "long values in long lists": dumps({"allOf": [{"enum": [[i + 100, *range(8)] for i in range(150)]}] * 2, "uniqueItems": True}),
    "members that are counted": dumps({"properties": {f"p{i}": {"format": "uri"} for i in range(200)}, "minProperties": 100, "maxProperties": 150}),
    "formats that are long and have to be short": dumps({"allOf": [{"format": "uri"}, {"format": "email"}, {"pattern": "a.*b.*c"}], "maxLength": 4000}),
    "steps of a large prime": dumps({"type": "integer", "multipleOf": 997}),
    "schemas in schemas at one place": dumps({"allOf": [{"allOf": [{"allOf": [{"minLength": i} for i in range(9)]} for _ in range(9)]} for _ in range(4)]}),
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_schemas_are_served_or_refused_within_a_bound_of_instructions(name, json_guest):
    raw, most = HEAVY[name], 0
    try:
        for prefix in ("", "[", "[[", "[[[[[[[[[[[[[[["):
            json_guest.allowed({"schema": raw}, list(prefix.encode()))
            most = max(most, json_guest.spent)
    except GuestRefusedError as error:
        assert any(words in str(error) for words in ("too many", "fits the grammar", "expected a configuration"))  # noqa: PT017 -- either way is fine
    assert max(most, json_guest.spent) < 100_000_000


def test_a_member_that_can_never_end_is_never_begun(json_guest):
    endless = {"properties": {"x": {"$ref": "#/$defs/endless"}}, "required": ["x"]}
    schema = {"properties": {"ab": {"$ref": "#/$defs/endless"}, "name": {"const": 1}}, "$defs": {"endless": endless}}
    config = {"schema": dumps(schema)}
    assert {SMALL.texts[id_] for id_ in json_guest.allowed(config, list(b'{"'))} == {b"n", b"name"}
    assert json_guest.takes(config, b"{}")


def test_what_nests_too_deeply_is_not_begun_and_what_is_begun_can_end(json_guest):
    config, generated = {"schema": dumps({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"const": 1}]}})}, []
    while ord("[") in json_guest.allowed(config, generated, new=not generated):
        generated.append(ord("["))
    assert 40 <= len(generated) <= 100
    while SMALL.eos not in (allowed := json_guest.allowed(config, generated, new=False)):
        generated.append(min(allowed & {ord("]"), ord("1")}))
    assert json.loads(bytes(generated)) is not None


def test_what_has_to_nest_too_deeply_is_refused_with_the_bound(json_guest):
    deep = {f"d{i}": {"items": {"$ref": f"#/$defs/d{i + 1}"}, "minItems": 1, "type": "array"} for i in range(110)}
    refusal = json_guest.refusal({"schema": dumps({"$ref": "#/$defs/d0", "$defs": {**deep, "d110": {}}})})
    assert "that some text fits with at most 96 open calls" in (refusal or "")
    refusal = json_guest.refusal({"schema": dumps({"$ref": "#/$defs/d0", "$defs": {**deep, "d110": False}})})
    assert "that some text fits, got one that none does" in (refusal or "")


def test_a_long_answer_of_new_places_goes_on(json_guest):
    """More positions than there is room for: what is not at hand is forgotten and made again."""
    schema = {
        "type": "array",
        "items": {"type": "array", "items": {"type": "string", "maxLength": 4000}, "maxItems": 900},
        "maxItems": 900,
    }
    config, generated = {"schema": dumps(schema)}, []
    for byte in b'[["' + b"a" * 300 + b'","' + b"b" * 300 + b'"],["c"':
        assert byte in json_guest.allowed(config, generated, new=not generated)
        generated.append(byte)
