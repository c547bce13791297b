"""A grammar guest of the mask tier answers for the real model: packed, signed, verified, sandboxed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sealhost.host.cli.main import run

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def bundle(smollm2_gguf, tmp_path_factory) -> tuple[Path, Path]:
    """The demo model with the example `digits` as its sampler, and the folder of trusted keys."""
    folder = tmp_path_factory.mktemp("grammar")
    plugin, root, keys = folder / "digits", folder / "bundle", folder / "keys"
    plugin.mkdir()
    for path in (Path(__file__).parent / "examples" / "digits").iterdir():
        (plugin / path.name).write_bytes(path.read_bytes())
    assert run(["plugin", "build", str(plugin)]) == 0
    assert run(["keygen", "author", "--out", str(folder), "--no-passphrase"]) == 0
    keys.mkdir(mode=0o755)
    (folder / "author.pub").rename(keys / "author.pub")
    packed = ["pack", str(smollm2_gguf), "--out", str(root), "--name", "numbers", "--version", "1"]
    assert run([*packed, "--sampler", str(plugin / "plugin.wasm")]) == 0
    assert run(["sign", str(root), "--key", str(folder / "author.key")]) == 0
    return root, keys


@pytest.mark.parametrize("temperature", ["0", "1.5"])
def test_a_model_that_may_only_say_numbers_says_a_number(temperature, bundle, capsys):
    root, keys = bundle
    asked = ["run", str(root), "How many people live in Paris?", "--temperature", temperature, "--seed", "3"]
    assert run([*asked, "--max-tokens", "16", "--keys", str(keys)]) == 0
    assert re.fullmatch(r"[0-9]{3,}\n", capsys.readouterr().out)
