"""The AssemblyScript SDK says what the C header says; `@unmanaged` classes lie in memory as C structs do."""

from __future__ import annotations

import re

import pytest

from sealhost.host.cli import plugin_build
from sealhost.host.cli.main import run
from sealhost.plugins import PLUGINS

HEADER = re.sub(r"/\*.*?\*/", "", (PLUGINS / "sdk/c/sealhost.h").read_text(), flags=re.DOTALL)
SCRIPT = (PLUGINS / "sdk/assemblyscript/sealhost.ts").read_text()
TYPES = {"uint32_t": "u32", "int32_t": "i32", "float": "f32", "uint64_t": "u64"}
CLASSES = {
    "SamplerLayout": "sealhost_sampler_layout",
    "Row": "sealhost_row",
    "Bias": "sealhost_bias",
    "Candidate": "sealhost_candidate",
    "TokenTable": "sealhost_token_table",
    "Result": "sealhost_result",
    "TokenizerLayout": "sealhost_tokenizer_layout",
    "VocabFlags": "sealhost_vocab_flags",
}


@pytest.mark.parametrize(("script", "name"), CLASSES.items())
def test_fields_are_the_headers_in_order_with_its_types(script, name):
    body = re.search(rf"struct {name} {{(.*?)}};", HEADER, re.DOTALL)[1]
    expected = []
    for kind, field, count in re.findall(r"(\w+) (\w+)(?:\[(\d+)\])?;", body):
        names = [f"{field}_{i}" for i in range(int(count))] if count else [field]  # a class has no arrays inside
        expected += [(one, TYPES[kind]) for one in names]
    found = re.search(rf"@unmanaged\nexport class {script} {{(.*?)\n}}", SCRIPT, re.DOTALL)[1]
    assert re.findall(r"(\w+): (\w+);", found) == expected


def test_constants_are_the_headers():
    header = {name: int(value, 0) for name, value in re.findall(r"SEALHOST_(\w+)\s*=\s*(-?\w+)", HEADER)}
    script = {name: int(value, 0) for name, value in re.findall(r"export const (\w+): [ui]32 = (-?\w+);", SCRIPT)}
    assert script.pop("ABI_MINOR") == int(re.search(r"#define SEALHOST_ABI_MINOR (\d+)", HEADER)[1])
    assert script == header | {"OK": 0}


def test_areas_are_as_large_as_their_capacities_say():
    """`memory.data` takes literal numbers alone, so the sizes stand there a second time."""
    for part, sizes in {
        "sampler": {
            "logits_area": ("VOCAB", 4 * 4),
            "history_area": ("HISTORY", 4 * 4),
            "candidate_area": ("CANDIDATES", 4 * 8),
            "answer_area": ("ANSWER", 4),
            "bias": ("BIASES", 8),
            "config": ("CONFIG", 1),
            "row_area": ("ROWS", 96),
            "result_area": ("ROWS", 16),
        },
        "vocabulary": {"words": ("WORDS", 1)},
        "tokenizer": {"input": ("INPUT", 1), "output": ("IDS", 4), "stream": ("STREAM", 1)},
    }.items():
        text = (PLUGINS / f"sdk/assemblyscript/{part}.ts").read_text()
        for name, (
            capacity,
            width,
        ) in sizes.items():  # width: bytes of an entry, times the four slots where it is by slot
            size = int(re.search(rf"const {name}: usize = memory\.data\((\d+), \d+\);", text)[1])
            assert size == width * int(re.search(rf"const {capacity}: u32 = (\d+);", text)[1]), name


def test_a_missing_compiler_is_named_with_the_command_that_installs_it(tmp_path, capsys, monkeypatch):
    assert run(["plugin", "new", "a", "--lang", "assemblyscript", "--out", str(tmp_path / "a")]) == 0
    monkeypatch.setattr(plugin_build.shutil, "which", lambda _name: None)
    assert run(["plugin", "build", str(tmp_path / "a")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"npm install --global assemblyscript@{plugin_build.ASSEMBLYSCRIPT}" in line
