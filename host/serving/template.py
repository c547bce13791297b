"""A bundle's chat template, rendered by minijinja so that no message can forge what only the template may write.

Rules (clauses 5.3 of host/README.md)
* Rendering has a fuel limit and sees plain values; the engine behind it has no Python objects to climb out through.
* The result is the text and its pieces, each marked as the template's own or as message text. A message is put between
  two markers, random for each rendering, which case changes, trimming and JSON quoting leave alone; taking
  them out must give exactly what the template writes without them, or the marking is not used.
* A template that rewrites messages beyond that (cuts, compares, measures them) gives no pieces: then the text
  is used only if no message spells a control token, and refused otherwise.

Settings follow what model publishers test with: trim_blocks, lstrip_blocks, Python methods on strings,
raise_exception, strftime_now and a tojson that does not escape for HTML.

Example:
    rendering = ChatTemplate(text, bos="", eos="<|im_end|>").render([{"role": "user", "content": "hi"}])
"""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import minijinja

from ..errors import RequestError, TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FUEL = 5_000_000
"""Instructions and letters of one rendering: two million letters of messages fit; all of it lasts half a second."""

MAX_TEMPLATE_CHARACTERS = 1 << 18
"""Letters of a template; the longest published ones have about 20,000."""

_MARKER_LETTERS = 8
"""Letters of a marker: 8 of 65,000 code points are 128 bits, beyond guessing."""

_PRIVATE_USE = (0xF0000, 0xFFFFD)
"""Plane 15: letters with no case, no meaning, no white space, that JSON and HTML write as they are."""

_MAX_REASON_CHARACTERS = 300
"""Longest text of a template's own refusal that a client is shown."""


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


class _Raised(Exception):  # noqa: N818 — carries a template's own refusal through the engine
    """raise_exception(…) was called."""


class ChatTemplate:
    """One parsed template; may be used from several threads.

    Args:
        source: The template's text, from a verified bundle.
        bos: Text of the beginning-of-sequence token, which templates write themselves.
        eos: Text of the end-of-sequence token.

    Raises:
        TemplateError: it does not parse.
    """

    def __init__(self, source: str, *, bos: str, eos: str) -> None:
        if len(source) > MAX_TEMPLATE_CHARACTERS:
            problem = f"expected at most {MAX_TEMPLATE_CHARACTERS} letters, got {len(source)}"
            raise TemplateError("chat_template", problem, "pack another template")
        # absent is None, not undefined: templates ask `tools is not none`
        self._context = {"bos_token": bos, "eos_token": eos, "tools": None, "documents": None}
        self._environment = _environment()
        self._lock = threading.Lock()  # one rendering at a time: callbacks leave the engine's own lock held
        try:
            self._environment.add_template(_NAME, source)
        except minijinja.TemplateError as error:
            raise TemplateError("chat_template", _reason(error), "pack another template") from None

    def render(self, messages: Sequence[Mapping[str, str]]) -> Rendering:
        """Renders a conversation with the opening of the assistant's answer.

        Args:
            messages: Each with "role" (trusted), and "content" and maybe "name" (a client's text).

        Raises:
            RequestError: 400, the template itself refuses the messages.
            TemplateError: it fails, or uses up its fuel.
        """
        plain = self._render(messages)
        for inside_blanks in (False, True):
            marks = _Marks(inside_blanks=inside_blanks)
            pieces = self._marked(messages, marks)
            if pieces is not None and "".join(piece.text for piece in pieces) == plain:
                return Rendering(plain, pieces)
        return Rendering(plain, None)

    def _marked(self, messages: Sequence[Mapping[str, str]], marks: _Marks) -> tuple[Piece, ...] | None:
        wrapped = [{k: v if k == "role" else marks.wrap(v) for k, v in message.items()} for message in messages]
        try:
            return marks.split(self._render(wrapped))
        except (RequestError, TemplateError):
            return None  # it did render without the marks, so it looks into the messages

    def _render(self, messages: Sequence[Mapping[str, str]]) -> str:
        try:
            with self._lock:
                return self._environment.render_template(
                    _NAME, messages=list(messages), add_generation_prompt=True, **self._context
                )
        except _Raised as refusal:
            text = str(refusal)[:_MAX_REASON_CHARACTERS]
            problem = f"the model's chat template refuses these messages: {text}"
            raise RequestError(problem, "change their roles or their order", param="messages") from None
        except minijinja.TemplateError as error:
            raise TemplateError("chat_template", _reason(error), "tell the bundle's publisher") from None


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


_NAME = "chat_template"


def _environment() -> minijinja.Environment:
    environment = minijinja.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        pycompat=True,
        fuel=FUEL,
        auto_escape_callback=lambda _name: None,
        filters={"tojson": _tojson},
    )
    functions: dict[str, Callable[..., Any]] = {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    for name, function in functions.items():
        environment.add_global(name, function)
    return environment


def _raise_exception(message: object = "") -> None:
    raise _Raised(str(message))


def _strftime_now(pattern: str) -> str:
    return dt.datetime.now().astimezone().strftime(str(pattern)[:_MAX_REASON_CHARACTERS])


def _tojson(
    value: object,
    *,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # the parameters that templates were written for; none escapes for HTML
    pair = (separators[0], separators[1]) if separators else None
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=pair, sort_keys=sort_keys)


def _random_text() -> str:
    low, high = _PRIVATE_USE
    return "".join(chr(low + secrets.randbelow(high - low + 1)) for _ in range(_MARKER_LETTERS))


def _reason(error: minijinja.TemplateError) -> str:
    what = error.detail or ("it used up its fuel" if error.kind == "OutOfFuel" else error.kind)
    return f"{what} (line {error.line})" if error.line else str(what)
