"""The reference samplers pass the trials that any author's plugin has to pass, golden cases and all."""

from __future__ import annotations

import json

import pytest

from sealhost.host.cli.main import run
from sealhost.plugins import reference_plugin

CONFIGURATIONS = {
    "guard": {"banned": ["the", "in a", "bad worse"], "ignore_case": True},
    "json": {"schema": {"type": "array", "items": {"type": "string"}}},
    "regex": {"pattern": "[0-9]+ [a-z]*"},
    "standard": {"xtc_probability": 0.5, "dry_multiplier": 0.8, "typical_p": 0.9, "mirostat": 0},
    "watermark": {"key": "00112233445566778899aabbccddeeff"},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_reference_sampler_passes_the_authors_trials(name, tmp_path, capsys):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIGURATIONS[name]))
    folder = reference_plugin("sampler", name)
    assert run(["plugin", "test", str(folder), "--config", str(config), "--rounds", "40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"]
    cases = json.loads((folder / "golden.json").read_text())
    passed = [one for one in found["trials"] if one["name"].startswith("golden") and one["verdict"] == "ok"]
    assert len(passed) == len(cases) >= 5
