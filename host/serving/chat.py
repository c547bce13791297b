"""The answer of POST /v1/chat/completions, streamed or whole.

Source of the shapes: OpenAI's API reference, "Chat Completions" and "Streaming".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine.request import FinishEvent, TokenEvent
from .reply import Head, rounded, token_name, written

if TYPE_CHECKING:
    import msgspec

    from ..engine.request import TokenLogprobs
    from .options import Options
    from .served import ServedModel

CHUNK = "chat.completion.chunk"


class _Choice:
    """What one choice has so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.logprobs: list[msgspec.Raw] = []
        self.reason: str | None = None


class ChatReply:
    """One chat answer; see reply.Reply."""

    def __init__(self, model: ServedModel, options: Options) -> None:
        self._token_bytes = model.token_bytes
        self._head = Head("chatcmpl", model, options)
        self._choices = [_Choice() for _ in range(options.choices)]
        self._wants_logprobs = options.logprobs is not None

    def opening(self) -> list[dict[str, Any]]:
        """The role, once for each choice."""
        return [self._chunk(index, {"role": "assistant", "content": ""}) for index in range(len(self._choices))]

    def chunks(self, index: int, event: TokenEvent | FinishEvent) -> list[dict[str, Any]]:
        """The text that became visible; at the end the held-back tail, then the reason."""
        if isinstance(event, TokenEvent):
            logprobs = {"content": [self._logprob(event.logprobs)], "refusal": None} if event.logprobs else None
            return [self._chunk(index, {"content": event.text}, logprobs)] if event.text or logprobs else []
        self._head.count(index, event)
        tail = [self._chunk(index, {"content": event.text})] if event.text else []
        return [*tail, self._chunk(index, {}, reason=event.reason)]

    def add(self, index: int, event: TokenEvent | FinishEvent) -> None:
        """Takes one event into the whole answer."""
        choice = self._choices[index]
        choice.texts.append(event.text)
        if isinstance(event, FinishEvent):
            self._head.count(index, event)
            choice.reason = event.reason
        elif event.logprobs:
            choice.logprobs.append(written(self._logprob(event.logprobs)))

    def body(self) -> dict[str, Any]:
        """The whole answer."""
        choices = [self._whole(index, choice) for index, choice in enumerate(self._choices)]
        return {**self._head.object("chat.completion", choices), "usage": self._head.usage}

    def usage_chunk(self) -> dict[str, Any]:
        """The last chunk before the end, with no choices."""
        return {**self._head.object(CHUNK, []), "usage": self._head.usage}

    def _whole(self, index: int, choice: _Choice) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(choice.texts), "refusal": None}
        logprobs = {"content": choice.logprobs, "refusal": None} if self._wants_logprobs else None
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": choice.reason}

    def _chunk(
        self, index: int, delta: dict[str, str], logprobs: dict[str, Any] | None = None, reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return self._head.object(CHUNK, [choice])

    def _logprob(self, logprobs: TokenLogprobs) -> dict[str, Any]:
        alternatives = [self._token(token, logprob) for token, logprob in logprobs.top]
        return {**self._token(logprobs.token, logprobs.logprob), "top_logprobs": alternatives}

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        piece = self._token_bytes[token]
        return {"token": token_name(piece), "logprob": rounded(logprob), "bytes": list(piece)}
