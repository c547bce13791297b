"""What `tokenize` and `run` do with a bundle of the demo model whose last chunk is wrong, lazily and not."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from sealhost.host.cli.main import run
from sealhost.signing.keys import public_key_of
from sealhost.signing.limits import CHUNK_BYTES
from sealhost.signing.sign import sign_bundle

pytestmark = pytest.mark.model

QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def models(tmp_path_factory, smollm2_gguf, seal_private_key) -> Path:
    """Bundles of one model: version 1, version 2, and version 2 with a wrong last byte."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "keys").mkdir()
    (folder / "keys" / "lab.pub").write_bytes(public_key_of(seal_private_key).to_pem())
    for name, version in (("v1", 1), ("v2", 2), ("bad", 2)):
        command = ["pack", str(smollm2_gguf), "--out", str(folder / name), "--name", "m", "--version", str(version)]
        assert run(command) == 0
        sign_bundle(folder / name, seal_private_key)
    with (folder / "bad" / "model.gguf").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        octet = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([octet ^ 1]))
    return folder


@pytest.fixture
def tokenize(models, tmp_path, monkeypatch, capsys, smollm2_goldens):
    """Runs `tokenize` on a bundle; answers its exit code, what it printed, and whether that is right."""

    def call(bundle: str, *options: str) -> tuple[int, str, str]:
        texts = "".join(json.dumps(golden["prompt"]) + "\n" for golden in smollm2_goldens)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(texts.encode()), encoding="utf-8"))
        folders = ["--keys", str(models / "keys"), "--state", str(tmp_path / "state")]
        capsys.readouterr()
        code = run(["tokenize", str(models / bundle), "--jsonl", *folders, *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def chunks_read(monkeypatch) -> set[int]:
    seen: set[int] = set()
    real = os.preadv
    monkeypatch.setattr(
        "sealhost.signing.chunks.os.preadv", lambda d, b, at: seen.add(at // CHUNK_BYTES) or real(d, b, at)
    )
    return seen


def test_tokenize_encodes_nothing_before_every_byte_was_verified(tokenize, chunks_read, models) -> None:
    code, printed, said = tokenize("bad")
    assert (code, printed) == (1, "")
    assert said.startswith("E_DIGEST model.gguf: ")
    chunks_read.clear()
    assert tokenize("v2")[0] == 0
    assert len(chunks_read) == -(-(models / "v2" / "model.gguf").stat().st_size // CHUNK_BYTES)


def test_a_lazy_tokenize_reads_the_header_and_nothing_else(tokenize, chunks_read, smollm2_goldens) -> None:
    for bundle in ("v2", "bad"):
        code, printed, _ = tokenize(bundle, "--lazy")
        assert code == 0
        assert [json.loads(line) for line in printed.splitlines()] == [
            golden["token_ids"] for golden in smollm2_goldens
        ]
    assert chunks_read == {0}  # the header has less than 4 MiB


def test_a_lazy_tokenize_refuses_a_wrong_header(tokenize, models, tmp_path) -> None:
    path = models / "bad" / "model.gguf"
    before = path.read_bytes()[:4]
    with path.open("r+b") as file:
        file.write(b"EVIL")
    code, printed, said = tokenize("bad", "--lazy")
    with path.open("r+b") as file:
        file.write(before)
    assert (code, printed) == (1, "")
    assert said.startswith("E_DIGEST model.gguf: expected sha256 ")


def test_tokenize_compares_with_the_named_state_and_does_not_change_it(tokenize, models, tmp_path) -> None:
    common = ["--keys", str(models / "keys"), "--state", str(tmp_path / "state"), "--max-tokens", "1"]
    assert tokenize("v1")[0] == 0
    assert not (tmp_path / "state").exists()
    assert run(["run", str(models / "v2"), QUESTION, *common]) == 0
    for options in ((), ("--lazy",)):
        code, printed, said = tokenize("v1", *options)
        assert (code, printed) == (4, "")
        assert said.startswith("E_ROLLBACK m: ")


@pytest.mark.parametrize("options", [(), ("--lazy",)])
def test_run_answers_nothing_and_marks_nothing_when_the_last_chunk_is_wrong(models, tmp_path, capsys, options) -> None:
    common = ["--keys", str(models / "keys"), "--state", str(tmp_path / "state"), *options]
    assert run(["run", str(models / "bad"), QUESTION, *common]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "E_DIGEST model.gguf: " in printed.err
    assert not (tmp_path / "state").exists()
    assert run(["run", str(models / "v1"), QUESTION, "--system", "Answer in one sentence.", *common]) == 0
    assert capsys.readouterr().out == "The capital of France is Paris.\n"
