"""What users of other signing tools have run into, as behaviours of the command line: exit codes and what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sealhost.host.cli.main import run
from sealhost.signing.pack import pack
from sealhost.signing.sign import sign_bundle


@pytest.fixture
def verdict(seal_lab, capsys):
    """Verifies a bundle by the command line; answers the exit code and the one line."""

    def call(root: Path | None = None) -> tuple[int, str]:
        capsys.readouterr()
        code = run(["verify", str(root or seal_lab.root), "--keys", str(seal_lab.keys)])
        return code, capsys.readouterr().err

    return call


def test_what_lies_around_in_the_publishers_folder_neither_stops_signing_nor_gets_into_the_bundle(
    tmp_path, monkeypatch, capsys, smollm2_like
) -> None:
    """Another tool stopped at a symbolic link inside an ignored folder."""
    monkeypatch.chdir(tmp_path)
    Path(".venv/bin").mkdir(parents=True)
    Path(".venv/bin/python").symlink_to("/usr/bin/env")
    Path(".git").mkdir()
    Path("dangling").symlink_to("nowhere")
    assert run(["keygen", "acme", "--no-passphrase"]) == 0
    Path("keys").mkdir()
    Path("acme.pub").rename("keys/acme.pub")
    assert run(["pack", str(smollm2_like), "--out", "b", "--name", "n", "--version", "1"]) == 0
    assert run(["sign", "b", "--key", "acme.key"]) == 0
    assert run(["verify", "b", "--keys", "keys"]) == 0
    assert {path.name for path in Path("b").iterdir()} == {
        *("manifest.json", "model.gguf", "model.gguf.chunks", "chat_template.jinja", "plugins", "bundle.sig")
    }


@pytest.fixture
def smollm2_like(tmp_path) -> Path:
    """A small model file with a template."""
    import struct

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("tokenizer.chat_template") + struct.pack("<I", 8) + text("t")
    data += text("output_norm.weight") + struct.pack("<IQIQ", 1, 32, 0, 0)
    path = tmp_path / "m.gguf"
    path.write_bytes(data + bytes(-len(data) % 32) + bytes(128))
    return path


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda root: _flip(root / "documents/LICENSE"), "changed: 1 (documents/LICENSE);"),
        (lambda root: (root / "documents/LICENSE").unlink(), "missing: 1 (documents/LICENSE);"),
        (lambda root: (root / "notes.txt").touch(), "extra: 1 (notes.txt);"),
        (
            lambda root: (root / "documents/LICENSE").rename(root / "documents/LICENCE"),
            "missing: 1 (documents/LICENSE); extra: 1 (documents/LICENCE);",
        ),
    ],
    ids=["changed", "deleted", "added", "renamed"],
)
def test_a_refusal_says_which_files_it_is_about(seal_lab, verdict, do, said) -> None:
    """Another tool said "signature mismatch" and nothing else."""
    do(seal_lab.root)
    code, line = verdict()
    assert code == 1
    assert said in line
    assert line.count("\n") == 1


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


def test_the_signature_of_one_model_does_not_serve_another(
    tmp_path, seal_lab, seal_model, seal_private_key, make_seal_plugin, verdict
) -> None:
    """Another tool did not check the name that it had signed along."""
    plugins = (make_seal_plugin("bpe", "tokenizer"), make_seal_plugin("standard", "sampler"))
    pack(tmp_path / "other", name="other", version=3, model=seal_model, plugins=plugins)
    sign_bundle(tmp_path / "other", seal_private_key)
    assert verdict(tmp_path / "other") == verdict() == (0, "")
    shutil.copy(tmp_path / "other/bundle.sig", seal_lab.root / "bundle.sig")
    code, line = verdict()
    assert (code, line.split(":")[0]) == (1, "E_SIG bundle.sig")
    # its manifest along with it: now the signature fits, and the files do not
    shutil.copy(tmp_path / "other/manifest.json", seal_lab.root / "manifest.json")
    code, line = verdict()
    assert (code, line.split(":")[0]) == (1, "E_UNLISTED chat_template.jinja")
