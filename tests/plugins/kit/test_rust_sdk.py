"""The Rust SDK says what the C header says; `repr(C)` makes the same layout of the same fields."""

from __future__ import annotations

import re

import pytest

from sealhost.host.cli import plugin_build
from sealhost.host.cli.main import run
from sealhost.plugins import PLUGINS

HEADER = re.sub(r"/\*.*?\*/", "", (PLUGINS / "sdk/c/sealhost.h").read_text(), flags=re.DOTALL)
RUST = (PLUGINS / "sdk/rust/sealhost.rs").read_text()
TYPES = {"uint32_t": "u32", "int32_t": "i32", "float": "f32", "uint64_t": "u64"}
STRUCTS = {
    "SamplerLayout": "sealhost_sampler_layout",
    "Row": "sealhost_row",
    "Bias": "sealhost_bias",
    "Candidate": "sealhost_candidate",
    "TokenTable": "sealhost_token_table",
    "StepResult": "sealhost_result",
    "TokenizerLayout": "sealhost_tokenizer_layout",
    "VocabFlags": "sealhost_vocab_flags",
}


@pytest.mark.parametrize(("rust", "name"), STRUCTS.items())
def test_fields_are_the_headers_in_order_with_its_types(rust, name):
    body = re.search(rf"struct {name} {{(.*?)}};", HEADER, re.DOTALL)[1]
    fields = re.findall(r"(\w+) (\w+)(?:\[(\d+)\])?;", body)
    expected = [(field, f"[{TYPES[kind]}; {count}]" if count else TYPES[kind]) for kind, field, count in fields]
    found = re.search(rf"#\[repr\(C\)\]\n(?:#\[derive.*\]\n)?pub struct {rust} {{(.*?)\n}}", RUST, re.DOTALL)[1]
    assert re.findall(r"pub (\w+): ([^,]+),", found) == expected


def test_constants_are_the_headers():
    header = {name: int(value, 0) for name, value in re.findall(r"SEALHOST_(\w+)\s*=\s*(-?\w+)", HEADER)}
    rust = {name: int(value, 0) for name, value in re.findall(r"pub const (\w+): (?:u32|u8|i32) = (\w+);", RUST)}
    assert rust.pop("ABI_MINOR") == int(re.search(r"#define SEALHOST_ABI_MINOR (\d+)", HEADER)[1])
    statuses = re.search(r"pub enum Status {(.*?)}", RUST, re.DOTALL)[1]
    named = {
        "ERROR" if name == "Unspecified" else f"ERROR_{name.upper()}": int(value, 0)
        for name, value in re.findall(r"(\w+) = (-\w+)", statuses)
    }
    assert rust | named == header


def test_a_missing_compiler_is_named_with_the_command_that_installs_it(tmp_path, capsys, monkeypatch):
    assert run(["plugin", "new", "a", "--lang", "rust", "--out", str(tmp_path / "a")]) == 0
    monkeypatch.setattr(plugin_build, "_rustc", lambda: None)
    assert run(["plugin", "build", str(tmp_path / "a")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "apt-get install rustc libstd-rust-dev-wasm32 lld" in line
