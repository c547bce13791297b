"""The tiny models' files, and what Hugging Face's transformers answer for them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

# the importlib import mode puts no test folder on the path, and tables of cases need the models' names
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tiny_models import CASES, gguf_file

GOLDENS = Path(__file__).resolve().parents[3] / "goldens" / "architectures.json"


@pytest.fixture(scope="session")
def files() -> dict[str, bytes]:
    """Each tiny model's GGUF file, by its case's name."""
    return {case.name: gguf_file(case) for case in CASES}


@pytest.fixture(scope="session")
def goldens() -> dict[str, NDArray[np.float64]]:
    """Log-probabilities by case. Shape of each: (ends, vocab)."""
    return {name: np.array(rows) for name, rows in json.loads(GOLDENS.read_text()).items()}
