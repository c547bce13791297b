"""`run --record` on the real model, and `plugin replay` of what it wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sealhost.host.cli.main import run
from sealhost.plugins import reference_plugin

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def recording(signed_smollm2: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An answer of six sampled tokens."""
    path = tmp_path_factory.mktemp("recording") / "answer.rec"
    asked = ["run", str(signed_smollm2.root), "Once upon a time", "--raw", "--max-tokens", "6", "--temperature", "0.8"]
    assert run([*asked, "--seed", "5", "--record", str(path), "--keys", str(signed_smollm2.keys)]) == 0
    return path


def replayed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run(["plugin", "replay", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_an_answer_replays_to_the_same_tokens(
    recording: Path, smollm2_gguf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, facts = replayed(capsys, recording, reference_plugin("sampler", "standard"), "--model", smollm2_gguf)
    assert (code, facts["alike"], facts["complete"]) == (0, True, True)
    assert facts["steps"] == facts["decisions"] == 6
    assert facts["recorded with"] == "standard, this module"
    assert recording.stat().st_mode & 0o777 == 0o600


def test_another_sampler_is_told_where_it_differs(
    recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name = tmp_path / "other"
    assert run(["plugin", "new", "other", "--out", str(name)]) == 0
    source = (
        (name / "plugin.c").read_text().replace("return answer(SEALHOST_PASS, 0);", "return answer(SEALHOST_TOKEN, 3);")
    )
    (name / "plugin.c").write_text(source)
    assert run(["plugin", "build", str(name)]) == 0
    code, facts = replayed(capsys, recording, name)
    assert (code, facts["alike"], facts["step"], facts["slot"]) == (1, False, 0, 0)
    assert "(3,)" in facts["replayed"]
    assert facts["recorded with"] == "standard, another plugin than other"


def test_a_recording_is_not_overwritten_and_nonsense_is_refused(
    recording: Path, signed_smollm2: Any, smollm2_gguf: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = recording.read_bytes()
    keys = ["--keys", str(signed_smollm2.keys)]
    assert run(["run", str(signed_smollm2.root), "a", "--record", str(recording), *keys]) == 3
    assert "choose a path that is free" in capsys.readouterr().err
    assert recording.read_bytes() == before
    unused = tmp_path / "unused.rec"
    assert run(["run", str(signed_smollm2.root), "a", "--temperature", "-1", "--record", str(unused), *keys]) == 2
    assert not unused.exists()
    standard = str(reference_plugin("sampler", "standard"))
    unused.write_bytes(before[:-10])
    for path, code in ((tmp_path / "none.rec", 3), (unused, 1), (Path(standard) / "plugin.toml", 1)):
        assert run(["plugin", "replay", str(path), standard, "--model", str(smollm2_gguf)]) == code
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert line.startswith("E_")


def test_a_sampler_that_takes_the_vocabulary_is_told_to_bring_the_model(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["plugin", "replay", str(recording), str(reference_plugin("sampler", "standard"))]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("E_USAGE --model: expected the model that answered, for standard takes its vocabulary")
