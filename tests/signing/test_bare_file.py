"""A bare model file that changes while `pack` or `tokenize` reads it: a refusal, and no signal that ends the process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sealhost.host.cli.bare_file import opened_file
from sealhost.host.cli.main import run
from sealhost.signing import Code, SealhostError

CONTENT = bytes(range(256)) * 64


@pytest.fixture
def path(tmp_path) -> Path:
    (tmp_path / "m.gguf").write_bytes(CONTENT)
    return tmp_path / "m.gguf"


def test_any_range_is_given_out_whatever_a_read_brings(path, monkeypatch) -> None:
    real = os.pread
    monkeypatch.setattr("sealhost.host.cli.bare_file.os.pread", lambda fd, count, at: real(fd, min(count, 1000), at))
    with opened_file(path) as contents:
        assert contents.size == len(CONTENT)
        for start, stop in ((0, 4), (5, 5), (255, 5000), (0, len(CONTENT))):
            assert contents.view(start, stop) == CONTENT[start:stop]


def test_a_file_that_is_cut_is_refused_where_a_map_would_end_the_process(path) -> None:
    with opened_file(path) as contents:
        os.truncate(path, 100)
        assert contents.view(0, 100) == CONTENT[:100]
        with pytest.raises(SealhostError, match="somebody is writing to it") as caught:
            contents.view(50, 200)
    assert caught.value.code is Code.IO


@pytest.mark.parametrize("name", ["none.gguf", ".", "a\0b", "fifo"])
def test_what_is_no_file_is_refused_and_waits_for_nobody(tmp_path, name) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SealhostError) as caught, opened_file(tmp_path / name):
        pass
    assert caught.value.code is Code.IO


VERBS = [["pack", "--out", "b", "--name", "n", "--version", "1"], ["tokenize"]]


@pytest.mark.parametrize("verb", VERBS)
def test_a_refusal_of_its_content_names_the_file(path, monkeypatch, capsys, verb) -> None:
    monkeypatch.chdir(path.parent)
    assert run([verb[0], "m.gguf", *verb[1:]]) == 1
    assert capsys.readouterr().err.startswith("E_GGUF m.gguf: magic: expected b'GGUF', got ")


@pytest.mark.parametrize("verb", VERBS)
def test_a_model_that_is_cut_within_its_header_leaves_nothing_behind(tmp_path, monkeypatch, capsys, verb) -> None:
    """The header is longer than one read; the file is cut before the second."""
    monkeypatch.chdir(tmp_path)
    key, word = b"tokenizer.ggml.tokens", b"word"
    count = 200_000
    header = b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + (1).to_bytes(8, "little")
    header += len(key).to_bytes(8, "little") + key + (9).to_bytes(4, "little") + (8).to_bytes(4, "little")
    header += count.to_bytes(8, "little") + (len(word).to_bytes(8, "little") + word) * count
    Path("m.gguf").write_bytes(header)
    real, calls = os.pread, []

    def pread(descriptor: int, size: int, at: int) -> bytes:
        calls.append(at)
        if len(calls) == 2:
            os.truncate("m.gguf", 1 << 20)
        return real(descriptor, size, at)

    monkeypatch.setattr("sealhost.host.cli.bare_file.os.pread", pread)
    assert run([verb[0], "m.gguf", *verb[1:]]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("E_IO m.gguf: ")
    assert len(calls) > 1
    assert [path.name for path in Path().iterdir()] == ["m.gguf"]
