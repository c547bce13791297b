"""Random texts that try a tokenizer: parts that rules know, in any order, between characters of any script or plane."""

from __future__ import annotations

import json
import random
from pathlib import Path

PARTS = json.loads((Path(__file__).parent / "text_parts.json").read_text(encoding="utf-8"))
"""White space of every kind, contractions, letters and digits of many scripts, combining marks, emoji with joiners, controls."""

ALL_SCRIPTS = 0x3400
"""Below it lie nearly all alphabets."""


def random_text(chance: random.Random) -> str:
    made = []
    for _ in range(chance.randrange(1, 24)):
        pick = chance.random()
        if pick < 0.6:
            made.append(chance.choice(PARTS) * chance.choice([1, 1, 1, 2, 3, 17]))
        elif pick < 0.9:
            made.append(chr(chance.randrange(ALL_SCRIPTS)))
        else:
            point = chance.randrange(0x110000)
            made.append("" if 0xD800 <= point < 0xE000 else chr(point))
    return "".join(made)


def texts(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [random_text(chance) for _ in range(count)]
