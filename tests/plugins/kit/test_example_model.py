"""A grammar guest of the mask tier answers for the real model: packed, signed, verified, sandboxed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sealhost.host.cli.main import run

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def bundle(bundle_with_sampler, tmp_path_factory) -> tuple[str, str]:
    """The demo model with the example `digits` as its sampler, and the folder of trusted keys."""
    plugin = tmp_path_factory.mktemp("digits")
    for path in (Path(__file__).parent / "examples" / "digits").iterdir():
        (plugin / path.name).write_bytes(path.read_bytes())
    assert run(["plugin", "build", str(plugin)]) == 0
    return bundle_with_sampler(plugin / "plugin.wasm")


@pytest.mark.parametrize("temperature", ["0", "1.5"])
def test_a_model_that_may_only_say_numbers_says_a_number(temperature, bundle, capsys):
    root, keys = bundle
    asked = ["run", root, "How many people live in Paris?", "--temperature", temperature, "--seed", "3"]
    assert run([*asked, "--max-tokens", "16", "--keys", keys]) == 0
    assert re.fullmatch(r"[0-9]{3,}\n", capsys.readouterr().out)
