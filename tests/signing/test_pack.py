"""pack: a bundle is there as a whole or not at all, and describes the bytes that are in it."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from sealhost.signing import Code, PluginLimits, SealError
from sealhost.signing.declaration import read_plugin
from sealhost.signing.manifest import parse_manifest
from sealhost.signing.pack import Template, pack

DECLARATION = """
name = "mine"
role = "sampler"
abi = 1
tier = "full"
description = "draws"
config_schema = '{"type": "object", "properties": {"k": {"type": "integer"}}}'

[limits]
memory_bytes = 2097152
init_ms = 100
step_ms = 20
"""


@pytest.fixture
def packing(tmp_path, seal_model, make_seal_plugin):
    def run(**changes):
        plugins = (make_seal_plugin("bpe", "tokenizer"), make_seal_plugin("standard", "sampler"))
        arguments = {"name": "m", "version": 1, "model": seal_model, "plugins": plugins} | changes
        return pack(arguments.pop("out", tmp_path / "out" / "bundle"), **arguments)

    (tmp_path / "out").mkdir()
    return run


def left_over(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "out").iterdir())


def test_the_manifest_describes_the_files_that_were_written(tmp_path, packing, seal_model) -> None:
    packed = packing(template=Template("added", "{{ x }}"), documents=(("LICENSE", b"free"),))
    root = tmp_path / "out" / "bundle"
    assert left_over(tmp_path) == ["bundle"]
    data = (root / "manifest.json").read_bytes()
    assert packed.digest == hashlib.sha256(data).hexdigest()
    assert parse_manifest(data) == packed.manifest
    listed = {entry.path: entry for entry in packed.manifest.files}
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    assert set(found) == set(listed) | {"manifest.json"}
    for path, entry in listed.items():
        content = found[path].read_bytes()
        assert (entry.size, entry.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    weights = (root / "model.gguf").read_bytes()
    assert weights == seal_model.read_bytes()
    chunks = [weights[at : at + (4 << 20)] for at in range(0, len(weights), 4 << 20)]
    assert (root / "model.gguf.chunks").read_bytes() == b"".join(hashlib.sha256(c).digest() for c in chunks)
    for path in (root, *root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)


def test_packing_twice_gives_the_same_manifest(tmp_path, packing) -> None:
    assert packing().digest == packing(out=tmp_path / "out" / "again").digest


@pytest.mark.parametrize("occupied", ["file", "folder", "full folder", "dangling link"])
def test_nothing_is_overwritten(tmp_path, packing, occupied) -> None:
    out = tmp_path / "out" / "bundle"
    if occupied == "file":
        out.write_text("precious")
    elif occupied == "dangling link":
        out.symlink_to("nowhere")
    else:
        out.mkdir()
        if occupied == "full folder":
            (out / "precious").touch()
    before = sorted((tmp_path / "out").rglob("*"))
    with pytest.raises(SealError) as caught:
        packing()
    assert caught.value.code is Code.USAGE
    assert sorted((tmp_path / "out").rglob("*")) == before


def test_somebody_who_takes_the_name_meanwhile_keeps_it(tmp_path, packing, monkeypatch) -> None:
    out = tmp_path / "out" / "bundle"
    monkeypatch.setattr("sealhost.signing.pack.encode_manifest", lambda _: (out.mkdir(exist_ok=True), b"{}")[1])
    with pytest.raises(SealError) as caught:
        packing()
    assert caught.value.code is Code.USAGE
    assert left_over(tmp_path) == ["bundle"]
    assert list(out.iterdir()) == []


BAD_ARGUMENTS = {
    "a name with a slash": {"name": "a/b"},
    "an empty name": {"name": ""},
    "version zero": {"version": 0},
    "a version that is too large": {"version": 2**53},
    "no plugins": {"plugins": ()},
    "a document that climbs out": {"documents": (("../x", b""),)},
    "a document twice": {"documents": (("x", b"1"), ("x", b"2"))},
    "a document that is too large": {"documents": (("x", bytes((4 << 20) + 1)),)},
    "a relation without a template": {"template": Template("same", None)},
    "a template with the relation none": {"template": Template("none", "x")},
}


@pytest.mark.parametrize("changes", BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path, packing, monkeypatch, changes) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: pytest.fail("something was written"))
    with pytest.raises(SealError) as caught:
        packing(**changes)
    assert (caught.value.code, caught.value.exit_code) == (Code.USAGE, 2)
    assert left_over(tmp_path) == []


def test_a_template_that_is_no_unicode_text_is_refused(tmp_path, packing) -> None:
    with pytest.raises(SealError) as caught:
        packing(template=Template("added", "a\ud800"))
    assert caught.value.code is Code.TEMPLATE
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo"])
def test_a_model_that_is_no_file_is_an_io_refusal(tmp_path, packing, kind) -> None:
    path = tmp_path / "model"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(SealError) as caught:
        packing(model=path)
    assert caught.value.code is Code.IO
    assert left_over(tmp_path) == []


def test_an_empty_model_is_refused(tmp_path, packing) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(SealError) as caught:
        packing(model=tmp_path / "empty")
    assert caught.value.code is Code.USAGE


def test_a_model_behind_a_symbolic_link_is_copied_as_a_file(tmp_path, packing, seal_model) -> None:
    (tmp_path / "link").symlink_to(seal_model)
    packing(model=tmp_path / "link")
    assert not (tmp_path / "out" / "bundle" / "model.gguf").is_symlink()


def test_a_parent_that_is_not_there_is_an_io_refusal(tmp_path, packing) -> None:
    with pytest.raises(SealError) as caught:
        packing(out=tmp_path / "nowhere" / "bundle")
    assert caught.value.code is Code.IO


@pytest.mark.parametrize("failing", ["write", "fsync", "chunk_table", "rename", "interrupt"])
def test_a_failure_leaves_nothing_behind(tmp_path, packing, monkeypatch, failing) -> None:
    def fail(*_: object, **__: object) -> None:
        if failing == "interrupt":
            raise KeyboardInterrupt
        raise OSError(errno.ENOSPC, "No space left on device")

    target = {
        "write": "sealhost.signing.copying.os.copy_file_range",
        "fsync": "sealhost.signing.pack.os.fsync",
        "chunk_table": "sealhost.signing.pack.chunk_table",
        "rename": "sealhost.signing.pack.Path.rename",
        "interrupt": "sealhost.signing.pack.chunk_table",
    }[failing]
    monkeypatch.setattr(target, fail)
    with pytest.raises(KeyboardInterrupt if failing == "interrupt" else SealError) as caught:
        packing()
    monkeypatch.undo()
    if failing != "interrupt":
        assert caught.value.code is Code.IO
    assert left_over(tmp_path) == []


def test_a_file_system_without_in_kernel_copies_is_served_too(tmp_path, packing, seal_model, monkeypatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    digest = packing().digest
    monkeypatch.setattr("sealhost.signing.copying.os.copy_file_range", refuse)
    assert packing(out=tmp_path / "out" / "again").digest == digest


def test_a_model_that_is_cut_while_it_is_copied_is_refused(tmp_path, packing, monkeypatch) -> None:
    monkeypatch.setattr("sealhost.signing.copying.os.copy_file_range", lambda *_: 0)
    with pytest.raises(SealError) as caught:
        packing()
    assert caught.value.code is Code.SIZE
    assert left_over(tmp_path) == []


def test_progress_reaches_its_total(packing, seal_model) -> None:
    calls: list[tuple[int, int]] = []
    packing(progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (2 * seal_model.stat().st_size,) * 2


# --- declarations ---


def write_plugin(folder: Path, declaration: str, wasm: bytes = b"\0asm\1\0\0\0") -> Path:
    (folder / "mine.wasm").write_bytes(wasm)
    (folder / "mine.toml").write_text(declaration)
    return folder / "mine.wasm"


def test_a_declaration_becomes_a_plugin(tmp_path) -> None:
    plugin = read_plugin(write_plugin(tmp_path, DECLARATION))
    assert (plugin.name, plugin.role, plugin.abi, plugin.tier) == ("mine", "sampler", 1, "full")
    assert plugin.limits == PluginLimits(memory_bytes=2097152, init_ms=100, load_ms=0, step_ms=20, encode_ms=0)
    assert plugin.config_schema == {"type": "object", "properties": {"k": {"type": "integer"}}}


BAD_DECLARATIONS = {
    "no TOML": ("name", "= =", Code.PLUGIN),
    "an unknown field": ("abi = 1", "abi = 1\nsudo = true", Code.PLUGIN),
    "no limits": ("[limits]", "[limit]", Code.PLUGIN),
    "a field below the limits that belongs above": ("[limits]", "[limits]\nconfig_schema = '{}'", Code.PLUGIN),
    "limits that are no table": ("[limits]", "limits = 3 # ", Code.PLUGIN),
    "a float": ("init_ms = 100", "init_ms = 1e2", Code.PLUGIN),
    "another role": ('role = "sampler"', 'role = "kernel"', Code.PLUGIN),
    "a bad name": ('name = "mine"', 'name = "../mine"', Code.PLUGIN),
    "a schema that is a list": ("config_schema = '{", "config_schema = '[]' # ", Code.PLUGIN),
    "a schema that is no JSON": ("config_schema = '{", "config_schema = '{' # ", Code.PARSE),
}


@pytest.mark.parametrize(("old", "new", "code"), BAD_DECLARATIONS.values(), ids=BAD_DECLARATIONS)
def test_a_bad_declaration_is_refused(tmp_path, old, new, code) -> None:
    assert old in DECLARATION
    with pytest.raises(SealError) as caught:
        read_plugin(write_plugin(tmp_path, DECLARATION.replace(old, new)))
    assert caught.value.code is code


def test_a_module_without_a_declaration_is_refused(tmp_path) -> None:
    (tmp_path / "x.wasm").write_bytes(b"\0asm")
    with pytest.raises(SealError, match=r"x\.toml") as caught:
        read_plugin(tmp_path / "x.wasm")
    assert caught.value.code is Code.IO


def test_a_module_that_is_too_large_is_refused(tmp_path) -> None:
    with pytest.raises(SealError) as caught:
        read_plugin(write_plugin(tmp_path, DECLARATION, bytes((16 << 20) + 1)))
    assert caught.value.code is Code.SIZE


def test_a_module_path_with_a_nul_is_refused() -> None:
    with pytest.raises(SealError) as caught:
        read_plugin(Path("a\0b.wasm"))
    assert caught.value.code is Code.IO


def test_a_module_that_cannot_be_read_is_an_io_refusal(tmp_path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    path = write_plugin(tmp_path, DECLARATION)
    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(SealError, match="Permission denied") as caught:
        read_plugin(path)
    assert caught.value.code is Code.IO
