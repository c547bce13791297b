"""Where a user's things are: never a matter of the folder that a verb is called in."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from sealhost.host.cli.main import run
from sealhost.host.cli.places import state_folder, trust_store
from sealhost.sandbox.cache import CodeCache

VARIABLES = ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def known_home(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """What the system's user database says of us; None: nothing."""

    def entry(_user: int) -> SimpleNamespace:
        if home is None:
            raise KeyError
        return SimpleNamespace(pw_dir=home)

    monkeypatch.setattr(pwd, "getpwuid", entry)


@pytest.mark.parametrize("home", [None, "", ".", "evil"])
def test_a_home_that_is_no_absolute_path_is_the_user_database_s(
    home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if home is not None:
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("XDG_STATE_HOME", home)
    known_home(monkeypatch, "/home/ann")
    assert trust_store() == Path("/home/ann/.local/share/sealhost/keys")
    assert state_folder() == Path("/home/ann/.local/state/sealhost/state")


@pytest.mark.parametrize("known", [None, "", "."])
def test_without_any_home_a_verb_says_what_to_name(
    known: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known_home(monkeypatch, known)
    folder = tmp_path / ".local/share/sealhost/keys"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", ".")
    assert run(["trust", "list"]) == 2
    assert capsys.readouterr().err.startswith("E_USAGE HOME: expected the absolute path of a home folder, got '.'")
    assert CodeCache.default_directory() is None


def test_compiled_guests_lie_below_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert CodeCache.default_directory() == Path("/home/ann/.cache/sealhost/wasm")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{os.sep}cache")
    assert CodeCache.default_directory() == Path("/cache/sealhost/wasm")
