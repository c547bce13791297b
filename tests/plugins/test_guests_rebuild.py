"""What is committed is what the sources give: modules, and generated tables."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import tomllib

import pytest
import wasmtime

import sealhost.plugins
from sealhost.plugins import reference_plugin, reference_plugins

REFERENCE = [(role, name) for role in ("tokenizer", "sampler") for name in reference_plugins(role)]
"""Role and name of each."""

PAGE = 65_536
"""Bytes of a page of WebAssembly."""


@pytest.fixture(scope="module")
def build_script():
    return runpy.run_path(str(sealhost.plugins.PLUGINS / "build.py"), run_name="build")


@pytest.mark.parametrize("folder", [f"{role}s/{name}" for role, name in REFERENCE])
def test_rebuilding_gives_the_committed_bytes(build_script, tmp_path, folder):
    guest = next(guest for guest in build_script["GUESTS"] if guest.folder == folder)
    rebuilt = build_script["build"](guest, tmp_path)
    assert rebuilt.read_bytes() == (sealhost.plugins.PLUGINS / folder / "plugin.wasm").read_bytes()


def test_the_bytes_do_not_depend_on_the_folder(tmp_path):
    copy = tmp_path / "a folder with another name"
    shutil.copytree(sealhost.plugins.PLUGINS, copy)
    script = runpy.run_path(str(copy / "build.py"), run_name="build")
    guest = next(guest for guest in script["GUESTS"] if guest.folder == "samplers/standard")
    before = (copy / guest.folder / "plugin.wasm").read_bytes()
    assert script["build"](guest, copy).read_bytes() == before
    assert not list(copy.rglob("*zig-cache*"))


def test_the_script_builds_what_is_named_alone(build_script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["build.py", "watermark", "--out", str(tmp_path)])
    build_script["main"]()
    assert [path.parent.name for path in tmp_path.rglob("plugin.wasm")] == ["watermark"]
    monkeypatch.setattr(sys, "argv", ["build.py", "watermarks"])
    with pytest.raises(SystemExit):
        build_script["main"]()
    assert "got watermarks" in capsys.readouterr().err


def test_every_reference_plugin_is_one_that_the_script_builds(build_script):
    assert {f"{role}s/{name}" for role, name in REFERENCE} == {guest.folder for guest in build_script["GUESTS"]}


@pytest.mark.parametrize(("role", "name"), REFERENCE)
def test_a_reference_plugin_imports_nothing_and_its_memory_is_what_it_declares(guest_engine, build_script, role, name):
    directory = reference_plugin(role, name)
    module = wasmtime.Module(guest_engine, (directory / "plugin.wasm").read_bytes())
    (limits,) = [one.type.limits for one in module.exports if isinstance(one.type, wasmtime.MemoryType)]
    declared = tomllib.loads((directory / "plugin.toml").read_text())["limits"]["memory_bytes"]
    built = next(guest.memory_bytes for guest in build_script["GUESTS"] if guest.folder == f"{role}s/{name}")
    assert not list(module.imports)
    assert limits.min * PAGE == limits.max * PAGE == declared == built


@pytest.mark.parametrize(("role", "name"), REFERENCE)
def test_a_reference_plugin_is_a_module_and_its_facts(role, name):
    directory = reference_plugin(role, name)
    facts = tomllib.loads((directory / "plugin.toml").read_text())
    assert (facts["name"], facts["role"], facts["abi"]) == (name, role, 1)
    assert facts["tier"] in (("full", "mask") if role == "sampler" else ("",))
    assert facts["limits"].keys() == {"memory_bytes", "init_ms", "load_ms", "step_ms", "encode_ms"}
    assert (directory / "plugin.wasm").read_bytes()[:8] == b"\0asm\1\0\0\0"


@pytest.mark.parametrize(
    ("role", "name"), [("tokenizer", "standard"), ("sampler", "../samplers/standard"), ("sampler", "")]
)
def test_an_unknown_plugin_is_refused_with_the_names_there_are(role, name):
    known = "bpe" if role == "tokenizer" else "standard"
    with pytest.raises(FileNotFoundError, match=known):
        reference_plugin(role, name)


def test_the_unicode_table_is_what_the_regex_engine_says(unicode_header):
    script = runpy.run_path(str(unicode_header.parent.parent / "unicode_tables.py"), run_name="unicode_tables")
    assert script["render"]() == unicode_header.read_text()


def test_the_helpers_import_nothing_of_the_host():
    source = (sealhost.plugins.PLUGINS / "__init__.py").read_text()
    imports = {line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import", "from"))}
    assert imports <= sys.stdlib_module_names


def test_the_readmes_first_sampler_compiles_and_passes_the_kits_trials(tmp_path, capsys):
    from sealhost.host.cli.main import run

    readme = (sealhost.plugins.PLUGINS / "README.md").read_text().split("## Without the kit")[1]
    source, command, declaration = (
        readme.split(f"```{language}\n")[1].split("```")[0] for language in ("c", "sh", "toml")
    )
    (tmp_path / "first.c").write_text(source)
    (tmp_path / "plugin.toml").write_text(declaration)
    words = command.replace("\\\n", " ").replace("SDK", str(sealhost.plugins.PLUGINS / "sdk/c")).split()
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "cache"), "ZIG_LOCAL_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, *words[1:]], check=True, cwd=tmp_path, env={**os.environ, **caches})
    rows = [
        {"name": "the likeliest", "logits": [1, 9, "nan", 5], "prompt": [0], "expect": 1},
        {"name": "not twice in a row", "logits": [1, 9, "nan", 5], "prompt": [0], "generated": [1], "expect": 3},
    ]
    (tmp_path / "golden.json").write_text(json.dumps(rows))
    assert run(["plugin", "test", str(tmp_path), "--rounds", "30"]) == 0, capsys.readouterr()
