"""A model's vocabulary, and the stream in which a guest gets it.

stream = vocabulary.stream()      # bytes, SEALHOST_VOCAB_* sections of sealhost.h
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from . import abi
from .errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)  # no slots: the digest is kept
class Vocabulary:
    """What a tokenizer is made of, and the host's own table of token bytes.

    Args:
        model: GGUF's tokenizer.ggml.model, e.g. "gpt2".
        pre: GGUF's tokenizer.ggml.pre, e.g. "smollm".
        texts: Token texts as the GGUF spells them. A column of strings may carry a `sha256` of them: who reads a file
            has it for less than the digest takes to look at them all.
        types: `abi.TokenType` of each. Shape: (len(texts),), uint8.
        scores: Shape: (len(texts),), float32.
        merges: b"left right", best first.
        bos: Token id, -1: none.
        eos: Token id, -1: none.
        unknown: Token id, -1: none.
        add_bos: Whether `add_special` puts BOS first.
        add_eos: Whether `add_special` puts EOS last.
        add_space_prefix: Whether a space is put before the text.
        token_bytes: The host's trusted bytes of each id; of control tokens their text.
        normalize: What the model does to a text before it is encoded, in trusted code; None: nothing.

    Raises:
        SandboxError: When the columns' lengths differ or an id is out of range.
    """

    model: str
    pre: str
    texts: tuple[bytes, ...]
    types: NDArray[np.uint8]
    scores: NDArray[np.float32]
    merges: tuple[bytes, ...]
    bos: int
    eos: int
    unknown: int
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool
    token_bytes: tuple[bytes, ...]
    normalize: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        count = len(self.texts)
        lengths = (len(self.types), len(self.scores), len(self.token_bytes))
        if lengths != (count,) * 3:
            problem = f"expected {count} types, scores and token bytes, got {lengths}"
            raise SandboxError("vocabulary", problem, "report it: the model's reader is at fault")
        for name in ("bos", "eos", "unknown"):
            if not -1 <= getattr(self, name) < count:
                problem = f"expected {name} within -1..{count - 1}, got {getattr(self, name)}"
                raise SandboxError("vocabulary", problem, "report it: the model's reader is at fault")

    def stream(self) -> bytes:
        """The whole vocabulary stream of sealhost.h."""
        add = (self.add_bos, self.add_eos, self.add_space_prefix)
        bits = sum(flag for flag, on in zip(abi.VocabFlag, add, strict=True) if on)
        offsets, text = _column(self.texts)
        tokens = [_count(self.texts), self.types.astype(np.uint8).tobytes(), self.scores.astype("<f4").tobytes()]
        merge_offsets, merges = _column(self.merges)
        return b"".join(
            (
                _section(abi.VocabTag.MODEL, self.model.encode()),
                _section(abi.VocabTag.PRE, self.pre.encode()),
                _section(abi.VocabTag.FLAGS, abi.VOCAB_FLAGS.pack(bits, self.bos, self.eos, self.unknown)),
                _section(abi.VocabTag.TOKENS, b"".join((*tokens, offsets, text))),
                _section(abi.VocabTag.MERGES, b"".join((_count(self.merges), merge_offsets, merges))),
            )
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything that a loaded tokenizer depends on, the host's own table included (clause 5.4).

        Made once for all plugins that are given this vocabulary: looking at 150,000 strings takes milliseconds.
        MessagePack spells tuples of bytes, text and integers in one way only, and msgspec takes half of marshal's time.
        """
        facts = (self.model, self.pre, self.bos, self.eos, self.unknown, self.add_bos, self.add_eos)
        strings = (_told(self.texts), _told(self.merges), _told(self.token_bytes))
        columns = (*strings, _sha256(self.types), _sha256(self.scores))
        return hashlib.sha256(msgspec.msgpack.encode((facts, self.add_space_prefix, columns))).digest()


def _told(column: tuple[bytes, ...]) -> tuple[bytes, ...] | bytes:
    """What stands for a column in the digest: its strings, or their `sha256` where whoever made the column took it."""
    known: bytes | None = getattr(column, "sha256", None)
    return column if known is None else known


def _sha256(column: NDArray[np.generic]) -> bytes:
    """Of an array where it lies: copies of a megabyte cost more than its hash.

    All bits zero, as the scores of a vocabulary that has none, are seen in a tenth of the time that they take to hash;
    no digest is empty, so the empty answer stands for nothing else.
    """
    whole = np.ascontiguousarray(column)
    return hashlib.sha256(whole.data).digest() if whole.view(np.uint8).any() else b""


def _count(items: Sequence[bytes]) -> bytes:
    return len(items).to_bytes(4, "little")


def _column(items: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The offsets column (count + 1 entries) and the bytes of a list of byte strings."""
    lengths = np.fromiter(map(len, items), np.int64, len(items))
    offsets = np.zeros(len(items) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > 0xFFFFFFFF:
        raise SandboxError("vocabulary", "expected less than 4 GiB of text, got more", "use another model")
    return offsets.astype("<u4").tobytes(), b"".join(items)


def _section(tag: int, payload: bytes) -> bytes:
    return abi.SECTION.pack(tag, len(payload)) + payload
