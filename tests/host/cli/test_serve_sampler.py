"""`serve --sampler`: a signed guard in front of every answer, whether the client wants it or not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from sealhost.host.cli.main import run
from sealhost.plugins import reference_plugin

pytestmark = pytest.mark.model

SMALL = ["--context", "256", "--kv-mib", "32"]


@pytest.fixture(scope="module")
def guard(signed_smollm2: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Arguments of `serve` for the demo model and a plugin bundle with the guard."""
    bundle = tmp_path_factory.mktemp("guard") / "guard-1"
    packed = ["plugin", "pack", str(reference_plugin("sampler", "guard")), "--out", str(bundle)]
    assert run([*packed, "--name", "guard", "--version", "1"]) == 0
    assert run(["sign", str(bundle), "--key", str(signed_smollm2.private_key)]) == 0
    return [str(signed_smollm2.root), "--keys", str(signed_smollm2.keys), "--plugin", str(bundle), *SMALL]


def test_no_answer_holds_what_the_operator_bans_and_no_client_gets_around_it(
    guard: list[str], start_serve: Callable[..., Any], tmp_path: Path
) -> None:
    config = tmp_path / "guard.json"
    config.write_text(json.dumps({"banned": ["Paris"]}))
    served = start_serve([*guard, "--sampler", "guard", "--sampler-config-file", str(config)])
    assert served.process.poll() is None, served.lines
    body = {"prompt": "The capital of France is", "max_tokens": 12, "temperature": 0}
    with httpx.Client(base_url=served.url, timeout=120) as client:
        answer = client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        assert "Paris" not in answer.json()["choices"][0]["text"]
        assert client.post("/v1/completions", json=body | {"sampler": "standard"}).status_code == 400
    assert served.terminate() == 0
    assert any("every request goes through the sampler guard" in line for line in served.lines)


@pytest.mark.parametrize(
    ("sampler", "config", "said"),
    [
        ("nobody", None, "E_USAGE --sampler: expected one of standard, guard for smollm2, got nobody"),
        ("guard", {"baned": ["x"]}, "E_USAGE --sampler-config-file: expected a configuration for guard"),
    ],
)
def test_a_model_that_cannot_do_it_is_not_served(
    guard: list[str], tmp_path: Path, sampler: str, config: Any, said: str
) -> None:
    chosen = ["--sampler", sampler]
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
        chosen += ["--sampler-config-file", str(tmp_path / "config.json")]
    ended = subprocess.run(
        [sys.executable, "-c", "from sealhost.host.cli.entry import main; main()", "serve", *guard, "--port", "0", *chosen],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
