"""The host's idea of the ABI is that of the header, and the folder's exported names are what they are."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

import sealhost.sandbox
from sealhost.sandbox import abi

HEADER = Path(__file__).parents[2] / "plugins" / "sdk" / "c" / "sealhost.h"
SIZES = {"uint8_t": 1, "uint32_t": 4, "int32_t": 4, "float": 4, "uint64_t": 8}


def header() -> str:
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)


def fields_of(name: str) -> list[tuple[str, str, int]]:
    body = re.search(rf"struct {name} {{(.*?)}};", header(), re.DOTALL)
    assert body is not None
    found = re.findall(r"(\w+) (\w+)(?:\[(\d+)\])?;", body[1])
    return [(kind, field, int(count or 1)) for kind, field, count in found]


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("sealhost_sampler_layout", abi.SAMPLER_LAYOUT),
        ("sealhost_row", abi.ROW),
        ("sealhost_bias", abi.BIAS),
        ("sealhost_candidate", abi.CANDIDATE),
        ("sealhost_token_table", abi.TOKEN_TABLE),
        ("sealhost_result", abi.RESULT),
        ("sealhost_tokenizer_layout", abi.TOKENIZER_LAYOUT),
        ("sealhost_vocab_flags", abi.VOCAB_FLAGS),
    ],
)
def test_structs_have_the_headers_fields(name, layout):
    letters = {"uint32_t": "I", "int32_t": "i", "float": "f", "uint64_t": "Q"}
    expected = "<" + "".join(letters[kind] * count for kind, _, count in fields_of(name))
    assert layout.size == struct.calcsize(expected)
    spelled = re.sub(r"(\d+)(\w)", lambda m: m[2] * int(m[1]), layout.format)
    assert spelled == expected


def test_layout_dataclasses_name_the_headers_fields_in_order():
    from dataclasses import fields

    from sealhost.sandbox.layout import SamplerLayout, TokenizerLayout

    for layout, name in ((SamplerLayout, "sealhost_sampler_layout"), (TokenizerLayout, "sealhost_tokenizer_layout")):
        assert [f.name for f in fields(layout)] == [field for _, field, _ in fields_of(name)]


def constants() -> dict[str, int]:
    return {name: int(value, 0) for name, value in re.findall(r"SEALHOST_(\w+)\s*=\s*(-?\w+)", header())}


@pytest.mark.parametrize(
    ("prefix", "enumeration"),
    [
        ("", abi.Status),
        ("ROW_", abi.RowFlag),
        ("", abi.Action),
        ("", abi.EncodeFlag),
        ("VOCAB_", abi.VocabTag),
        ("VOCAB_", abi.VocabFlag),
        ("TYPE_", abi.TokenType),
    ],
)
def test_constants_are_the_headers(prefix, enumeration):
    known = constants()
    for member in enumeration:
        assert known[prefix + member.name] == int(member), member


def test_minor_is_the_headers():
    found = re.search(r"#define SEALHOST_ABI_MINOR (\d+)", header())
    assert found is not None
    assert int(found[1]) == abi.ABI_MINOR


def test_exported_names_are_these():
    assert sorted(sealhost.sandbox.__all__) == [
        "AdmissionError", "CompileLimits", "Decision", "GuestError", "Limits", "OperatorLimits", "Plugin", "PluginLimits",
        "PluginStats", "SamplerPlugin", "SamplerSession", "SamplingParams", "Sandbox", "SandboxError", "TokenizerPlugin", "Vocabulary",
    ]  # fmt: skip
