"""The guard on the real model: packed, signed, verified, sandboxed; the engine goes back and the answer takes another way."""

from __future__ import annotations

import json

import pytest

from sealhost.host.cli.main import run
from sealhost.plugins import reference_plugin

pytestmark = pytest.mark.model

ASKED = ["The capital of France is", "--raw", "--temperature", "0", "--max-tokens", "24"]


@pytest.fixture(scope="module")
def said(bundle_with_sampler):
    """Runs the demo model with the guard as its sampler over a configuration; what it says."""
    root, keys = bundle_with_sampler(reference_plugin("sampler", "guard") / "plugin.wasm")

    def ask(capsys, banned: list[str], *more: str) -> str:
        capsys.readouterr()
        config = json.dumps({"banned": banned})
        assert run(["run", root, *ASKED, *more, "--sampler-config", config, "--keys", keys]) == 0
        return capsys.readouterr().out

    return ask


def test_a_banned_text_is_not_said_and_what_stood_before_it_stays(said, capsys):
    plain = said(capsys, [])
    assert plain.startswith(" Paris")
    for start in (6, 14, 23):  # from within a token into another one, some of them several tokens on
        banned = plain[start : start + 13]
        text = said(capsys, [banned])
        assert banned not in text
        assert text[: start - 12 if start > 12 else 0] == plain[: start - 12 if start > 12 else 0]
        assert text != plain


def test_the_models_second_wish_comes_when_its_first_is_banned(said, capsys):
    text = said(capsys, ["Paris", "paris", "located in", " city"], "--seed", "1")
    assert "aris" not in text
    assert "located in" not in text
    assert len(text.split()) > 5


def test_a_text_that_the_last_token_would_complete_is_not_said_either(said, capsys):
    plain = said(capsys, [])
    tail = plain.rstrip("\n")[-9:]
    assert tail not in said(capsys, [tail])
