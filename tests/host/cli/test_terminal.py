"""Text of models on a terminal, and where things of a user lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from sealhost.host.cli.places import cache_folder, data_folder, trust_store
from sealhost.host.cli.terminal import harmless, show

SHOWN = [
    ("plain text", "plain text"),
    ("line\nand\ttab", "line\nand\ttab"),
    ("\x1b[2J", "\\x1b[2J"),
    ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
    ("over\rwrite", "over\\rwrite"),
    ("back\b\b", "back\\x08\\x08"),
    ("\x00\x7f", "\\x00\\x7f"),
    ("\x9b31m", "\\x9b31m"),
    ("safe\u202eexe.txt", "safe\\u202eexe.txt"),
    ("\u2066isolate\u2069", "\\u2066isolate\\u2069"),
    ("a\u2028b", "a\\u2028b"),
    ("\ud800", "\\ud800"),
    ("é 字 🎉 \u200d ❤\ufe0f", "é 字 🎉 \u200d ❤\ufe0f"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_text_of_a_model_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str], text: str, shown: str) -> None:
    assert harmless(text) == shown
    show(text, end="|")
    assert capsys.readouterr().out == shown + "|"


@pytest.mark.parametrize("value", [None, "", "relative/path"])
def test_without_a_usable_xdg_variable_the_documented_defaults_apply(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    assert data_folder() == Path.home() / ".local/share/sealhost"
    assert cache_folder() == Path.home() / ".cache/sealhost"


def test_xdg_variables_move_the_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/d")
    assert trust_store() == Path("/d/sealhost/keys")
