"""The vocabulary that an author's tokenizer is tried with: small, byte-level, and every kind of token in it.

    words = trial_vocabulary()         # or that of a model: model_vocabulary(Path("model.gguf"))
    words.token_bytes[104]             # b"h": ids below 256 are the bytes themselves

| ids | tokens |
|---|---|
| 0 to 255 | the bytes |
| 256 to 271 | what `MERGES` makes, in its order |
| 272 to 276 | `<|bos|>` and `<|eos|>` (control), `<|tool|>` (user-defined), `<|unused|>`, `<|unknown|>` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...sandbox import Vocabulary
from .bare_file import opened_file

if TYPE_CHECKING:
    from pathlib import Path

MERGES = (
    b" t", b"he", b" a", b"in", b"re", b"on", b" the", b"er", b"at", b" w", b"ing", b"ll", b"or", b"is", b"  ", b"00",
)  # fmt: skip
"""What the merges make, best first; each joins the two tokens that `_HALVES` says."""

_HALVES = {b" the": (b" t", b"he"), b"ing": (b"in", b"g")}
"""Merges of more than two bytes."""

FIRST_MERGED = 256
BOS, EOS, TOOL, UNUSED, UNKNOWN = range(FIRST_MERGED + len(MERGES), FIRST_MERGED + len(MERGES) + 5)
SPECIALS = (b"<|bos|>", b"<|eos|>", b"<|tool|>", b"<|unused|>", b"<|unknown|>")
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5


def trial_vocabulary() -> Vocabulary:
    """The small one; model "gpt2", pre "gpt-2", begins with BOS."""
    spelling = _alphabet()

    def spell(raw: bytes) -> bytes:
        return "".join(spelling[byte] for byte in raw).encode()

    normal = (*(bytes((byte,)) for byte in range(256)), *MERGES)
    halves = [_HALVES.get(merged, (merged[:1], merged[1:])) for merged in MERGES]
    types = [_NORMAL] * len(normal) + [_CONTROL, _CONTROL, _USER_DEFINED, _UNUSED, _UNKNOWN]
    return Vocabulary(
        model="gpt2",
        pre="gpt-2",
        texts=(*map(spell, normal), *SPECIALS),
        types=np.array(types, np.uint8),
        scores=np.zeros(len(types), np.float32),
        merges=tuple(spell(left) + b" " + spell(right) for left, right in halves),
        bos=BOS,
        eos=EOS,
        unknown=UNKNOWN,
        add_bos=True,
        add_eos=False,
        add_space_prefix=False,
        token_bytes=(*normal, *SPECIALS),
    )


def model_vocabulary(model: Path) -> Vocabulary:
    """That of a GGUF file.

    Raises:
        SealhostError: E_IO, E_GGUF.
    """
    from ..weights.gguf import GgufFile  # noqa: PLC0415 — only for --model
    from ..weights.vocabulary import vocabulary  # noqa: PLC0415

    with opened_file(model) as contents:
        return vocabulary(GgufFile.parse(contents))


def _alphabet() -> dict[int, str]:
    """GPT-2's printable spelling of bytes (clause 4.6 of plugins/README.md)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + rank) for rank, byte in enumerate(rest)}
