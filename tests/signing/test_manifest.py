"""Rules of the manifest that need no disk: what is accepted, and the rest of what is refused."""

from __future__ import annotations

import json
import time

import pytest

from sealhost.signing import Code, SealError
from sealhost.signing.manifest import parse_manifest
from sealhost.signing.strict_json import parse_strict_json

DIGEST = "0" * 64
LIMITS = {"memory_bytes": 65536, "init_ms": 1, "load_ms": 0, "step_ms": 1, "encode_ms": 0}


def plugin_manifest(**changes) -> dict:
    return {
        "schema": "sealhost bundle v1",
        "kind": "plugin",
        "name": "p",
        "version": 1,
        "template": "none",
        "files": [{"path": "p.wasm", "size": 1, "sha256": DIGEST, "role": "plugin"}],
        "plugins": [
            {
                "path": "p.wasm",
                "name": "p",
                "role": "sampler",
                "abi": 1,
                "tier": "full",
                "limits": LIMITS,
                "config_schema": None,
            }
        ],
    } | changes


def test_the_least_manifest_is_accepted() -> None:
    manifest = parse_manifest(json.dumps(plugin_manifest()).encode())
    assert (manifest.name, manifest.weights, manifest.plugins[0].limits.step_ms) == ("p", None, 1)


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "x" * 64])
def test_good_names_are_accepted(name) -> None:
    assert parse_manifest(json.dumps(plugin_manifest(name=name)).encode()).name == name


@pytest.mark.parametrize(
    "path", ["a", "a/b/c", "é.wasm", "日本語/プラグイン.wasm", "with space.wasm", "..a", "a..", "…"]
)
def test_good_paths_are_accepted(path) -> None:
    manifest = plugin_manifest()
    manifest["files"][0]["path"] = manifest["plugins"][0]["path"] = path
    for ascii_only in (True, False):
        assert parse_manifest(json.dumps(manifest, ensure_ascii=ascii_only).encode()).files[0].path == path


@pytest.mark.parametrize("tier", ["full", "mask", "topk:1", "topk:40", "topk:4096"])
def test_each_tier_of_a_sampler_is_accepted(tier) -> None:
    entry = plugin_manifest()["plugins"][0] | {"tier": tier}
    assert parse_manifest(json.dumps(plugin_manifest(plugins=[entry])).encode()).plugins[0].tier == tier


@pytest.mark.parametrize(
    "tier", ["", "Full", "topk", "topk:", "topk:0", "topk:04", "topk:4097", "topk:4 ", "mask:1", "full\n"]
)
def test_a_tier_that_there_is_not_is_refused_with_those_there_are(tier) -> None:
    entry = plugin_manifest()["plugins"][0] | {"tier": tier}
    with pytest.raises(SealError, match="expected tier 'full', 'mask' or 'topk:K' with K of 1 to 4096") as caught:
        parse_manifest(json.dumps(plugin_manifest(plugins=[entry])).encode())
    assert caught.value.code is Code.MANIFEST


def document(number: int) -> dict:
    return {"path": f"d/{number}", "size": 4 << 20, "sha256": DIGEST, "role": "document"}


REFUSED = {
    "a plugin bundle with a template": plugin_manifest(
        template="added",
        files=[
            *plugin_manifest()["files"],
            {"path": "t", "size": 1, "sha256": DIGEST, "role": "template"},
        ],
    ),
    "a plugin bundle without plugins": plugin_manifest(files=[document(0)], plugins=[]),
    "more than 128 MiB beside the weights": plugin_manifest(
        files=[*plugin_manifest()["files"], *(document(number) for number in range(32))]
    ),
    "more than 1024 files": plugin_manifest(files=[document(number) | {"size": 0} for number in range(1025)]),
    "more than 32 plugins": plugin_manifest(plugins=plugin_manifest()["plugins"] * 33),
    "an empty plugin": plugin_manifest(files=[plugin_manifest()["files"][0] | {"size": 0}]),
    "no limits": plugin_manifest(plugins=[plugin_manifest()["plugins"][0] | {"limits": None}]),
    "one plugin entry twice": plugin_manifest(plugins=plugin_manifest()["plugins"] * 2),
    "null for an absent field": plugin_manifest(files=[plugin_manifest()["files"][0] | {"chunks": None}]),
}


@pytest.mark.parametrize("manifest", REFUSED.values(), ids=REFUSED)
def test_a_manifest_that_breaks_a_rule_is_refused(manifest) -> None:
    with pytest.raises(SealError) as caught:
        parse_manifest(json.dumps(manifest).encode())
    assert caught.value.code is Code.MANIFEST


BOMBS = {
    "arrays": b"[" * 900_000,
    "objects": b'{"a":' * 180_000,
    "escaped quotes in a string without end": b'"' + b'\\"' * 500_000,
    "backslashes": b'"' + b"\\" * 900_000,
    "digits": b"1" * 900_000,
    "negative digits": b"-" + b"9" * 900_000,
    "one key many times": b"{" + b'"a":1,' * 140_000 + b'"a":1}',
    "a fraction": b"1." + b"0" * 900_000,
    "quotes": b'"' * 900_000,
    "too many bytes": b" " * ((1 << 20) + 1),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_within_a_second_of_processor_time(bomb) -> None:
    begin = time.process_time()
    with pytest.raises(SealError) as caught:
        parse_strict_json(bomb, "bomb")
    assert caught.value.code is Code.PARSE
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("depth", [1, 16, 17])
def test_sixteen_levels_are_the_limit_and_brackets_in_strings_do_not_count(depth) -> None:
    data = b"[" * depth + b'"[[[[{{{{"' + b"]" * depth
    if depth <= 16:
        parse_strict_json(data, "x")
    else:
        with pytest.raises(SealError, match="nested"):
            parse_strict_json(data, "x")


@pytest.mark.parametrize("text", ["-0", "1e3", "1.5", "Infinity", "-Infinity", "NaN", "01", "+1", "9007199254740992"])
def test_numbers_beyond_plain_integers_are_refused(text) -> None:
    with pytest.raises(SealError) as caught:
        parse_strict_json(f"[{text}]".encode(), "x")
    assert caught.value.code is Code.PARSE


@pytest.mark.parametrize("number", [0, -1, 9007199254740991, -9007199254740991])
def test_plain_integers_are_accepted(number) -> None:
    assert parse_strict_json(str(number).encode(), "x") == number


def test_a_surrogate_pair_is_one_character_and_half_of_one_is_refused() -> None:
    assert parse_strict_json(b'["\\ud83d\\ude00"]', "x") == ["😀"]
    for half in (b'"\\ud83d"', b'{"\\ude00": 1}', b'[["\\ude00\\ud83d"]]'):
        with pytest.raises(SealError, match="surrogate"):
            parse_strict_json(half, "x")
