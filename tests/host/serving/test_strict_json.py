"""The shape of a body is known before it is parsed, exactly and in little time."""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
from typing import Any

import pytest

from sealhost.host.errors import RequestError
from sealhost.host.serving import strict_json
from sealhost.host.serving.strict_json import MAX_DEPTH, MAX_PARTS, parse_object

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def shape_letter_by_letter(body: bytes) -> tuple[int, int]:
    depth = deepest = parts = 0
    for letter in _STRING.sub(b"", body):
        depth += (letter in b"[{") - (letter in b"]}")
        deepest, parts = max(deepest, depth), parts + (letter in b"[{:")
    return deepest, parts


def value(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth and kind < 0.3:
        return [value(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    if depth and kind < 0.6:
        return {text(chance): value(chance, depth - 1) for _ in range(chance.randint(0, 4))}
    return text(chance)


def text(chance: random.Random) -> str:
    return "".join(chance.choices('\\\\\\""[]{}:é\n', k=chance.randint(0, 9)))


@pytest.mark.parametrize("seed", range(300))
def test_shape_is_that_of_the_brackets_outside_of_strings(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    body = json.dumps({"a": value(chance, 6)}, ensure_ascii=chance.random() < 0.5).encode()
    body = body[: chance.choice([len(body), chance.randint(0, len(body))])]
    monkeypatch.setattr(strict_json, "MAX_DEPTH", 0)  # else few marks are not looked at closely
    monkeypatch.setattr(strict_json, "_BLOCK", chance.randint(1, 20))
    if body.count(b"["):
        assert tuple(strict_json._shape(body))[:2] == shape_letter_by_letter(body)


@pytest.mark.parametrize("backslashes", range(6))
@pytest.mark.parametrize("block", range(1, 9))
def test_a_run_of_backslashes_may_cross_blocks(backslashes: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "MAX_DEPTH", 0)
    monkeypatch.setattr(strict_json, "_BLOCK", block)
    body = b'{"a":"' + b"\\" * backslashes + b'[":[["'
    assert tuple(strict_json._shape(body))[:2] == shape_letter_by_letter(body)


@pytest.mark.parametrize(
    "many",
    [
        [[] for _ in range(MAX_PARTS - 1)],
        [{"a": 1} for _ in range(MAX_PARTS // 2)],
        {str(one): 1 for one in range(MAX_PARTS - 1)},
    ],
    ids=["arrays", "objects", "members"],
)
def test_more_parts_than_any_request_has_are_refused(many: Any) -> None:
    with pytest.raises(RequestError, match=f"at most {MAX_PARTS} arrays, objects and members"):
        parse_object(json.dumps({"a": many}).encode())
    many.pop() if isinstance(many, list) else many.popitem()
    many.pop() if isinstance(many, list) else many.popitem()
    assert parse_object(json.dumps({"a": many}).encode()) == {"a": many}


def test_colons_and_brackets_of_texts_are_no_parts() -> None:
    body = {"a": '[{:"\\' * MAX_PARTS, "b": [[1]] * MAX_DEPTH}
    assert parse_object(json.dumps(body).encode()) == body


HEAVY = {
    "quotes": b'"' * (8 << 20),
    "strings": b'{"a":[' + b"[]," * 99 + b'"",' * 2_700_000 + b"0]}",
    "objects": b'{"a":[' + b'{"a":1},' * 1_000_000 + b"0]}",
    "members": b"{" + b",".join(b'"%x":1' % one for one in range(700_000)) + b"}",
    "backslashes": b'{"a":[' + b"[]," * 99 + b'"' + b"\\" * (8 << 20) + b'"]}',
    "colons in a text": b'{"a":"' + b":" * (8 << 20) + b'"}',
    "ends of names in a text": b'{"a":"' + b'\\":' * 2_700_000 + b'"}',
    "numbers beside a name that comes twice": b'{"a":[' + b"1," * 4_000_000 + b'1],"a":1}',
}


@pytest.mark.parametrize("body", HEAVY.values(), ids=HEAVY.keys())
def test_the_largest_body_is_looked_at_in_a_fraction_of_a_second(body: bytes) -> None:
    began = time.thread_time()
    with contextlib.suppress(RequestError):
        parse_object(body)
    assert time.thread_time() - began < 1.0  # 2.5 s before there was a bound, on the event loop


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (rb'{"a": "\ud83d"}', "a surrogate without its other half"),
        (rb'{"a": "\\\ude00"}', "a surrogate without its other half"),
        (rb'{"a": "\ud83d\ud83d\ude00"}', "a surrogate without its other half"),
        (rb'{"a": "\ud83d\ude00\\ud83d", "b": }', "does not parse"),
        (b'{"a": 1e999}', "numbers that fit"),
        (b'{"a": ' + b"9" * 5000 + b"}", "numbers that fit"),
    ],
)
def test_what_does_not_parse_is_named_for_what_it_is(body: bytes, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        parse_object(body)


def test_looking_for_the_reason_takes_little_time() -> None:
    for body in (b'{"a": "' + b"\\" * (8 << 20), b'{"a": "' + rb"\ud83d\ude00" * (1 << 19) + b"}"):
        began = time.process_time()
        with pytest.raises(RequestError):
            parse_object(body)
        assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("[]", "an array"),
        ('"x"', "a string"),
        ("5", "a number"),
        ("5.5", "a number"),
        ("true", "a boolean"),
        ("null", "null"),
    ],
)
def test_another_kind_of_value_is_named_as_in_json(body: str, kind: str) -> None:
    with pytest.raises(RequestError, match=f"expected a JSON object, got {kind};"):
        parse_object(body.encode())


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"a":1,"a":1}', "'a'"),
        (b'{"a" : 1, "a"\t:2}', "'a'"),
        (b'{"a"\r\n:1,"b":":","\\u0061":2}', "'a'"),
        (b'{"x":[[{"a":{},"b":"\\":","a":{}}]]}', "'a'"),
        (b'{"":1,"":2}', "''"),
        (b'{"a\\\\":1,"a\\\\":2}', r"'a\\'"),
        (b'{"a":' + b"9" * 4300 + b',"a":1}', "'a'"),
        (b'{"x":"' + b": " * (1 << 19) + b'","x":2}', "one of them"),
        (b'{"m":[' + b'{"role":"user"},' * 99 + b'{"role":"user","role":"system"}]}', "'role'"),
    ],
)
def test_a_name_that_an_object_has_twice_is_refused(body: bytes, name: str) -> None:
    with pytest.raises(RequestError, match=re.escape(name)):
        parse_object(body)


@pytest.mark.parametrize("seed", range(200))
def test_an_object_has_a_name_twice_or_not_whatever_stands_in_its_texts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(strict_json, "_SMALL", chance.choice([0, 1 << 20]))
    body = json.dumps(
        {"a": value(chance, 6)}, ensure_ascii=False, separators=chance.choice([None, (",", ":"), (" ,", " \t:")])
    )
    assert parse_object(body.encode()) == json.loads(body)
    more = body.replace("{", '{"twice":0,"twice":1,', 1).replace(",}", "}")
    with pytest.raises(RequestError, match="'twice' again"):
        parse_object(more.encode())
