"""The guest `json` under GBNF grammars: its masks against a brute-force acceptor over the whole vocabulary."""

from __future__ import annotations

import random

import pytest
import wasmtime
from gbnf_grammars import EXAMPLES, GRAMMARS, JSON, random_grammar
from gbnf_reference import Follower, State
from grammar_guest import FAST_FORWARD, SMALL, GrammarGuest
from plugin_harness import GuestRefusedError

from sealhost.plugins import reference_plugin


@pytest.fixture(scope="module")
def guest(guest_engine):
    path = reference_plugin("sampler", "json") / "plugin.wasm"
    return GrammarGuest(guest_engine, wasmtime.Module(guest_engine, path.read_bytes()))


def expected(follower: Follower, state: State) -> set[int]:
    found = {id_ for id_, text in enumerate(SMALL.texts) if text and follower.take(state, text).stacks}
    return found | ({SMALL.eos} if follower.ends(state) else set())


MOST_STACKS = 1500
"""Of the acceptor: so ambiguous a grammar is left alone, as the guest does at its own bound."""


def compare(guest: GrammarGuest, raw: str, walk: int, steps: int) -> bool:
    """Draws a text and compares every mask on its way; False: there were too many ways to read it."""
    rng, config, follower = random.Random(f"{raw} {walk}"), {"grammar": raw}, Follower(raw)
    state, generated = follower.start, []
    for _step in range(steps):
        try:
            allowed = guest.allowed(config, generated, new=not generated)
        except GuestRefusedError as error:
            assert "too many" in str(error)  # noqa: PT017 -- the bound that such grammars may meet
            return False
        if len(state.stacks) > MOST_STACKS:
            return False
        assert allowed == expected(follower, state), (raw, b"".join(SMALL.texts[id_] for id_ in generated))
        choices = sorted(allowed - {SMALL.eos})
        if not choices:
            break
        # tokens beyond the bytes more often than their number says
        long = [id_ for id_ in choices if id_ >= 256]
        generated.append(rng.choice(long if long and rng.random() < 0.6 else choices))
        state = follower.take(state, SMALL.texts[generated[-1]])
    return True


@pytest.mark.parametrize("raw", GRAMMARS)
def test_masks_equal_a_brute_force_acceptor_over_the_whole_vocabulary(raw, guest):
    for walk in range(3):
        assert compare(guest, raw, walk, 9)


@pytest.mark.parametrize("name", EXAMPLES)
def test_masks_of_whole_languages_equal_the_acceptor(name, guest):
    for walk in range(3):
        assert compare(guest, EXAMPLES[name][0], walk, 14)


def test_masks_of_random_grammars_equal_the_acceptor(guest):
    told = sum(compare(guest, random_grammar(random.Random(seed)), seed, 6) for seed in range(80))
    assert told > 60


@pytest.mark.soak
def test_masks_of_many_random_grammars_equal_the_acceptor(guest):
    told = sum(compare(guest, random_grammar(random.Random(seed)), seed, 12) for seed in range(1000, 1600))
    assert told > 400  # the others meet a bound on their way


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_language_takes_its_texts_and_no_others(name, guest):
    raw, fitting, others = EXAMPLES[name]
    for text in fitting:
        assert guest.takes({"grammar": raw}, text.encode()), text
    for text in others:
        assert not guest.takes({"grammar": raw}, text.encode()), text


def test_a_request_that_begins_in_the_middle_gets_the_same_mask(guest):
    config, generated = {"grammar": JSON}, list(b'{"a": [1, "')
    for end in range(len(generated) + 1):
        going_on = guest.allowed(config, generated[:end], new=end == 0)
        assert going_on == guest.allowed(config, generated[:end])
        guest.allowed(config, generated[:end])


def test_what_only_one_token_continues_is_told_at_once(guest):
    assert guest.answer({"grammar": 'root ::= "xyz" [ab]'}, [], new=True) == (FAST_FORWARD, 3)


def test_what_nests_too_deeply_is_not_begun_and_what_is_begun_can_end(guest):
    config, generated = {"grammar": 'root ::= "[" root "]" | "a"'}, []
    while ord("[") in (allowed := guest.allowed(config, generated, new=not generated)):
        generated.append(ord("["))
    assert 90 <= len(generated) <= 100
    while SMALL.eos not in (allowed := guest.allowed(config, generated, new=False)):
        generated.append(min(allowed & {ord("]"), ord("a")}))
    assert generated.count(ord("[")) == generated.count(ord("]"))


def test_recursion_at_the_end_of_a_rule_goes_on_for_ever(guest):
    config = {"grammar": 'root ::= "a" (root | "b" | "c" more)\nmore ::= [ab] more | root'}
    generated = list(b"aaac" * 60)
    assert guest.allowed(config, generated) >= {ord("a"), ord("b")}


def test_a_schema_and_a_grammar_take_turns_in_one_instance(guest):
    assert guest.takes({"schema": {"const": 1}}, b"1")
    assert guest.takes({"grammar": 'root ::= "1"{2}'}, b"11")
    with pytest.raises(GuestRefusedError):
        guest.allowed({"grammar": "root ::=+"})
    assert guest.takes({"schema": {"const": "a"}}, b'"a"')


def test_the_acceptor_reads_regular_grammars_as_pythons_engine_does():
    import re

    pairs = {
        'root ::= ("a" | "b"{2})* [^ab]?': "(a|b{2})*[^ab]?",
        'root ::= x+ y{1,2}\nx ::= [a-c] | "é"\ny ::= .': "([a-c]|é)+(?s:.){1,2}",
        'root ::= "" | "a" root | "b"': "a*b?",
        r"root ::= [\x61\u0062\-]{2,}": "[ab-]{2,}",
    }
    rng = random.Random(7)
    for raw, pattern in pairs.items():
        follower = Follower(raw)
        for _ in range(300):
            text = "".join(rng.choice("abc-é\n") for _ in range(rng.randint(0, 5)))
            state = follower.take(follower.start, text.encode())
            assert follower.ends(state) == bool(re.fullmatch(pattern, text)), (raw, text)
