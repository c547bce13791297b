"""What a sampler that asks for the vocabulary gets: struct sealhost_token_table and the columns behind it.

    table = token_table(vocabulary)    # bytes, written where the guest's `vocabulary(size)` says

* The texts are the host's own spellings, so a guest needs to know no tokenizer's alphabet (plugins/README.md, 2.16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import abi

if TYPE_CHECKING:
    from .vocabulary import Vocabulary

TAKES_VOCABULARY = "vocabulary"
"""The export that asks for it."""


def token_table(vocabulary: Vocabulary) -> bytes:
    """The table, each column 8-aligned."""
    is_control = vocabulary.types == abi.TokenType.CONTROL
    spelled = [
        b"" if hidden else text for text, hidden in zip(vocabulary.token_bytes, is_control.tolist(), strict=True)
    ]
    offsets = np.zeros(len(spelled) + 1, np.uint32)
    np.cumsum(np.fromiter(map(len, spelled), np.uint32, len(spelled)), out=offsets[1:])
    columns = [vocabulary.types.astype(np.uint8).tobytes(), offsets.astype("<u4").tobytes(), b"".join(spelled)]
    places = []
    at = abi.TOKEN_TABLE.size
    for column in columns:
        places.append(at)
        at += -(-len(column) // 8) * 8
    ids = (vocabulary.bos, vocabulary.eos, vocabulary.unknown)
    head = abi.TOKEN_TABLE.pack(abi.TOKEN_TABLE.size, len(spelled), *ids, *places)
    return head + b"".join(column.ljust(-(-len(column) // 8) * 8, b"\0") for column in columns)
