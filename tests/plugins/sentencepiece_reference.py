"""SentencePiece's BPE in a few lines, as slow as it is plain: what the spm guest has to agree with."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

from plugin_harness import BYTE, CONTROL, NORMAL, UNKNOWN, VocabularyColumns

BLANK = "\u2581"
ADD_BOS, ADD_EOS, ADD_SPACE_PREFIX = 1, 2, 4
FIRST_BYTE = 3
"""Id of <0x00>, behind <unk>, <s> and </s>."""

FIRST_PIECE = FIRST_BYTE + 256


def columns(pieces: dict[str, float], more=(), more_types=(), bits: int = ADD_BOS | ADD_SPACE_PREFIX, **changes):
    """A vocabulary like Llama 2's: <unk>, <s>, </s>, the bytes, then pieces with their scores, then `more` tokens."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    texts = ["<unk>", "<s>", "</s>", *bytes_, *pieces, *more]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(pieces), *more_types]
    scores = [0.0] * FIRST_PIECE + [*pieces.values()] + [0.0] * len(more)
    facts = {"pre": "default", "model": "llama", "types": types, "scores": scores, "flags": (bits, 1, 2, 0), **changes}
    return VocabularyColumns(texts, [], **facts)


@dataclass
class Reference:
    """Joins the neighbours whose text has the best score, from the left, until none are left."""

    pieces: dict[str, float]
    prefix: bool = True
    ids: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = {piece: FIRST_PIECE + place for place, piece in enumerate(self.pieces)}

    def encode(self, text: str) -> list[int]:
        symbols = list((" " * (self.prefix and bool(text)) + text).replace(" ", BLANK))
        while True:
            joined = [a + b for a, b in itertools.pairwise(symbols)]
            known = [(-self.pieces[both], place) for place, both in enumerate(joined) if both in self.pieces]
            if not known:
                return [one for symbol in symbols for one in self.spelled(symbol)]
            place = min(known)[1]
            symbols[place : place + 2] = [joined[place]]

    def spelled(self, symbol: str) -> list[int]:
        return [self.ids[symbol]] if symbol in self.ids else [FIRST_BYTE + byte for byte in symbol.encode()]


def random_pieces(chance: random.Random, texts: list[str], count: int, scores: int) -> dict[str, float]:
    """Parts of the texts, up to six characters long, with few different scores: many merges tie."""
    joined = [text.replace(" ", BLANK) for text in texts if text]
    found: dict[str, float] = {}
    while len(found) < count:
        text = chance.choice(joined)
        start = chance.randrange(len(text))
        found[text[start : start + chance.randrange(1, 7)]] = -float(chance.randrange(scores))
    return found
