"""Checks what a tokenizer answered: the ids must spell the text (clauses 7.3 and 7.4).

problem = check(vocabulary, text, ids, add_special=True, parse_special=False)   # None: it holds
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .abi import TokenType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .vocabulary import Vocabulary

_BLANK = "\u2581".encode()
_UNIGRAM = "t5"
_BLANK_MODELS = frozenset({"llama", "gemma4", _UNIGRAM})
"""Tokenizer models that spell a space as U+2581, so that nothing tells the two apart."""

_NEVER_FROM_TEXT = np.array([TokenType.UNKNOWN, TokenType.CONTROL, TokenType.UNUSED], dtype=np.uint8)


def unspellable(vocabulary: Vocabulary) -> bytes:
    """The bytes that no token of a vocabulary spells alone: byte-level models drop them from a text (clause 7.3)."""
    never = frozenset(_NEVER_FROM_TEXT.tolist())
    alone = {
        spelled
        for token, spelled in enumerate(vocabulary.token_bytes)
        if len(spelled) == 1 and int(vocabulary.types[token]) not in never
    }
    return bytes(byte for byte in range(256) if bytes([byte]) not in alone)


def check(
    vocabulary: Vocabulary,
    text: bytes,
    ids: NDArray[np.uint32],
    *,
    add_special: bool,
    parse_special: bool,
    dropped: bytes = b"",
) -> str | None:
    """What is wrong with an answer, as "expected X, got Y"; None when it holds.

    Args:
        vocabulary: With the host's own table of bytes.
        text: What was encoded, UTF-8.
        ids: What came back. Shape: (n,), uint32.
        add_special: Whether BOS and EOS may stand at the ends.
        parse_special: Whether control tokens may come from the text.
        dropped: Bytes that may be missing from the answer: `unspellable(vocabulary)`.
    """
    if ids.size and int(ids.max()) >= len(vocabulary.texts):
        return f"expected ids below {len(vocabulary.texts)}, got {int(ids.max())}"
    first_problem: str | None = None
    for start, stop in _bodies(vocabulary, ids, add_special=add_special):
        problem = _check_body(vocabulary, text, ids[start:stop], parse_special=parse_special, dropped=dropped)
        if problem is None:
            return None
        first_problem = first_problem or problem
    return first_problem


def _bodies(vocabulary: Vocabulary, ids: NDArray[np.uint32], *, add_special: bool) -> list[tuple[int, int]]:
    """Where the text's own ids may begin and end, the likeliest first: without the added BOS and EOS."""
    count = len(ids)
    has_bos = add_special and vocabulary.add_bos and count > 0 and int(ids[0]) == vocabulary.bos
    has_eos = add_special and vocabulary.add_eos and count > has_bos and int(ids[-1]) == vocabulary.eos
    starts = [1, 0] if has_bos else [0]
    stops = [count - 1, count] if has_eos else [count]
    return [(a, b) for a in starts for b in stops]


def _check_body(
    vocabulary: Vocabulary, text: bytes, ids: NDArray[np.uint32], *, parse_special: bool, dropped: bytes
) -> str | None:
    if vocabulary.model == _UNIGRAM:
        ids, text = _without_unknown(vocabulary, text, ids, parse_special=parse_special)
    if not parse_special:
        forbidden = np.isin(vocabulary.types[ids], _NEVER_FROM_TEXT)
        if forbidden.any():
            found = int(ids[int(forbidden.argmax())])
            return f"expected no control token from text, got id {found}"
    spelled = b"".join(map(vocabulary.token_bytes.__getitem__, ids.tolist()))
    if vocabulary.model in _BLANK_MODELS:
        spelled, text = spelled.replace(_BLANK, b" "), text.replace(_BLANK, b" ")
    accepted = (text, b" " + text) if vocabulary.add_space_prefix else (text,)
    if spelled in accepted:
        return None
    if dropped and spelled.translate(None, dropped) in [one.translate(None, dropped) for one in accepted]:
        return None
    at = next((i for i, (a, b) in enumerate(zip(spelled, text, strict=False)) if a != b), min(len(spelled), len(text)))
    return f"expected ids that spell the text, got other bytes from byte {at} on"


def _without_unknown(
    vocabulary: Vocabulary, text: bytes, ids: NDArray[np.uint32], *, parse_special: bool
) -> tuple[NDArray[np.uint32], bytes]:
    """Clause 7.3: in Unigram vocabularies the unknown token stands for bytes that may be left out as well."""
    if vocabulary.unknown < 0:
        return ids, text
    spelled = vocabulary.token_bytes[vocabulary.unknown]
    return ids[ids != vocabulary.unknown], text.replace(spelled, b"") if parse_special and spelled else text
