"""The watermark on the real model: packed, signed, verified, sandboxed; the mark is in the text, and only with the key."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from sealhost.host.cli.main import run
from sealhost.plugins import reference_plugin

pytestmark = pytest.mark.model

KEY, OTHER_KEY = "5ea1" * 8, "0bad" * 8
ASKED = ["Tell me a long story about a fox.", "--temperature", "1", "--seed", "5", "--max-tokens", "120"]


@pytest.fixture(scope="module")
def bundle(bundle_with_sampler) -> tuple[str, list[str]]:
    """The demo model with the watermark as its sampler, and the option that names the trusted keys."""
    root, keys = bundle_with_sampler(reference_plugin("sampler", "watermark") / "plugin.wasm")
    return root, ["--keys", keys]


def test_an_answer_bears_the_mark_and_only_its_key_finds_it(bundle, capsys, monkeypatch, tmp_path: Path):
    root, keys = bundle
    config = json.dumps({"key": KEY, "delta": 4})
    assert run(["run", root, *ASKED, "--sampler-config", config, *keys]) == 0
    answer = capsys.readouterr().out
    scores = {}
    for key in (KEY, OTHER_KEY):
        path = tmp_path / f"{key}.json"
        path.write_text(json.dumps({"key": key, "delta": 4}))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(answer.encode())))
        assert run(["plugin", "detect", root, "--config", str(path), *keys, "--json"]) == 0
        scores[key] = json.loads(capsys.readouterr().out)
    assert scores[KEY]["marked"]
    assert scores[KEY]["z"] > 6
    assert not scores[OTHER_KEY]["marked"]


def test_a_request_without_the_key_is_refused_in_one_line(bundle, capsys):
    root, keys = bundle
    assert run(["run", root, *ASKED, *keys]) == 2
    assert capsys.readouterr().err.startswith("E_USAGE --sampler-config.key: expected it to be there, got none; ")
