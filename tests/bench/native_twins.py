"""A tokenizer and a sampler as native host code, behind the engine's seams: what serving.py measures the sandbox against.

They are as quick as host code can be had without a compiler: the `tokenizers` library (Rust), NumPy's argmax for greedy
requests, and the host's own sampler for the others. Given the same request both give the sandbox's ids.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from sealhost.sandbox import SamplingParams, Vocabulary, sampling
from sealhost.sandbox.abi import TokenType
from sealhost.sandbox.randomness import draw

PAGE = 4096
SPLITS = {"smollm": [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]}
"""How a text is parted before it is merged, by GGUF's tokenizer.ggml.pre."""


class NativeTokenizer:
    """Byte-level BPE."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = [text.decode() for text in vocabulary.texts]
        merges = [tuple(merge.decode().split(" ")) for merge in vocabulary.merges]
        self._inner = Tokenizer(models.BPE({text: token for token, text in enumerate(texts)}, merges))
        self._inner.pre_tokenizer = pre_tokenizers.Sequence(SPLITS[vocabulary.pre])
        control = [text for text, kind in zip(texts, vocabulary.types, strict=True) if kind == TokenType.CONTROL]
        self._inner.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        assert not add_special
        assert parse_special
        return self._inner.encode(text, add_special_tokens=False).ids


class NativeDecision(NamedTuple):
    tokens: tuple[int, ...]
    backtrack: int = 0
    stop: bool = False


class NativeSampler:
    tier, max_rows, max_backtrack, history_capacity = "full", 64, 0, 1 << 20

    def __init__(self, vocab: int) -> None:
        self._vocab = vocab

    def config_bytes(self, config) -> bytes:
        assert config is None
        return b""

    def session(self, params: SamplingParams, prompt_ids, *, choices=(0,), config=b"") -> NativeSession:  # noqa: ARG002
        return NativeSession(self._vocab, params, prompt_ids, choices)


class NativeSession:
    def __init__(self, vocab: int, params: SamplingParams, prompt_ids, choices) -> None:
        self._params, self._choices, self._prompt_length = params, choices, len(prompt_ids)
        self._rows = [_row(vocab) for _ in choices]
        self._addresses = [row.ctypes.data for row in self._rows]  # asked for in every turn, and slow to make
        self._histories = [np.array(prompt_ids, np.uint32) for _ in choices]
        self._is_greedy = params.temperature == 0 and params == SamplingParams(temperature=0, seed=params.seed)

    def logits_address(self, slot: int) -> int:
        return self._addresses[slot]

    def logits(self, slot: int) -> np.ndarray:
        return self._rows[slot]

    def prepare(self, slots) -> None:
        pass

    def step(self, slots) -> list[NativeDecision]:
        return [NativeDecision((self._draw(slot),)) for slot in slots]

    def _draw(self, slot: int) -> int:
        if self._is_greedy:
            return int(self._rows[slot].argmax())
        history = self._histories[slot]
        word = draw(self._params.seed, self._choices[slot], len(history))[0]
        return sampling.sample(self._rows[slot], self._params, history, self._prompt_length, word)

    def accept(self, slot: int, tokens, backtrack: int = 0) -> None:
        if not self._is_greedy:
            history = self._histories[slot]
            self._histories[slot] = np.append(history[: len(history) - backtrack], np.array(tokens, np.uint32))

    def close_slot(self, slot: int) -> None:
        pass

    def close(self) -> None:
        pass


def _row(vocab: int) -> np.ndarray:
    """float32[vocab] from a page's beginning on, like a guest's."""
    raw = np.zeros(4 * vocab + PAGE, np.uint8)
    skip = -raw.ctypes.data % PAGE
    return raw[skip : skip + 4 * vocab].view(np.float32)
