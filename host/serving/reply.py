"""What chat and completions answers have in common: their head, token counts, and tokens as text.

Rules
* A streamed and an unstreamed answer are made of the same events by the same object.
* A token whose bytes are no UTF-8 by themselves is named by its bytes, so that distinct tokens keep distinct names.

Example:
    for index, event in batch:
        for chunk in reply.chunks(index, event): ...
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..engine.request import FinishEvent, TokenEvent
    from .options import Options
    from .served import ServedModel

LOGPROB_DIGITS = 6
"""Decimals of a log-probability: float32 logits carry no more."""


class Reply(Protocol):
    """One answer in the making, with all its choices."""

    def opening(self) -> list[dict[str, Any]]:
        """Chunks that a stream starts with."""

    def chunks(self, index: int, event: TokenEvent | FinishEvent) -> list[dict[str, Any]]:
        """Chunks of a stream for one event."""

    def add(self, index: int, event: TokenEvent | FinishEvent) -> None:
        """Takes one event into the unstreamed answer."""

    def body(self) -> dict[str, Any]:
        """The unstreamed answer."""

    def usage_chunk(self) -> dict[str, Any]:
        """The chunk that tells a stream's token counts."""


class Head:
    """Fields that stand in every object of one answer, and its token counts."""

    def __init__(self, prefix: str, model: ServedModel, options: Options) -> None:
        self.fields: dict[str, Any] = {
            "id": f"{prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model.name,
            "system_fingerprint": model.fingerprint,
            "seed": options.params.seed,
        }
        self._per_prompt = options.choices
        self._prompt_tokens = self._completion_tokens = 0

    def count(self, index: int, event: FinishEvent) -> None:
        """Adds the tokens of one choice; a prompt counts once, however many answers it gets."""
        self._prompt_tokens += event.prompt_tokens if index % self._per_prompt == 0 else 0
        self._completion_tokens += event.completion_tokens

    def object(self, kind: str, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """An object of this answer."""
        return {**self.fields, "object": kind, "choices": choices}

    @property
    def usage(self) -> dict[str, int]:
        """Token counts of all choices."""
        both = self._prompt_tokens + self._completion_tokens
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._completion_tokens,
            "total_tokens": both,
        }


def token_name(piece: bytes) -> str:
    r"""A token's text, or "bytes:\xf0\x9f" where its bytes are no text by themselves, as in OpenAI's API."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


def written(part: object) -> msgspec.Raw:
    """A part of an answer as its JSON: a tenth of the memory, where an answer is collected for its end."""
    return msgspec.Raw(msgspec.json.encode(part))


def rounded(logprob: float) -> float:
    """A log-probability as it is written; the engine's floor keeps it finite, as JSON needs."""
    return round(logprob, LOGPROB_DIGITS)
