"""Writes `tests/goldens/architectures.json`: what Hugging Face's transformers answer for each tiny model.

usage: python tests/host/weights/architectures/make_goldens.py      (an environment with torch, transformers, gguf, numpy)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hugging_face import log_probs
from tiny_models import CASES

GOLDENS = Path(__file__).resolve().parents[3] / "goldens" / "architectures.json"


def main() -> None:
    goldens = {case.name: log_probs(case).round(6).tolist() for case in CASES}
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in goldens.items()]
    GOLDENS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
