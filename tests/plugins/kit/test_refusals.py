"""What the kit refuses, in one line with its exit code; and plugins that are wrong fail the trial that is about it."""

from __future__ import annotations

import importlib.metadata
import json
import tomllib
from pathlib import Path

import pytest

from sealhost.host.cli import plugin_build
from sealhost.host.cli.main import run

MISSING = "/nonexistent/plugin"


@pytest.fixture
def refused(capsys):
    def ask(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        code = run(["plugin", *map(str, arguments)])
        output = capsys.readouterr()
        lines = [line for line in output.err.splitlines() if line.startswith("E_")]
        assert len(lines) == 1
        return code, lines[0]

    return ask


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["new", "../up"], 2, "../up"),
        (["new", "x" * 65], 2, "64"),
        (["new", "a", "--lang", "cobol"], 2, "cobol"),
        (["new", "a", "--role", "router"], 2, "router"),
        (["new", "a", "--out", f"{MISSING}/a"], 3, "cannot write"),
        (["build", MISSING], 3, "none of that name"),
        (["check", MISSING], 3, MISSING),
        (["check", MISSING, "--role", "sampler"], 3, MISSING),
        (["test", MISSING], 3, MISSING),
        (["bench", MISSING], 3, MISSING),
        (["test", MISSING, "--rounds", "0"], 2, "--rounds"),
        (["test", MISSING, "--seed", "-1"], 2, "--seed"),
        (["bench", MISSING, "--repeats", "0"], 2, "--repeats"),
        (["pack", MISSING, "--out", "x", "--name", "x", "--version", "1"], 3, MISSING),
        (["sign"], 2, "sign"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_a_refusal_is_one_line_with_its_exit_code(arguments, code, said, refused):
    found, line = refused(*arguments)
    assert (found, said in line) == (code, True), line


def test_nothing_is_overwritten(refused, tmp_path):
    (tmp_path / "mine").mkdir()
    code, line = refused("new", "mine", "--out", tmp_path / "mine")
    assert code == 2
    assert "nothing was overwritten" in line
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("found", [None, "0.16.0"])
def test_a_compiler_that_is_missing_or_another_is_named_with_the_command_that_installs_it(
    found, refused, tmp_path, monkeypatch
):
    def version(name: str) -> str:
        if name != "ziglang":
            return real(name)
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    real = importlib.metadata.version
    assert run(["plugin", "new", "a", "--out", str(tmp_path / "a")]) == 0
    monkeypatch.setattr(plugin_build, "version", version)
    code, line = refused("build", tmp_path / "a")
    assert code == 2
    assert line.endswith(f"-m pip install ziglang=={plugin_build.ZIGLANG}")
    assert "E_USAGE plugin build: expected the compiler ziglang" in line


def test_the_compiler_is_the_one_that_the_project_pins():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert f"ziglang=={plugin_build.ZIGLANG}" in project["project"]["optional-dependencies"]["dev"]


DECLARATION = 'name = "a"\nrole = "sampler"\nabi = 1\ntier = "full"\n[limits]\nmemory_bytes = {}\n'


@pytest.mark.parametrize(
    ("files", "code", "said"),
    [
        ({}, 2, "plugin.c, plugin.zig, plugin.rs, plugin.ts"),
        ({"plugin.c": "", "plugin.zig": ""}, 2, "got 2"),
        ({"plugin.c": ""}, 3, "plugin.toml"),
        ({"plugin.c": "", "plugin.toml": "name ="}, 1, "plugin declaration"),
        ({"plugin.c": "", "plugin.toml": "limits = 3"}, 1, "memory_bytes"),
        ({"plugin.c": "", "plugin.toml": DECLARATION.format(65537)}, 1, "65537"),
        ({"plugin.c": "", "plugin.toml": DECLARATION.format(0)}, 1, "whole pages"),
        ({"plugin.c": "", "plugin.toml": DECLARATION.format("true")}, 1, "True"),
        ({"plugin.c": "int f(", "plugin.toml": DECLARATION.format(65536)}, 1, "sources that compile"),
    ],
)
def test_a_folder_that_cannot_be_built_is_refused_and_left_as_it_was(files, code, said, refused, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "plugin.wasm").write_bytes(b"the old one")
    found, line = refused("build", tmp_path)
    assert (found, said in line) == (code, True), line
    assert {path.name for path in tmp_path.iterdir()} == {*files, "plugin.wasm"}
    assert (tmp_path / "plugin.wasm").read_bytes() == b"the old one"


def test_an_unbuilt_folder_is_told_how_to_build(refused, tmp_path):
    assert run(["plugin", "new", "a", "--out", str(tmp_path / "a")]) == 0
    code, line = refused("test", tmp_path / "a")
    assert (code, line.endswith(f"run: sealhost plugin build {tmp_path / 'a'}")) == (3, True)


def test_a_refused_module_is_told_all_its_faults_with_exit_code_1(kit_says, tmp_path):
    import wasmtime

    path = tmp_path / "bad.wasm"
    path.write_bytes(
        wasmtime.wat2wasm('(module (import "env" "expf" (func)) (memory 1 2) (global v128 (v128.const i64x2 0 0)))')
    )
    said = kit_says("check", path, "--role", "sampler", code=1)
    assert not said["admitted"]
    verdicts = {clause["clause"]: clause["verdict"] for clause in said["clauses"]}
    assert {clause for clause, verdict in verdicts.items() if verdict == "refused"} == {"1.3", "1.7"}
    assert verdicts["1.5"] == "unchecked"
    assert all(clause["remedy"] for clause in said["clauses"] if clause["verdict"] == "refused")


def test_any_bytes_under_any_role_are_reported_and_never_crash(kit_says, tmp_path):
    (tmp_path / "text.wasm").write_text("(module)")
    for role in ("sampler", "tokenizer"):
        said = kit_says("check", tmp_path / "text.wasm", "--role", role, code=1)
        assert [clause["clause"] for clause in said["clauses"] if clause["verdict"] == "refused"] == ["1.1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "golden cases"),
        ('[{"name": "a"}]', "logits"),
        ('[{"name": "a", "logits": ["x"], "expect": 1}]', "logits"),
        ("[", "golden"),
    ],
)
def test_golden_cases_that_cannot_be_read_are_refused(text, said, refused, kit_plugin, tmp_path):
    for name in ("plugin.wasm", "plugin.toml"):
        (tmp_path / name).write_bytes((kit_plugin("c", "sampler") / name).read_bytes())
    (tmp_path / "golden.json").write_text(text)
    code, line = refused("test", tmp_path)
    assert (code, "E_PARSE" in line, said in line) == (1, True, True), line


FORBIDS = "if (row->history_length == row->prompt_length)"
BROKEN_STEP = """
    static uint32_t steps;
    uint8_t how = row->config_length ? config[8] : 'w'; /* {"how":"w"} */
    if (how == 'm' && row->history_length == 0)
        return answer(SEALHOST_TOKEN, row->vocab_size - 1);
    if (how == 'b' && row->vocab_size == 262144)
        return answer(SEALHOST_TOKEN, row->vocab_size);
    if (how == 's' && steps++ >= 24)
        return answer(SEALHOST_TOKEN, 7);
    for (volatile int on = how == 'l' && row->history_length > 9; on;) {
    }
    if (how != 'r' || row->history_length == row->prompt_length)"""
"""A sampler that goes wrong in the way that its configuration says; without one it never forbids."""

BROKEN_SAMPLERS = {
    "wrong answers": ("w", {"golden: no token twice in a row", "golden: nothing is left"}),
    "masked ids": ("m", {"edge: one candidate", "edge: all NaN", "random rows"}),
    "beyond the vocabulary": ("b", {"full areas"}),
    "state that reset keeps": ("s", {"reset"}),
    "loop": ("l", {"replay", "reset", "random rows", "full areas"}),
    "right": ("r", set()),
}


@pytest.fixture(scope="module")
def broken_sampler(kit_variant):
    return kit_variant(
        "sampler", FORBIDS, BROKEN_STEP, schema='{"properties": {"how": {"enum": ["w", "m", "b", "s", "l", "r"]}}}'
    )


@pytest.mark.parametrize("name", BROKEN_SAMPLERS)
def test_a_sampler_that_is_wrong_fails_the_trials_that_are_about_it(name, broken_sampler, kit_says, tmp_path):
    how, failing = BROKEN_SAMPLERS[name]
    (tmp_path / "config.json").write_text(json.dumps({"how": how}))
    said = kit_says("test", broken_sampler, "--rounds", 40, "--config", tmp_path / "config.json", code=int(how != "r"))
    failed = {trial["name"]: trial["detail"] for trial in said["trials"] if trial["verdict"] == "failed"}
    assert failing <= failed.keys(), failed
    assert bool(failing) == bool(failed)
    assert all("expected" in detail or "longer than" in detail for detail in failed.values())


BROKEN_TOKENIZERS = {
    "no BOS": ("int adds_bos = add &&", "int adds_bos = 0 &&", {"special tokens", "golden: BOS alone"}),
    "bytes left out": ("for (uint32_t at = 0; at", "for (uint32_t at = length > 99; at", {"edge: digits", "random texts", "full input area"}),
    "control tokens from any text": ("(controls || token_type", "(1 || token_type", {"special tokens", "random texts"}),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_TOKENIZERS)
def test_a_tokenizer_that_is_wrong_fails_the_trials_that_are_about_it(name, kit_variant, kit_says):
    old, new, failing = BROKEN_TOKENIZERS[name]
    said = kit_says("test", kit_variant("tokenizer", old, new), "--rounds", 60, code=1)
    failed = {trial["name"] for trial in said["trials"] if trial["verdict"] == "failed"}
    assert failing <= failed, failed


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ('{"how": "x"}', 2, "sampler_config.how: expected one of"),
        ("[1]", 2, "expected a JSON object, got an array"),
        ('{"how"', 2, "config.json"),
        ('{"a": NaN}', 2, "config.json"),
        (None, 3, "config.json"),
    ],
)
@pytest.mark.parametrize("verb", ["test", "bench"])
def test_configuration_that_does_not_fit_is_refused_before_anything_is_tried(
    verb, text, code, said, broken_sampler, refused, tmp_path
):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    found, line = refused(verb, broken_sampler, "--config", str(tmp_path / "config.json"))
    assert (found, said in line) == (code, True), line


def test_golden_cases_hold_parameters_and_configuration_to_account(kit_plugin, kit_says, kit_schema, tmp_path):
    for name in ("plugin.wasm", "plugin.toml"):
        (tmp_path / name).write_bytes((kit_plugin("c", "sampler") / name).read_bytes())
    kit_schema(tmp_path, '{"type": "object", "properties": {"any": {"type": "string"}}}')
    cases = [
        {"name": "unknown", "logits": [1], "expect": 0, "params": {"heat": 1}},
        {"name": "too long", "logits": [1] * 600, "expect": 0},
        {"name": "out of range", "logits": [1], "expect": 0, "params": {"top_p": 7}},
        {"name": "configured", "logits": [1], "expect": 0, "config": {"any": "thing"}},
        {"name": "does not fit", "logits": [1], "expect": 0, "config": {"any": 1}},
        {"name": "too much", "logits": [1], "expect": 0, "config": {"any": "x" * 20_000}},
    ]
    (tmp_path / "golden.json").write_text(json.dumps(cases))
    said = kit_says("test", tmp_path, "--rounds", 1, code=1)
    verdicts = {trial["name"]: trial["verdict"] for trial in said["trials"] if trial["name"].startswith("golden")}
    assert [name for name, verdict in verdicts.items() if verdict == "ok"] == ["golden: configured"]
    assert len(verdicts) == 6
