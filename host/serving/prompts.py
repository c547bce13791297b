"""From what a client sent to the token ids of its prompts; runs on worker threads, never on the event loop.

Rules (clause 5.3 of host/README.md)
* Text of a client never becomes a control token (chat_ids).
* A template that writes the text of the beginning-of-sequence token gets no second one.
* Text so long that its ids cannot fit into the context is refused before it is encoded.

Example:
    ids = chat_prompt(model, messages)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import RequestError
from .chat_ids import chat_ids
from .refusal import prompt_too_long
from .schema import UNSUPPORTED_PARAMETER, Message, read
from .template_variables import NO_VARIABLES, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .served import ServedModel

MAX_MESSAGES = 4096
"""Messages of a conversation: more do not fit any context that we serve."""

MAX_PROMPTS = 64
"""Prompts of one completion request: each is a sequence of its own."""

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""Roles that are served, and what a template calls them: `developer` is OpenAI's newer word for `system`."""


class TextPart(msgspec.Struct, kw_only=True):
    """A content part; only text is served."""

    type: str
    text: str


def chat_messages(raw: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Checks the messages of a chat and joins their contents to plain text.

    Raises:
        RequestError: 400, no messages, an unknown role, a part that is no text.
    """
    if not 1 <= len(raw) <= MAX_MESSAGES:
        problem = f"expected 1 to {MAX_MESSAGES} messages, got {len(raw)}"
        raise RequestError(problem, "send the conversation so far", param="messages")
    return [_message(index, body) for index, body in enumerate(raw)]


def chat_prompt(
    model: ServedModel, messages: Sequence[dict[str, str]], variables: Mapping[str, Any] = NO_VARIABLES
) -> tuple[int, ...]:
    """Renders a conversation with the model's template and encodes it.

    Args:
        model: Whose template it is.
        messages: What `chat_messages` made of them.
        variables: What else the client gives to the template.

    Raises:
        RequestError: 400, the model has no template, the template refuses, or the prompt cannot fit.
        TemplateError: the template fails.
        SealhostError: the tokenizer plugin fails.
    """
    if model.template is None:
        problem = f"expected a model with a chat template, {model.name} has none"
        raise RequestError(problem, "use /v1/completions", param="messages")
    _refuse_hopeless(model, (message["content"] for message in messages), "messages")  # rendering takes a second a MiB
    rendering = model.template.render(messages, variables)
    _refuse_hopeless(model, [rendering.text], "messages")
    if rendering.pieces is None and model.control.any_rewritten(_joined(messages, variables)):
        problem = "expected none with the text of a control token, which this model's template could not keep apart"
        raise RequestError(problem, "leave such text out", param="messages")
    ids = chat_ids(model, rendering)
    bos = model.token_bytes[model.bos].decode("utf-8", "replace") if model.bos >= 0 else ""
    if model.add_bos and bos and not rendering.text.startswith(bos):
        ids = [model.bos, *ids]
    return tuple(ids)


def completion_prompts(
    model: ServedModel, prompt: str | list[Any], *, add_special: bool, parse_special: bool
) -> list[tuple[int, ...]]:
    """The prompts of a completion request as ids.

    Raises:
        RequestError: 400, the prompt is of no known form, empty, or cannot fit; an id is out of range.
        SealhostError: the tokenizer plugin fails.
    """
    ids = []
    for one in _listed(prompt):
        if isinstance(one, str):
            _refuse_hopeless(model, [one], "prompt")
            ids.append(tuple(model.tokenizer.encode(one, add_special=add_special, parse_special=parse_special)))
        else:
            ids.append(_checked_ids(model, one, "prompt"))
        if not ids[-1]:
            raise RequestError("expected at least one token, got none", "send some text", param="prompt")
        answer_room(model, ids[-1], None, "prompt")  # before the next one is encoded
    return ids


def spelled(model: ServedModel, ids: Sequence[int], param: str) -> str:
    """The text of ids that a client sent.

    Raises:
        RequestError: 400, an id is out of range.
    """
    return b"".join(model.token_bytes[token] for token in _checked_ids(model, ids, param)).decode("utf-8", "replace")


def answer_room(model: ServedModel, prompt: Sequence[int], max_tokens: int | None, param: str) -> int:
    """How many ids an answer to this prompt may have.

    Raises:
        RequestError: 400 context_length_exceeded, the prompt leaves no room for a single one.
    """
    room = model.context - len(prompt)
    if room < 1:
        raise prompt_too_long(model.context, f"{len(prompt)} tokens", param)
    return room if max_tokens is None else min(room, max_tokens)


def _message(index: int, body: dict[str, Any]) -> dict[str, str]:
    path = f"messages[{index}]."
    message = read(Message, body, path=path)
    if message.role not in ROLES:
        problem = f"expected one of {', '.join(ROLES)}, got {message.role[:100]!r}"
        raise RequestError(problem, "correct the role", param=path + "role")
    plain = {"role": ROLES[message.role], "content": _content(message.content, path)}
    return plain | ({"name": message.name} if message.name else {})


def _content(content: str | list[dict[str, Any]] | None, path: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for number, part in enumerate(content):
        place = f"{path}content[{number}]."
        if part.get("type") not in {"text", None}:
            problem = f"expected text, got {str(part['type'])[:100]!r}"
            raise RequestError(problem, "send text only", param=place + "type", reason=UNSUPPORTED_PARAMETER)
        texts.append(read(TextPart, part, path=place).text)
    return "".join(texts)


def _joined(messages: Sequence[dict[str, str]], variables: Mapping[str, Any]) -> str:
    """A client's texts as a template might join them."""
    said = (value for message in messages for key, value in message.items() if key != "role")
    return "".join((*said, *texts(dict(variables))))


def _listed(prompt: str | list[Any]) -> list[str | list[int]]:
    if isinstance(prompt, str):
        return [prompt]
    if prompt and all(type(one) is int for one in prompt):
        return [prompt]
    if not 1 <= len(prompt) <= MAX_PROMPTS:
        problem = f"expected 1 to {MAX_PROMPTS} prompts, got {len(prompt)}"
        remedy = "spread them over several requests" if prompt else "send some text"
        raise RequestError(problem, remedy, param="prompt")
    if all(isinstance(one, str) for one in prompt) or all(isinstance(one, list) for one in prompt):
        return prompt
    raise RequestError(
        "expected text, texts, token ids or lists of token ids, got a mixture", "send one kind", param="prompt"
    )


def _checked_ids(model: ServedModel, ids: Sequence[Any], param: str) -> tuple[int, ...]:
    for token in ids:
        if type(token) is not int or not 0 <= token < model.vocab_size:
            problem = f"expected token ids from 0 to {model.vocab_size - 1}, got {str(token)[:40]}"
            raise RequestError(problem, "correct the ids", param=param)
    return tuple(ids)


def _refuse_hopeless(model: ServedModel, texts: Iterable[str], param: str) -> None:
    size, longest = sum(len(text.encode()) for text in texts), model.longest_token_bytes
    if size > longest * model.context:
        raise prompt_too_long(model.context, f"at least {-(-size // longest)} tokens", param)
