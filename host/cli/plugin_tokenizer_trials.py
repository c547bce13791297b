"""What `plugin test` tries with a tokenizer: golden texts, special tokens, edge texts, random texts, a full input area.

* The sandbox itself checks every answer: the ids spell the text, and no control token comes from it (3.3 to 3.5).
* Everything random comes from one seed, so a failure can be seen again.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

from .plugin_trial import TokenizerCase, Trial, TrialFailedError, attempt, golden_cases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ...sandbox import Sandbox, TokenizerPlugin, Vocabulary
    from .plugin_folder import AuthoredPlugin

EDGE_TEXTS = {
    "nothing": "",
    "one NUL": "\0",
    "controls": "".join(map(chr, range(32))) + "\x7f",
    "white space of all kinds": " \t\n\r\n  \u00a0\u2003\u3000 ",
    "the last code points": "\ufffd\uffff\U0001f3ff\U0010ffff",
    "joined emoji": "👩‍👩‍👧‍👦🏳️‍🌈",
    "combining marks": "e\u0301" * 40,
    "right to left": "שלום עולם، مرحبا",
    "a long run": "a" * 5_000,
    "a long run of spaces": " " * 5_000,
    "digits": "0123456789" * 200,
}

_SCRIPTS = ((0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x900, 0xA00), (0x4E00, 0x4F00), (0x1F300, 0x1F700))
"""Ranges of code points that random texts are made of."""

_FLAGS = [(add, parse) for add in (False, True) for parse in (False, True)]
_CONTROL, _USER_DEFINED = 3, 4


def tokenizer_trials(
    sandbox: Sandbox,
    plugin: AuthoredPlugin,
    folder: Path,
    vocabulary: Vocabulary,
    *,
    of_model: bool,
    seed: int,
    texts: int,
) -> Iterator[Trial]:
    """Tries everything.

    Args:
        sandbox: Runs the guest.
        plugin: The tokenizer.
        folder: Where its golden cases lie.
        vocabulary: What it is loaded with.
        of_model: Whether that is a model's own vocabulary: golden cases are of the kit's, or say that they are not.
        seed: Of everything random.
        texts: Random texts to try.

    Raises:
        SealhostError: When the plugin is not admitted or the golden cases cannot be read.
    """
    cases = golden_cases(folder, TokenizerCase)
    tokenizer = sandbox.load_tokenizer(plugin, vocabulary)
    fitting = [case for case in cases if case.model is of_model]
    for case in fitting:
        yield attempt(f"golden: {case.name}", lambda case=case: _golden(tokenizer, case))  # type: ignore[misc]
    if not cases:
        yield Trial("golden", "skipped", "no golden.json in the folder")
    elif others := len(cases) - len(fitting):
        whose = "the kit's vocabulary: without" if of_model else "a model's: with"
        yield Trial("golden", "skipped", f"{others} with ids of {whose} --model they are tried")
    yield attempt("special tokens", lambda: _specials(tokenizer, vocabulary))
    for name, text in EDGE_TEXTS.items():
        yield attempt(f"edge: {name}", lambda text=text: _round_trip(tokenizer, text))  # type: ignore[misc]
    yield attempt("random texts", lambda: _fuzz(tokenizer, vocabulary, seed, texts))
    yield attempt("full input area", lambda: _full_input(tokenizer))


def _golden(tokenizer: TokenizerPlugin, case: TokenizerCase) -> str:
    found = tokenizer.encode(case.text, add_special=case.add_special, parse_special=case.parse_special)
    if found != case.expect:
        raise TrialFailedError(f"expected {case.expect}, got {found}")
    return f"{len(found)} ids"


def _specials(tokenizer: TokenizerPlugin, vocabulary: Vocabulary) -> str:
    """Clauses 3.4 and 3.6."""
    tried = 0
    for token in np.flatnonzero(np.isin(vocabulary.types, (_CONTROL, _USER_DEFINED))).tolist()[:100]:
        text = vocabulary.token_bytes[token].decode(errors="replace")
        if text.encode() != vocabulary.token_bytes[token] or not text:
            continue
        for parse in (False, True):
            found = tokenizer.encode(text, add_special=False, parse_special=parse)
            whole = parse or vocabulary.types[token] == _USER_DEFINED
            if whole and found != [token]:
                raise TrialFailedError(f"expected [{token}] for {text!r}, got {found} (clause 3.4)")
        tried += 1
    if vocabulary.add_bos and vocabulary.bos >= 0:
        found = tokenizer.encode("a", add_special=True, parse_special=False)
        if found[:1] != [vocabulary.bos]:
            raise TrialFailedError(f"expected BOS {vocabulary.bos} first, got {found} (clause 3.6)")
    return f"{tried} control and user-defined tokens"


def _round_trip(tokenizer: TokenizerPlugin, text: str) -> str:
    """All flags; the sandbox refuses ids that do not spell the text."""
    counts = set()
    for add, parse in _FLAGS:
        found = tokenizer.encode(text, add_special=add, parse_special=parse)
        if tokenizer.encode(text, add_special=add, parse_special=parse) != found:
            raise TrialFailedError(f"expected the same ids for {text[:20]!r} again, got others (clause 1.8)")
        counts.add(len(found))
    return f"{min(counts)} to {max(counts)} ids"


def _random_text(numbers: random.Random, specials: list[str]) -> str:
    parts = []
    for _ in range(numbers.randrange(12)):
        first, last = numbers.choice(_SCRIPTS)
        letters = [chr(numbers.randrange(first, last)) for _ in range(numbers.randrange(20))]
        parts += ["".join(letters), numbers.choice([" ", "\n", "", *specials])]
    return "".join(parts)


def _fuzz(tokenizer: TokenizerPlugin, vocabulary: Vocabulary, seed: int, texts: int) -> str:
    specials = [
        vocabulary.token_bytes[token].decode(errors="replace") for token in np.flatnonzero(vocabulary.types != 1)[:50]
    ]
    size = 0
    for index in range(texts):
        text = _random_text(random.Random(f"{seed} {index}"), specials)  # noqa: S311 — texts, no secrets
        size += len(text.encode())
        add, parse = _FLAGS[index % len(_FLAGS)]
        tokenizer.encode(text, add_special=add, parse_special=parse)
    return f"{texts} texts of seed {seed}, {size:,} bytes, all spelled"


def _full_input(tokenizer: TokenizerPlugin) -> str:
    text = ("All work and no play. " * (tokenizer.max_text_bytes // 22 + 1))[: tokenizer.max_text_bytes]
    found = tokenizer.encode(text, add_special=True, parse_special=True)
    return f"{len(text):,} bytes, {len(found):,} ids"
