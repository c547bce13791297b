"""From a rendered chat to token ids, so that only the template writes control tokens (clause 5.3 of host/README.md).

Rules
* An honest prompt, in which no control token's text touches a client's letters, is encoded in one run.
* Any other is divided at the control tokens that the template wrote. What lies between two of them is one text, whoever
  wrote its parts, and is encoded without control tokens: the ids of one run that takes the forged ones for text.
* A vocabulary that puts a space before a text (`add_space_prefix`) puts one where a text begins: first of all, and
  after each BOS and EOS of the template, since SentencePiece encodes what lies between them as texts of their own.
  None stands after other control tokens.

Example:
    ids = chat_ids(model, model.template.render(messages))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .refusal import prompt_too_long

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .control_text import ControlTexts
    from .served import ServedModel
    from .template import Piece, Rendering

_LETTER = "\U0010fffd"
"""Private use: no vocabulary has a token with it, so no token joins it to what follows."""


def chat_ids(model: ServedModel, rendering: Rendering) -> list[int]:
    """Token ids of a prompt, without a BOS that the template did not write.

    Args:
        model: Whose tokenizer it is.
        rendering: With pieces, or known to be honest.

    Raises:
        RequestError: 400, there are too many.
        SealhostError: the tokenizer plugin fails.
    """
    if rendering.pieces is None or not _forged(model.control, rendering.pieces, rendering.text):
        return _one_run(model, rendering.text)
    return _divided(model, rendering.pieces)


def _forged(control: ControlTexts, pieces: Sequence[Piece], text: str) -> bool:
    """Whether the text of any control token touches what a client wrote."""
    ours = bytearray()  # one flag a letter: 1 where a client wrote it
    for piece in pieces:
        ours += (b"\1" if piece.from_message else b"\0") * len(piece.text)
    return any(ours.find(1, start, stop) >= 0 for start, stop in control.spans(text))


def _one_run(model: ServedModel, text: str) -> list[int]:
    ids: list[int] = []
    done = 0
    for start, stop, bound in _bounds_in(model, text) if model.add_space_prefix else ():
        ids += model.tokenizer.encode(text[done:start], add_special=False, parse_special=True)
        ids.append(bound)
        done = stop
    return ids + model.tokenizer.encode(text[done:], add_special=False, parse_special=True)


def _bounds_in(model: ServedModel, text: str) -> list[tuple[int, int, int]]:
    """Where BOS and EOS stand in an honest prompt, and which it is; not where another control token overlaps them."""
    bounds, end = _bounds(model), 0
    clusters: list[list[tuple[int, int]]] = []
    for start, stop in sorted(model.control.spans(text)):
        if start >= end:
            clusters.append([])
        clusters[-1].append((start, stop))
        end = max(end, stop)
    alone = [cluster[0] for cluster in clusters if len(cluster) == 1]
    return [(start, stop, bounds[text[start:stop]]) for start, stop in alone if text[start:stop] in bounds]


def _divided(model: ServedModel, pieces: Sequence[Piece]) -> list[int]:
    bounds, plain, begins = _bounds(model), "", True
    ids: list[int] = []
    controls: dict[str, list[int]] = {}
    for piece in pieces:
        done = 0
        for start, stop in () if piece.from_message else model.control.matches(piece.text):
            ids += _plain_ids(model, plain + piece.text[done:start], begins=begins)
            control = piece.text[start:stop]
            if control not in controls:
                controls[control] = model.tokenizer.encode(control, add_special=False, parse_special=True)
            ids += controls[control]
            if len(ids) >= model.context:  # each call costs a sandbox, and one request can ask for thousands
                raise prompt_too_long(model.context, f"at least {len(ids)} tokens", "messages")
            plain, begins, done = "", control in bounds, stop
        plain += piece.text[done:]
    return ids + _plain_ids(model, plain, begins=begins)


def _plain_ids(model: ServedModel, text: str, *, begins: bool) -> list[int]:
    """Ids of a text without control tokens that goes on after one, unless it `begins`."""
    if not text:
        return []
    if begins or not model.add_space_prefix:
        return model.tokenizer.encode(text, add_special=False, parse_special=False)
    ids = model.tokenizer.encode(_LETTER + text, add_special=False, parse_special=False)
    spelled = b""
    for at, token in enumerate(ids, 1):
        spelled += model.token_bytes[token]
        if spelled.endswith(_LETTER.encode()):
            return ids[at:]
    # a Unigram vocabulary's unknown token took the letter in, and maybe more: a space it is, as in llama.cpp
    return model.tokenizer.encode(text, add_special=False, parse_special=False)


def _bounds(model: ServedModel) -> dict[str, int]:
    """The tokens between which SentencePiece encodes texts, by how a template spells them."""
    ids = [token for token in (model.bos, model.eos) if token >= 0]
    return {model.token_bytes[token].decode("utf-8", "replace"): token for token in ids}
