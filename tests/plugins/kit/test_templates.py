"""Every template is built, admitted, tried, measured and packed by the kit's own verbs."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import wasmtime
from plugin_harness import SamplerGuest

from sealhost.host.cli import plugin_build
from sealhost.host.cli.main import run
from sealhost.plugins import PLUGINS, reference_plugin
from sealhost.sandbox.wasm_binary import parse

SDK = PLUGINS / "sdk"
RUST = pytest.mark.skipif(plugin_build._rustc() is None, reason="no rustc with wasm32-unknown-unknown is installed")
ASC = pytest.mark.skipif(shutil.which("asc") is None, reason="no asc, AssemblyScript's compiler, is on the path")
LANGUAGES = ["c", "zig", pytest.param("rust", marks=RUST), pytest.param("assemblyscript", marks=ASC)]
ROLES = ["sampler", "tokenizer"]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_template_builds_and_passes_its_tests(lang, role, kit_plugin, kit_says):
    said = kit_says("test", kit_plugin(lang, role), "--rounds", 60)
    assert said["passed"]
    verdicts = {trial["name"]: trial["verdict"] for trial in said["trials"]}
    assert {name for name, verdict in verdicts.items() if verdict != "ok"} == (
        {"fork", "backtrack"} if role == "sampler" else set()
    )
    assert sum(name.startswith("golden") for name in verdicts) >= 7
    expected = (
        {"reset", "replay", "random rows", "full areas"} if role == "sampler" else {"special tokens", "random texts"}
    )
    assert expected < verdicts.keys()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_template_is_admitted_clause_by_clause(lang, role, kit_plugin, kit_says):
    folder = kit_plugin(lang, role)
    said = kit_says("check", folder / "plugin.wasm")
    assert said["admitted"]
    assert [clause["verdict"] for clause in said["clauses"]] == ["ok"] * (15 + (role == "tokenizer"))
    declared = tomllib.loads((folder / "plugin.toml").read_text())
    assert (declared["name"], declared["role"]) == (f"my-{role}", role)
    (memory,) = parse((folder / "plugin.wasm").read_bytes()).memories
    assert memory.minimum * 65536 == memory.maximum * 65536 == declared["limits"]["memory_bytes"]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_module_depends_on_sources_and_compiler_alone(lang, kit_plugin, tmp_path):
    other = tmp_path / "a folder with blanks"
    assert run(["plugin", "new", "another-name", "--role", "tokenizer", "--lang", lang, "--out", str(other)]) == 0
    assert run(["plugin", "build", str(other)]) == 0
    assert (other / "plugin.wasm").read_bytes() == (kit_plugin(lang, "tokenizer") / "plugin.wasm").read_bytes()
    assert sorted(path.name for path in other.iterdir()) == sorted(
        ["README.md", "golden.json", plugin_build.TOOLCHAINS[lang].source, "plugin.toml", "plugin.wasm"]
    )


@pytest.mark.parametrize("role", ["sampler", "tokenizer"])
def test_templates_of_all_languages_answer_the_same(role):
    for name in ("golden.json", "plugin.toml"):
        assert len({path.read_text() for path in SDK.glob(f"*/template/{role}/{name}")}) == 1
    assert len(list(SDK.glob(f"*/template/{role}/golden.json"))) == len(list(SDK.glob("*/template")))


@pytest.mark.parametrize("role", ["sampler", "tokenizer"])
def test_a_template_stands_on_its_own_name(role, kit_plugin):
    for path in kit_plugin("c", role).iterdir():
        assert b"@NAME@" not in path.read_bytes()
    assert f"my-{role}" in (kit_plugin("c", role) / "README.md").read_text()


def test_a_sampler_is_measured_against_its_limits(kit_plugin, kit_says):
    said = kit_says("bench", kit_plugin("zig", "sampler"), "--repeats", 3)
    steps = [line for line in said["measured"] if line["name"].startswith("step")]
    assert len(steps) == 9
    assert all(
        line["fuel"] > 1000 and 0 < line["p50_us"] <= line["p99_us"] and line["limit_ms"] == 50 for line in steps
    )
    assert steps[-1]["fuel"] > 10 * steps[0]["fuel"]
    assert said["memory_bytes"] == said["memory_limit"] == 8 << 20


def test_measurements_for_people_are_a_table(kit_plugin, capsys):
    assert run(["plugin", "bench", str(kit_plugin("zig", "tokenizer")), "--repeats", "2"]) == 0
    said = capsys.readouterr().out
    assert "p99 of limit" in said
    assert "100% of its limit" in said


def test_a_tokenizer_is_measured_against_its_limits(kit_plugin, kit_says):
    said = kit_says("bench", kit_plugin("c", "tokenizer"), "--repeats", 3)
    calls = {line["name"]: line for line in said["measured"] if line["fuel"] is not None}
    assert len(calls) == 4
    assert calls["encode 64 KiB of prose"]["fuel"] > 10 * calls["encode 4 KiB of prose"]["fuel"]
    assert {line["limit_ms"] for line in calls.values()} == {2000}


def test_tables_for_people_name_what_was_tried_and_fit_a_pipe(kit_plugin, capsys):
    folder = str(kit_plugin("c", "sampler"))
    for arguments, part in (
        (["check", folder], "1.15"),
        (["test", folder, "--rounds", "3"], "no token twice in a row"),
    ):
        assert run(["plugin", *arguments]) == 0
        output = capsys.readouterr()
        assert part in output.out
        assert output.err == ""
        assert max(map(len, output.out.splitlines())) <= 160


def test_plugins_are_packed_signed_and_verified_as_one_bundle(kit_plugin, kit_says, tmp_path, capsys):
    from sealhost.signing import DirectoryTrust, verify

    both = [kit_plugin("c", "sampler"), kit_plugin("zig", "tokenizer")]
    said = kit_says("pack", *both, "--out", tmp_path / "bundle", "--name", "kit", "--version", 3)
    assert (said["name"], said["version"]) == ("kit", 3)
    assert run(["keygen", "me", "--out", str(tmp_path), "--no-passphrase"]) == 0
    (tmp_path / "keys").mkdir(mode=0o755)
    (tmp_path / "me.pub").rename(tmp_path / "keys" / "me.pub")
    assert run(["sign", str(tmp_path / "bundle"), "--key", str(tmp_path / "me.key")]) == 0
    bundle = verify(tmp_path / "bundle", DirectoryTrust(tmp_path / "keys"))
    assert bundle.manifest.kind == "plugin"
    assert [(plugin.name, plugin.role, plugin.tier) for plugin in bundle.plugins] == [
        ("my-sampler", "sampler", "full"),
        ("my-tokenizer", "tokenizer", ""),
    ]
    assert bundle.plugins[0].wasm == (both[0] / "plugin.wasm").read_bytes()
    capsys.readouterr()


def test_a_reference_sampler_is_packed_by_its_name_unless_a_folder_has_it(kit_says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    kit_says("pack", "json", "--out", "bundle", "--name", "json", "--version", 1)
    packed = (tmp_path / "bundle/plugins/json.wasm").read_bytes()
    assert packed == (reference_plugin("sampler", "json") / "plugin.wasm").read_bytes()
    (tmp_path / "json").mkdir()
    assert run(["plugin", "pack", "json", "--out", "other", "--name", "json", "--version", "1"]) == 3
    assert "a folder without plugin.wasm" in capsys.readouterr().err


def test_what_a_template_needs_travels_with_the_package():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert "sdk/**/*" in project["tool"]["setuptools"]["package-data"]["sealhost.plugins"]


@pytest.mark.parametrize(
    ("role", "name", "skipped"), [("sampler", "standard", {"backtrack"}), ("tokenizer", "bpe", {"golden"})]
)
def test_the_reference_plugins_pass_the_kits_trials(role, name, skipped, kit_says):
    from sealhost.plugins import reference_plugin

    said = kit_says("test", reference_plugin(role, name), "--rounds", 100)
    assert {trial["name"] for trial in said["trials"] if trial["verdict"] != "ok"} == skipped


@pytest.mark.model
def test_a_tokenizer_is_tried_with_a_models_own_vocabulary_and_the_golden_cases_of_it(
    kit_plugin, kit_says, smollm2_gguf, tmp_path
):
    folder = tmp_path / "copy"
    shutil.copytree(kit_plugin("zig", "tokenizer"), folder)
    cases = json.loads((folder / "golden.json").read_text())
    both = [*cases, {"name": "a model's", "text": "\n", "expect": [198], "model": True}]
    (folder / "golden.json").write_text(json.dumps(both))
    assert kit_says("check", folder, "--model", smollm2_gguf)["admitted"]
    said = kit_says("test", folder, "--model", smollm2_gguf, "--rounds", 40)["trials"]
    assert [trial["name"] for trial in said if trial["verdict"] != "ok"] == ["golden"]
    assert [trial["name"] for trial in said if trial["name"].startswith("golden:")] == ["golden: a model's"]
    said = kit_says("test", folder, "--rounds", 40)["trials"]
    assert {trial["name"] for trial in said if trial["name"].startswith("golden:")} == {
        f"golden: {case['name']}" for case in cases
    }
    assert "1 with ids of a model's" in str(said)


def test_what_is_written_in_every_request_lies_in_one_page_in_c(kit_plugin, guest_engine):
    guest = SamplerGuest(
        guest_engine, wasmtime.Module(guest_engine, (kit_plugin("c", "sampler") / "plugin.wasm").read_bytes())
    )
    rows = guest.area["rows"]
    written = [guest.call("layout"), rows, guest.area["results"] + 15, guest.area["history"] + 4 * 900]
    assert {at // 4096 for at in written} == {rows // 4096}
