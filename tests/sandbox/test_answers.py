"""What the host takes as an answer of a guest, in each tier."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from puppetry import TIERS, VOCABULARY, decided, ids, mask, refused

from sealhost.sandbox import AdmissionError, Decision, SamplingParams
from sealhost.sandbox.abi import Action
from sealhost.sandbox.randomness import draw
from sealhost.sandbox.sampling import sample


@pytest.mark.parametrize("tier", TIERS)
def test_facts_of_the_plugin_are_what_layout_and_operator_say(tier, puppet):
    plugin = puppet(tier)
    assert (plugin.tier, plugin.max_rows, plugin.max_backtrack) == (tier, 4, 4)
    assert puppet(tier, max_backtrack=1000).max_backtrack == 64


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("action", "token", "answer", "expected"),
    [
        (Action.TOKEN, 7, (), Decision((7,))),
        (Action.STOP, 0, (), Decision((), stop=True)),
        (Action.FAST_FORWARD, 0, (5, 259, 5), Decision((5, 259, 5))),
        (Action.BACKTRACK, 2, (9,), Decision((9,), backtrack=2)),
        (Action.BACKTRACK, 1, (), Decision((), backtrack=1)),
        (Action.PASS, 0, (), Decision((259,))),
    ],
)
def test_every_tier_takes_the_plain_actions(tier, action, token, answer, expected, puppet, puppeteer):
    config = puppeteer.says(action, token, len(answer), ids(*answer))
    assert decided(puppet(tier), config, generated=(4, 5)) == expected


@pytest.mark.parametrize("tier", TIERS)
def test_mask_is_applied_after_everything_else(tier, puppet, puppeteer):  # R36
    params = SamplingParams(temperature=0, logit_bias=((258, 100.0), (259, 100.0)), repetition_penalty=0.5)
    config = puppeteer.says(Action.MASK, answer=mask(3, 31, 32, 200))
    assert decided(puppet(tier), config, params) == Decision((200,))
    for seed in range(20):
        hot = SamplingParams(temperature=1e6, logit_bias=params.logit_bias, seed=seed)
        assert decided(puppet(tier), config, hot).tokens[0] in {3, 31, 32, 200}


def test_mask_that_leaves_only_impossible_ids_is_empty_and_one_without_ids_is_invalid(puppet, puppeteer):  # R36
    logits = np.full(VOCABULARY, -math.inf, np.float32)
    logits[5] = 1
    allows_six = puppeteer.says(Action.MASK, answer=mask(6))
    assert refused(puppet("mask"), allows_six, logits=logits).kind == "empty"
    assert refused(puppet("mask"), puppeteer.says(Action.MASK)).kind == "invalid"


def test_masked_draw_is_that_of_the_logits_with_the_others_forbidden(puppet, puppeteer):
    logits = np.random.default_rng(1).normal(size=VOCABULARY).astype(np.float32)
    forbidden = logits.copy()
    forbidden[50:] = -math.inf
    for seed in range(20):
        params = SamplingParams(temperature=1.5, top_p=0.9, presence_penalty=0.5, seed=seed)
        found = decided(puppet("mask"), puppeteer.says(Action.MASK, answer=mask(*range(50))), params, logits=logits)
        expected = sample(forbidden, params, np.array([1, 2, 3], np.uint32), 3, draw(seed, 0, 3)[0])
        assert found == Decision((expected,))


@pytest.mark.parametrize("tier", TIERS)
def test_sparse_adds_to_the_logits_and_minus_infinity_forbids(tier, puppet, puppeteer):
    entries = struct.pack("<IfIfIf", 100, 200.0, 259, -math.inf, 100, 0.5)
    assert decided(puppet(tier), puppeteer.says(Action.SPARSE, count=3, answer=entries)) == Decision((100,))
    logits = np.zeros(VOCABULARY)
    logits[259] = math.inf
    logits[3] = 1
    forbids = puppeteer.says(Action.SPARSE, count=1, answer=struct.pack("<If", 259, -math.inf))
    assert decided(puppet(tier), forbids, logits=logits) == Decision((3,))


REFUSED = {
    "a token past the vocabulary": (Action.TOKEN, VOCABULARY, 0, b"", "token below 260, got 260"),
    "an action that there is not": (9, 0, 0, b"", "got action 9"),
    "no action": (0, 0, 0, b"", "got action 0"),
    "a mask bit past the vocabulary": (Action.MASK, 0, 0, mask(1, 260), "from 260 on"),
    "a mask without ids": (Action.MASK, 0, 0, mask(), "at least one id"),
    "no sparse entries": (Action.SPARSE, 0, 0, b"", "1 to 8 bias entries, got 0"),
    "more sparse entries than fit": (Action.SPARSE, 0, 9, b"", "1 to 8 bias entries, got 9"),
    "endless sparse entries": (Action.SPARSE, 0, 2**32 - 1, b"", "got 4294967295"),
    "a sparse NaN": (Action.SPARSE, 0, 1, struct.pack("<If", 1, math.nan), "finite or -inf"),
    "a sparse infinity": (Action.SPARSE, 0, 1, struct.pack("<If", 1, math.inf), "finite or -inf"),
    "a sparse id past the vocabulary": (Action.SPARSE, 0, 1, struct.pack("<If", VOCABULARY, 1), "ids below 260"),
    "nothing forward": (Action.FAST_FORWARD, 0, 0, b"", "1 to 16 ids, got 0"),
    "a million ids forward": (Action.FAST_FORWARD, 0, 1_000_000, b"", "1 to 16 ids, got 1000000"),
    "an id forward that there is not": (Action.FAST_FORWARD, 0, 2, ids(1, VOCABULARY), "ids below 260, got 260"),
    "nothing back": (Action.BACKTRACK, 0, 1, ids(1), "1 to 2 ids to take back, got 0"),
    "back past the prompt": (Action.BACKTRACK, 3, 0, b"", "1 to 2 ids to take back, got 3"),
    "back past everything": (Action.BACKTRACK, 2**32 - 1, 0, b"", "got 4294967295"),
    "back and a million on": (Action.BACKTRACK, 1, 1_000_000, b"", "0 to 16 ids, got 1000000"),
    "back and on to an id that there is not": (Action.BACKTRACK, 1, 1, ids(2**31), "ids below 260"),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED)
def test_answer_that_breaks_a_rule_is_invalid(tier, answer, puppet, puppeteer):
    *says, words = answer
    error = refused(puppet(tier), puppeteer.says(*says), generated=(4, 5))
    assert error.kind == "invalid"
    assert words in str(error)


def test_history_bounds_what_goes_forward(puppet, puppeteer):
    plugin = puppet("full")
    forward = puppeteer.says(Action.FAST_FORWARD, count=3, answer=ids(1, 2, 3))
    assert decided(plugin, forward, prompt=[1] * 61).tokens == (1, 2, 3)
    assert "1 to 2 ids, got 3" in str(refused(plugin, forward, prompt=[1] * 62))
    back = puppeteer.says(Action.BACKTRACK, 2, 3, ids(1, 2, 3))
    assert decided(plugin, back, prompt=[1] * 61, generated=(1, 1)) == Decision((1, 2, 3), backtrack=2)


def test_backtrack_is_bounded_by_layout_operator_and_what_was_generated(puppet, puppeteer):
    four_back = puppeteer.says(Action.BACKTRACK, 4)
    assert decided(puppet("full"), four_back, generated=(1,) * 9) == Decision((), backtrack=4)
    assert "1 to 3 ids" in str(refused(puppet("full"), four_back, generated=(1,) * 3))
    assert "1 to 2 ids" in str(refused(puppet("full", max_backtrack=2), four_back, generated=(1,) * 9))
    assert "no ids to take back" in str(refused(puppet("full", max_backtrack=0), four_back, generated=(1,) * 9))


def test_mask_needs_an_answer_area_that_holds_it(puppet, puppeteer):
    error = refused(puppet("full", answer_capacity=32), puppeteer.says(Action.MASK, answer=mask(1)))
    assert "36 bytes for a mask, got 32" in str(error)


def test_mask_tier_has_nothing_to_edit(puppet, puppeteer):
    assert "action of tier mask, got action 3" in str(refused(puppet("mask"), puppeteer.says(Action.EDITED)))


@pytest.mark.parametrize(
    ("tier", "layout", "words"),
    [
        ("full", {"vocab_capacity": 1025}, "to hold vocab_capacity 1025"),
        ("full", {"candidates": 53248, "candidate_capacity": 8}, "no candidates in tier full"),
        ("full", {"answer_capacity": 62}, "whole words"),
        ("full", {"answer_capacity": 1 << 21}, "answer_capacity within"),
        ("full", {"max_backtrack": 65537}, "max_backtrack within"),
        ("full", {"answer": 32768}, "logits and answer that overlap"),
        ("full", {"log": 32768}, "logits and log that overlap"),
        ("full", {"log": 57346}, "log aligned to 4"),
        ("full", {"log": 131000}, "log inside 131072 bytes"),
        ("topk:17", {}, "room for 17 candidates in tier topk:17, got 16"),
        ("topk:4", {"logits": 32768, "logits_stride": 4096}, "no logits area in tier topk:4"),
        ("topk:4", {"candidates": 131064}, "candidates inside"),
        ("topk:4", {"candidates": 49152}, "candidates and answer that overlap"),
        ("mask", {"logits": 32768, "logits_stride": 4096}, "no logits area in tier mask"),
        ("mask", {"answer_capacity": 32}, "answer_capacity of at least 64 in tier mask, got 32"),
    ],
)
def test_layout_that_does_not_fit_its_tier_is_refused(tier, layout, words, puppet):
    with pytest.raises(AdmissionError, match=words) as caught:
        puppet(tier, **layout)
    assert caught.value.clause == "1.15"
