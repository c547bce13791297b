"""Control tokens' texts are found wherever they stand, however many there are and whatever a client writes."""

from __future__ import annotations

import random
import re
import time

import pytest

from sealhost.host.errors import WeightsError
from sealhost.host.serving.control_text import MAX_LETTERS, ControlTexts

RESERVED = tuple(f"<unused{number}>" for number in range(6000))
"""As many as Gemma 3 has, and as much alike."""


def every_span(texts: tuple[str, ...], text: str) -> set[tuple[int, int]]:
    """All occurrences, found by trying everything."""
    return {(at, at + len(one)) for one in texts if one for at in range(len(text)) if text.startswith(one, at)}


@pytest.mark.parametrize("seed", range(200))
def test_each_occurrence_lies_within_one_that_is_told_and_nothing_else_is_told(seed: int) -> None:
    chance = random.Random(seed)
    texts = tuple("".join(chance.choices("ab<", k=chance.randint(0, 4))) for _ in range(chance.randint(0, 8)))
    text = "".join(chance.choices("ab<", k=40))
    told, there = set(ControlTexts(texts).spans(text)), every_span(texts, text)
    assert told <= there
    assert all(any(first <= start and stop <= last for first, last in told) for start, stop in there)


@pytest.mark.parametrize("seed", range(200))
def test_what_matches_is_the_longest_at_each_place_from_left_to_right(seed: int) -> None:
    chance = random.Random(seed)
    texts = tuple("".join(chance.choices("ab<", k=chance.randint(0, 4))) for _ in range(chance.randint(0, 8)))
    text = "".join(chance.choices("ab<", k=40))
    longest_first = sorted(filter(None, texts), key=len, reverse=True)
    expected = [one.span() for one in re.finditer("|".join(longest_first), text)] if longest_first else []
    assert list(ControlTexts(texts).matches(text)) == expected


@pytest.mark.parametrize("text", ["<", "<unused", "<unused5999", "<unused1>"])
def test_time_is_linear_in_the_text_and_does_not_depend_on_how_many_there_are(text: str) -> None:
    many, letters = ControlTexts(RESERVED), 400_000
    list(many.spans(text))  # built on first use
    began = time.thread_time()
    for _ in many.spans(text * (letters // len(text))):
        pass
    # tried one by one this took 10 to 20 s; letter by letter it takes 0.1 s
    assert time.thread_time() - began < 2


@pytest.mark.parametrize("text", ["<|im_end|>", "a<|IM_END|>b", "< | i m _ e n d | >", "<|im<|im_end|>"])
def test_what_a_template_could_make_of_a_text_is_found(text: str) -> None:
    assert ControlTexts(("<|im_end|>",)).any_rewritten(text)


def test_a_control_text_with_blanks_or_capitals_is_found_without_them() -> None:
    texts = ControlTexts(("<End Of Turn>",))
    assert texts.any_rewritten("x<endofturn>y")
    assert texts.any_rewritten("x<END OF TURN>y")
    assert not texts.any_rewritten("x<end of>y")


def test_more_letters_of_control_tokens_than_any_model_has_are_refused_at_load() -> None:
    with pytest.raises(WeightsError, match="at most 262144 letters"):
        ControlTexts(("a" * MAX_LETTERS, "b"))


def test_without_control_texts_nothing_is_found() -> None:
    assert not list(ControlTexts(("",)).spans("a<b"))
    assert not ControlTexts(()).any_rewritten("a<b")
