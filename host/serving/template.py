"""A bundle's chat template, rendered so that no message can forge what only the template may write.

Rules (clause 5.3 of host/README.md)
* Rendering happens in a process of its own, with limits (`renderer`), and sees plain values.
* The result is the text and its pieces, each marked as the template's own or as message text. A message is put between
  two markers, random for each rendering, which case changes, trimming and JSON quoting leave alone; taking
  them out must give exactly what the template writes without them, or the marking is not used.
* A template that rewrites messages beyond that (cuts, compares, measures them) gives no pieces: then the text
  is used only if no message spells a control token, and refused otherwise.

Example:
    template = ChatTemplate(Renderer(source), bos="", eos="<|im_end|>")
    rendering = template.render([{"role": "user", "content": "hi"}])
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import RequestError, TemplateError
from .template_variables import NO_VARIABLES, unusable, with_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .renderer import Renderer

_MARKER_LETTERS = 8
"""Letters of a marker: 8 of 65,000 code points are 128 bits, beyond guessing."""

_PRIVATE_USE = (0xF0000, 0xFFFFD)
"""Plane 15: letters with no case, no meaning, no white space, that JSON and HTML write as they are."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a rendered prompt; `from_message` says that a client chose its text."""

    text: str
    from_message: bool


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendered prompt.

    Attributes:
        text: What the template gives.
        pieces: The same text, divided by who wrote it; None when the template rewrites messages, so that none can tell.
    """

    text: str
    pieces: tuple[Piece, ...] | None


class ChatTemplate:
    """A template for conversations; may be used from several threads.

    Args:
        renderer: The template's own process.
        bos: Text of the beginning-of-sequence token, which templates write themselves.
        eos: Text of the end-of-sequence token.
    """

    def __init__(self, renderer: Renderer, *, bos: str, eos: str) -> None:
        self._renderer = renderer
        # absent is None, not undefined: templates ask `tools is not none`
        self._context = {"bos_token": bos, "eos_token": eos, "tools": None, "documents": None}

    def render(self, messages: Sequence[Mapping[str, str]], variables: Mapping[str, Any] = NO_VARIABLES) -> Rendering:
        """Renders a conversation with the opening of the assistant's answer.

        Args:
            messages: Each with "role" (trusted), and "content" and maybe "name" (a client's text).
            variables: What else the client gives to the template, see `template_variables`.

        Raises:
            RequestError: 400, the template itself refuses the messages, or fails with the variables.
            TemplateError: it fails, or uses up its fuel.
        """
        try:
            plain = self._render(messages, variables)
        except TemplateError as error:
            if variables:
                raise unusable(error.problem) from None
            raise
        for inside_blanks in (False, True):
            marks = _Marks(inside_blanks=inside_blanks)
            pieces = self._marked(messages, variables, marks)
            if pieces is not None and "".join(piece.text for piece in pieces) == plain:
                return Rendering(plain, pieces)
        return Rendering(plain, None)

    def _marked(
        self, messages: Sequence[Mapping[str, str]], variables: Mapping[str, Any], marks: _Marks
    ) -> tuple[Piece, ...] | None:
        wrapped = [{k: v if k == "role" else marks.wrap(v) for k, v in message.items()} for message in messages]
        try:
            return marks.split(self._render(wrapped, {k: with_texts(v, marks.wrap) for k, v in variables.items()}))
        except (RequestError, TemplateError):
            return None  # it did render without the marks, so it looks into the messages

    def _render(self, messages: Sequence[Mapping[str, str]], variables: Mapping[str, Any]) -> str:
        return self._renderer.render(
            {**variables, "messages": messages, "add_generation_prompt": True, **self._context}
        )


class _Marks:
    """A pair of markers for one rendering."""

    def __init__(self, *, inside_blanks: bool) -> None:
        self._opening, self._closing = _random_text(), _random_text()
        self._split = re.compile(f"({self._opening}|{self._closing})")
        self._inside_blanks = inside_blanks

    def wrap(self, text: str) -> str:
        """Marks a text; with `inside_blanks` the blanks at its ends stay outside, where a template can trim them."""
        core = text.strip() if self._inside_blanks else text
        if not core:
            return text  # templates ask whether a text is empty
        start = text.index(core)
        return text[:start] + self._opening + core + self._closing + text[start + len(core) :]

    def split(self, rendered: str) -> tuple[Piece, ...] | None:
        """Pieces between the markers, or None when these are not in pairs."""
        pieces: list[Piece] = []
        inside = False
        for part in self._split.split(rendered):
            if part in (self._opening, self._closing):
                if inside == (part == self._opening):
                    return None
                inside = not inside
            elif part:
                pieces.append(Piece(part, from_message=inside))
        return None if inside else tuple(pieces)


def _random_text() -> str:
    low, high = _PRIVATE_USE
    return "".join(chr(low + secrets.randbelow(high - low + 1)) for _ in range(_MARKER_LETTERS))
