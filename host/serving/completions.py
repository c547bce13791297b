"""The answer of POST /v1/completions, streamed or whole.

Rules
* `text_offset` counts code points of prompt and answer together, as OpenAI's API does; tokens that share a
  character share its offset.

Source of the shapes: OpenAI's API reference, "Completions".
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any

from ..engine.request import FinishEvent, TokenEvent
from .reply import Head, rounded, token_name, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..engine.request import TokenLogprobs
    from .options import Options
    from .served import ServedModel

OBJECT = "text_completion"

_Columns = dict[str, list[Any]]


class _Choice:
    """What one choice has so far."""

    def __init__(self, offset: int) -> None:
        self.texts: list[str] = []
        self.columns = _columns()
        self.reason: str | None = None
        self._offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def place(self, piece: bytes) -> int:
        """Offset of a token with these bytes, which is then part of the text."""
        offset = self._offset
        self._offset += len(self._decoder.decode(piece))
        return offset


class CompletionReply:
    """One completion answer; see reply.Reply.

    Args:
        model: Whose answer it is.
        options: What was asked for.
        prompts: Text of each prompt, for `echo` and for offsets.
        echo: Whether an answer starts with its prompt.
    """

    def __init__(self, model: ServedModel, options: Options, prompts: Sequence[str], *, echo: bool) -> None:
        self._token_bytes = model.token_bytes
        self._visible_bytes = model.visible_bytes
        self._head = Head("cmpl", model, options)
        self._choices = [_Choice(len(prompt)) for prompt in prompts for _ in range(options.choices)]
        self._echoes = [prompt for prompt in prompts for _ in range(options.choices)] if echo else []
        self._wants_logprobs = options.logprobs is not None

    def opening(self) -> list[dict[str, Any]]:
        """The prompts, when they are to be echoed."""
        return [self._chunk(index, text) for index, text in enumerate(self._echoes)]

    def chunks(self, index: int, event: TokenEvent | FinishEvent) -> list[dict[str, Any]]:
        """The text that became visible; the held-back tail comes with the reason."""
        if isinstance(event, FinishEvent):
            self._head.count(index, event)
            return [self._chunk(index, event.text, reason=event.reason)]
        columns = _columns() if event.logprobs else None
        if columns is not None and event.logprobs is not None:
            self._append(columns, self._choices[index], event.logprobs)
        return [self._chunk(index, event.text, columns)] if event.text or columns else []

    def add(self, index: int, event: TokenEvent | FinishEvent) -> None:
        """Takes one event into the whole answer."""
        choice = self._choices[index]
        choice.texts.append(event.text)
        if isinstance(event, FinishEvent):
            self._head.count(index, event)
            choice.reason = event.reason
        elif event.logprobs:
            self._append(choice.columns, choice, event.logprobs)

    def body(self) -> dict[str, Any]:
        """The whole answer."""
        choices = [self._whole(index, choice) for index, choice in enumerate(self._choices)]
        return {**self._head.object(OBJECT, choices), "usage": self._head.usage}

    def usage_chunk(self) -> dict[str, Any]:
        """The last chunk before the end, with no choices."""
        return {**self._head.object(OBJECT, []), "usage": self._head.usage}

    def _whole(self, index: int, choice: _Choice) -> dict[str, Any]:
        text = "".join([*self._echoes[index : index + 1], *choice.texts])
        logprobs = choice.columns if self._wants_logprobs else None
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": choice.reason}

    def _chunk(
        self, index: int, text: str, logprobs: _Columns | None = None, reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
        return self._head.object(OBJECT, [choice])

    def _append(self, columns: _Columns, choice: _Choice, logprobs: TokenLogprobs) -> None:
        top: dict[str, float] = {}
        for token, logprob in (*logprobs.top, (logprobs.token, logprobs.logprob)):
            top.setdefault(token_name(self._token_bytes[token]), rounded(logprob))
        columns["tokens"].append(token_name(self._token_bytes[logprobs.token]))
        columns["token_logprobs"].append(rounded(logprobs.logprob))
        columns["top_logprobs"].append(written(top))
        columns["text_offset"].append(choice.place(self._visible_bytes[logprobs.token]))


def _columns() -> _Columns:
    return {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
