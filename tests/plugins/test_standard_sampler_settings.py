"""The standard sampler's configuration: edge values, what is refused, and what mirostat carries."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from configured_reference import ORDER, repeats
from plugin_harness import ACCEPT, NEW, SAMPLE, GuestRefusedError, Parameters
from test_standard_sampler import EMPTY, INF, u64
from test_standard_sampler_configured import written

CONFIG, INPUT = -0x40000001, -0x40000003
XTC_ALL = {"xtc_probability": 1, "xtc_threshold": 0}
EDGES = [
    # what, logits, configuration, parameters, ids that may come
    ("temperature 0 is greedy whatever is configured", [1, 7, 7], XTC_ALL, {"temperature": 0}, {1}),
    ("greedy under dynamic temperature", [1, 7, 7], {"dynatemp_range": 2}, {"temperature": 0}, {1}),
    ("greedy under mirostat", [1, 7, 7], {"mirostat": 2}, {"temperature": 0}, {1}),
    ("greedy where no temperature is in the order", [1, 7, 7], {"samplers": []}, {"temperature": 0}, {1}),
    ("temperature 1e-4", [10, 0, -10], {"typical_p": 0.9999}, {"temperature": 1e-4}, {0}),
    ("temperature and top_p 1e-4", [10, 0, -10], {"dynatemp_range": 0}, {"temperature": 1e-4, "top_p": 1e-4}, {0}),
    ("far apart at temperature 1e-4", [1e4, -1e4], {"top_n_sigma": 9}, {"temperature": 1e-4}, {0}),
    ("temperature above float32's range", [1, 2], {"top_n_sigma": 9}, {"temperature": INF}, {0, 1}),
    ("an order without temperature leaves it at 1", [0, 0.1], {"samplers": ["min_p"]}, {"temperature": 1e-4}, {0, 1}),
    ("an order without top-k takes no notice of it", [5, 5, 5], {"samplers": ["xtc"]}, {"top_k": 1}, {0, 1, 2}),
    ("top_k above the vocabulary is off", [5, 5, 5], {"top_n_sigma": 9}, {"top_k": 9_999_999}, {0, 1, 2}),
    ("top_k -1 is off", [5, 5, 5], {"top_n_sigma": 9}, {"top_k": -1}, {0, 1, 2}),
    ("top_p 0 keeps one", [0, 3, 3], {"top_n_sigma": 9}, {"top_p": 0}, {1}),
    ("top_p 1 is off", [0, 0.1], {"top_n_sigma": 9}, {"top_p": 1}, {0, 1}),
    ("min_p 1 with equal logits keeps all of them", [4, 4, 3], {"dynatemp_range": 0}, {"min_p": 1}, {0, 1}),
    ("typical_p 0 keeps one", [4, 4, 4], {"typical_p": 0}, {}, {0}),
    ("typical_p 1e-9 keeps one", [4, 4, 4], {"typical_p": 1e-9}, {}, {0}),
    ("typical_p 1 is off", [4, 4, 4], {"typical_p": 1}, {}, {0, 1, 2}),
    ("typical_p may take the likeliest out", [3, 2.2, 2.2, 2.2, 2.2, 2.2], {"typical_p": 0.69}, {}, {1, 2, 3, 4, 5}),
    ("top_n_sigma 0 is off", [4, 3, 2], {"top_n_sigma": 0}, {}, {0, 1, 2}),
    ("top_n_sigma keeps the likeliest", [4, 3, 2], {"top_n_sigma": 0.01}, {}, {0}),
    ("top_n_sigma counts no -inf", [4, 3, -INF, np.nan], {"top_n_sigma": 2}, {}, {0, 1}),
    ("top_n_sigma of equal logits keeps all", [4, 4, 4], {"top_n_sigma": 0.01}, {}, {0, 1, 2}),
    ("xtc that would remove everything keeps the last", [3, 2, 1], XTC_ALL, {}, {2}),
    ("xtc of one candidate", [3, -INF], XTC_ALL, {}, {0}),
    ("xtc above one half does nothing", [3, 3], {"xtc_probability": 1, "xtc_threshold": 0.51}, {}, {0, 1}),
    ("xtc at probability 0 does nothing", [3, 3], {"xtc_probability": 0, "xtc_threshold": 0}, {}, {0, 1}),
    ("xtc of equals keeps the highest id of them", [3, 3, -9], {"xtc_probability": 1}, {}, {1, 2}),
    ("all filters at their tightest", [4, 4, 4], {**XTC_ALL, "typical_p": 0, "top_n_sigma": 1e-9}, {"top_k": 1}, {0}),
    ("several +inf share", [INF, 5, INF], {"typical_p": 0.99}, {}, {0, 2}),
    ("+inf under a bias of -inf", [INF, 1], {"top_n_sigma": 1}, {"bias": ((0, -INF),)}, {1}),
    ("NaN counts as -inf", [np.nan, -5], {"mirostat": 2}, {}, {1}),
    ("mirostat at tau 0 keeps one", [1, 1, 1], {"mirostat": 2, "mirostat_tau": 0}, {}, {0}),
    ("mirostat at a large tau keeps all", [1, 1, 1], {"mirostat": 2, "mirostat_tau": 9}, {}, {0, 1, 2}),
    ("mirostat replaces the other cuts", [1, 1, 1], {"mirostat": 2, **XTC_ALL}, {"top_k": 1}, {0, 1, 2}),
    ("dynamic temperature of one candidate", [1, -INF], {"dynatemp_range": 5}, {}, {0}),
    ("dynamic temperature down to 0 is greedy", [50, 1, 50.5], {"dynatemp_range": 9, "dynatemp_exponent": 99}, {}, {2}),
    (
        "an exponent of 0 is the highest temperature",
        [0, 30],
        {"dynatemp_range": 99, "dynatemp_exponent": 0},
        {},
        {0, 1},
    ),
]


@pytest.mark.parametrize(
    ("logits", "config", "changes", "allowed"), [edge[1:] for edge in EDGES], ids=[edge[0] for edge in EDGES]
)
def test_edge_values_of_a_configured_chain_draw_only_what_they_may_and_all_of_it(
    sampler, logits, config, changes, allowed
):
    asked = Parameters(config=written(config), **changes)
    row = np.array(logits, np.float32)
    assert {sampler.draw(row, replace(asked, random=u64(u))) for u in np.linspace(0, 1 - 2**-53, 41)} == allowed


@pytest.mark.parametrize("config", [XTC_ALL, {"mirostat": 2}, {"typical_p": 0.5}, {"top_n_sigma": 1}])
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_row_without_a_candidate_is_the_defined_error_in_a_configured_chain(sampler, config, temperature):
    for value in (-INF, np.nan):
        with pytest.raises(GuestRefusedError) as refusal:
            sampler.draw(np.full(40, value, np.float32), Parameters(temperature=temperature, config=written(config)))
        assert refusal.value.args[0] == EMPTY


DRY = {"dry_multiplier": 100, "dry_base": 1}
DRIED = [
    # what, configuration, history, ids that are penalised
    ("what followed the same two ids", {}, (1, 2, 3, 9, 1, 2), {3}),
    ("one id is too short a match", {}, (1, 2, 3, 9, 2), set()),
    ("one id is enough if asked for", {"dry_allowed_length": 1}, (1, 2, 3, 9, 2), {3}),
    ("each continuation of a match", {}, (1, 2, 3, 1, 2, 4, 1, 2), {3, 4}),
    ("runs may overlap", {}, (5, 5, 5), {5}),
    ("an empty history", {}, (), set()),
    ("a history of one id", {"dry_allowed_length": 1}, (4,), set()),
    ("nothing is looked at", {"dry_penalty_last_n": 0}, (1, 2, 3, 9, 1, 2), set()),
    ("the match lies before the window", {"dry_penalty_last_n": 5}, (1, 2, 3, 9, 1, 2), set()),
    ("the window just holds the match", {"dry_penalty_last_n": 6}, (1, 2, 3, 9, 1, 2), {3}),
    ("a breaker at the end", {"dry_sequence_breakers": [2]}, (1, 2, 3, 9, 1, 2), set()),
    ("a breaker at the match's beginning", {"dry_sequence_breakers": [1]}, (1, 2, 3, 9, 1, 2), set()),
    ("a breaker right before the match", {"dry_sequence_breakers": [0]}, (0, 1, 2, 3, 0, 1, 2), {3}),
    ("a breaker that would follow", {"dry_sequence_breakers": [3]}, (1, 2, 3, 9, 1, 2), set()),
    ("a breaker beyond the vocabulary", {"dry_sequence_breakers": [2**32 - 1]}, (1, 2, 3, 9, 1, 2), {3}),
]


@pytest.mark.parametrize("split", [0, 2, 99])
@pytest.mark.parametrize(("config", "history", "expected"), [one[1:] for one in DRIED], ids=[one[0] for one in DRIED])
def test_dry_penalises_the_ids_that_would_go_on_repeating(sampler, config, history, expected, split):
    asked = Parameters(prompt=history[:split], generated=history[split:], config=written({**DRY, **config}))
    drawn = {sampler.draw(np.zeros(10, np.float32), replace(asked, random=u64(u))) for u in np.linspace(0, 0.999, 61)}
    assert set(range(10)) - drawn == expected
    assert repeats(list(history), {**DRY, **config}).keys() == expected


WORDS = [
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"a:",
    b":",
    b"\n\n",
    b'"',
    b"c",
    b"",
    "é".encode()[:1],
    "é".encode()[1:],
    b"**",
    b"x",
]
SPELLED = [
    # what, configuration, history, ids that are penalised
    ("a colon breaks where nothing is said", {}, (0, 5, 8, 0, 5), set()),
    ("and a token that holds one", {}, (0, 4, 8, 0, 4), set()),
    ("two line feeds hold one", {}, (0, 6, 8, 0, 6), set()),
    ("a breaker is not penalised", {}, (0, 1, 5, 8, 0, 1), set()),
    ("nor a token that holds one", {}, (0, 1, 4, 8, 0, 1), set()),
    ("an empty list breaks nowhere", {"dry_sequence_breakers": []}, (0, 5, 8, 0, 5), {8}),
    ("a list replaces the default", {"dry_sequence_breakers": ["x"]}, (0, 5, 8, 0, 5), {8}),
    ("text of two tokens", {"dry_sequence_breakers": ["ab"]}, (13, 0, 1, 8, 13, 0, 1), set()),
    ("text of one token and a half", {"dry_sequence_breakers": ["aba"]}, (13, 0, 3, 8, 13, 0, 3), set()),
    ("text that ends within a token", {"dry_sequence_breakers": ["bb"]}, (13, 1, 3, 8, 13, 1, 3), set()),
    ("text across three tokens", {"dry_sequence_breakers": ["bax:"]}, (1, 0, 13, 5, 8, 0, 1, 0, 13, 5, 8, 0), {1}),
    ("the same, not spelled to its end", {"dry_sequence_breakers": ["bax::"]}, (1, 0, 13, 5, 8, 1, 0, 13, 5), {8}),
    ("a control token within a text", {"dry_sequence_breakers": ["ab"]}, (0, 9, 1, 8, 0, 9, 1), {8}),
    ("a token's second try at a text", {"dry_sequence_breakers": ["aab"]}, (13, 0, 0, 2, 8, 13, 0, 0, 2), set()),
    ("a letter of two tokens", {"dry_sequence_breakers": ["é"]}, (13, 10, 11, 8, 13, 10, 11), set()),
    ("ids and texts in one list", {"dry_sequence_breakers": ["é", 13]}, (0, 13, 8, 0, 13), set()),
    ("a text behind the run's beginning", {"dry_sequence_breakers": ["xa"]}, (13, 0, 1, 8, 13, 0, 1), set()),
    ("enough ids behind a text", {"dry_sequence_breakers": ["xa"]}, (13, 0, 1, 2, 8, 13, 0, 1, 2), {8}),
    ("an id beyond the vocabulary spells nothing", {"dry_sequence_breakers": ["a"]}, (14, 15, 8, 14, 15), {8}),
]


@pytest.mark.parametrize(
    ("config", "history", "expected"), [one[1:] for one in SPELLED], ids=[one[0] for one in SPELLED]
)
def test_dry_breaks_where_its_texts_stand_in_whatever_tokens(spelling_sampler, config, history, expected):
    sampler = spelling_sampler(WORDS)
    asked = Parameters(generated=history, config=written({**DRY, **config}))
    drawn = {sampler.draw(np.zeros(16, np.float32), replace(asked, random=u64(u))) for u in np.linspace(0, 0.999, 81)}
    assert set(range(16)) - drawn == expected
    assert repeats(list(history), {**DRY, **config}, dict(enumerate(WORDS))).keys() == expected


def test_random_texts_break_as_the_reference_says(spelling_sampler):
    chance, acted = np.random.default_rng(51), 0
    words = [b"a", b"b", b"ab", b"ba", b"aab", b"bb", b"", b"c", b"abc"]
    sampler = spelling_sampler(words)
    for _ in range(300):
        texts = ["".join(chance.choice(["a", "b", "c"], int(chance.integers(1, 6)))) for _ in range(chance.integers(4))]
        motif = chance.integers(0, len(words), int(chance.integers(2, 7))).tolist()
        history = tuple((motif * 4)[: int(chance.integers(4, 20))])
        config = {**DRY, "dry_sequence_breakers": texts, "dry_allowed_length": int(chance.integers(1, 4))}
        asked = Parameters(temperature=0, generated=history, config=written(config))
        penalised = {token for token in range(len(words)) if sampler.draw(one_hot(token), asked) != token}
        assert penalised == repeats(list(history), config, dict(enumerate(words))).keys(), (texts, history)
        acted += len(penalised)
    assert acted > 100


def one_hot(token: int) -> np.ndarray:
    logits = np.zeros(9, np.float32)
    logits[token] = 1
    return logits


def test_what_a_request_breaks_at_is_forgotten_with_it(spelling_sampler):
    sampler = spelling_sampler(WORDS)
    for breakers, breaks in (([":"], 1), (["x"], 0), ([5], 1), ([], 0), (["q", "a:"], 1), (["q"], 0), (None, 1)):
        config = DRY if breakers is None else {**DRY, "dry_sequence_breakers": breakers}
        logits = np.zeros(16, np.float32)
        logits[[8, 9]] = [5, 4]
        asked = Parameters(temperature=0, generated=(0, 5, 8, 0, 5), config=written(config))
        assert sampler.draw(logits, asked) == (8 if breaks else 9), breakers


def test_a_longer_repetition_is_penalised_more_and_never_without_bound(sampler):
    config = {"dry_multiplier": 1, "dry_base": 2}
    history = (1, 2, 3, 4, 7, 9, 3, 4, 8, 1, 2, 3, 4)  # four ids before 7: 2 ** 2, two before 8: 1
    logits = np.full(10, -50, np.float32)
    for seven, eight, best in ((2.9, 0, 8), (3.1, 0, 7)):
        logits[7], logits[8] = seven, eight
        asked = Parameters(temperature=0, generated=history, config=written(config))
        assert sampler.draw(logits, asked) == best
    endless = Parameters(generated=(0,) * 9000, config=written({"dry_multiplier": 1e6, "dry_base": 1e6}))
    assert sampler.draw(np.array([0, -3e38], np.float32), endless) == 1
    assert sampler.draw(np.zeros(1, np.float32), endless) == 0  # cut to a number: never "no token"


def test_dry_refuses_ids_outside_the_vocabulary(sampler):
    with pytest.raises(GuestRefusedError) as refusal:
        sampler.draw(np.zeros(3, np.float32), Parameters(generated=(7, 7, 7), config=written(DRY)))
    assert refusal.value.args[0] == INPUT
    assert sampler.draw(np.zeros(3, np.float32), Parameters()) == 0


REFUSED = [
    b"[]",
    b'{"typical_p":0.5',
    b'{"typical_p":0.5}}',
    b'{"typical_p":0.5,}',
    b'{ "typical_p":0.5}',
    b'{"typical_p":-0.1}',
    b'{"typical_p":.5}',
    b'{"typical_p":1e}',
    b'{"typical_p":"a"}',
    b'{"typical":0.5}',
    b'{"dry_base":0.5}',
    b'{"dry_allowed_length":0}',
    b'{"dry_allowed_length":1.5}',
    b'{"dry_sequence_breakers":[-1]}',
    b'{"dry_sequence_breakers":[""]}',
    b'{"dry_sequence_breakers":["' + b"x" * 161 + b'"]}',
    b'{"dry_sequence_breakers":[' + b",".join([b'"x"'] * 65) + b"]}",
    b'{"dry_sequence_breakers":[null]}',
    b'{"dry_sequence_breakers":[' + b",".join([b"1"] * 65) + b"]}",
    b'{"mirostat":1}',
    b'{"samplers":["top_k","top_k"]}',
    b'{"samplers":["typ_p","typical_p"]}',
    b'{"samplers":["top_q"]}',
    b'{"samplers":["' + b"x" * 99 + b'"]}',
    b'{"' + b"x" * 99 + b'":1}',
    b'{"samplers":["\\ud800"]}',
    b"\xff",
]


@pytest.mark.parametrize("config", REFUSED, ids=range(len(REFUSED)))
def test_a_configuration_that_no_host_lets_through_is_refused_and_leaves_no_trace(sampler, config):
    logits = np.array([1, 2], np.float32)
    with pytest.raises(GuestRefusedError) as refusal:
        sampler.draw(logits, Parameters(config=config))
    assert refusal.value.args[0] == CONFIG
    assert "sampler_config" in refusal.value.args[1]
    assert sampler.draw(logits, Parameters(temperature=0)) == 1


@pytest.mark.parametrize("text", ["0.5", "5e-1", "0.50000000000000000000", "5E-1", "500000000000000000000000e-24"])
def test_numbers_are_read_however_they_are_written(sampler, text):
    # two candidates of one half each and typical_p at that: one is kept exactly when the number is at most one half
    asked = Parameters(config=b'{"typical_p":' + text.encode() + b"}", random=2**64 - 1)
    assert sampler.draw(np.zeros(2, np.float32), asked) == 0
    assert sampler.draw(np.zeros(2, np.float32), replace(asked, config=b'{"typical_p":0.50000001}')) == 1


def test_names_and_texts_may_be_escaped(sampler):
    asked = Parameters(config=b'{"samplers":["\\u0074op_k"]}', top_k=1, random=2**64 - 1)
    assert sampler.draw(np.zeros(5, np.float32), asked) == 0


def test_the_two_names_of_typical_mean_the_same(sampler):
    for name in ("typ_p", "typical_p"):
        asked = Parameters(config=written({"samplers": [name], "typical_p": 0}), random=2**64 - 1)
        assert sampler.draw(np.zeros(5, np.float32), asked) == 0
    assert ORDER[4] == "typ_p"


TAU, ETA = 1.0, 0.5


class Choice:
    """A choice under mirostat, and the mu that it should have."""

    def __init__(self, sampler, slot: int = 0) -> None:
        self.sampler, self.slot = sampler, slot
        self.mu, self.ids = 2 * TAU, []
        self.logits = np.array([3, 2, 1.2, 0.3, -1, -2, -2.5, -3], np.float32)

    def ask(self, u: float, flags: int, appended: int = 0) -> int:
        config = written({"mirostat": 2, "mirostat_tau": TAU, "mirostat_eta": ETA})
        row = Parameters(generated=tuple(self.ids), config=config, random=u64(u))
        self.sampler.write_row(self.logits, row, flags=flags | SAMPLE, told=(0, 0, appended, 0))
        self.sampler.step()
        return self.sampler.result()

    def expected(self, u: float) -> tuple[int, float]:
        """The token, and mu after it."""
        p = np.exp(self.logits.astype(np.float64))
        p /= p.sum()
        count = max(1, int((-np.log2(p) <= self.mu).sum()))
        p = p[:count] / p[:count].sum()
        token = int(np.searchsorted(np.cumsum(p), u, side="right"))
        return token, self.mu - ETA * (-math.log2(p[token]) - TAU)


def test_mirostat_moves_mu_with_each_token_that_stands(sampler):
    choice, numbers, seen = Choice(sampler), np.random.default_rng(50), set()
    for step in range(60):
        u = float(numbers.random())
        token, mu = choice.expected(u)
        assert choice.ask(u, NEW if step == 0 else ACCEPT, appended=int(step > 0)) == token
        choice.mu = mu
        choice.ids.append(token)
        seen.add(token)
    assert len(seen) >= 3


def test_mirostat_forgets_a_token_that_did_not_come_to_stand(sampler):
    choice = Choice(sampler)
    choice.ask(0.99, NEW)
    token, _ = choice.expected(0.9)
    assert choice.ask(0.9, 0) == token  # asked again, nothing was accepted
    choice.ids.append((token + 1) % 8)  # and then another one was
    token, _ = choice.expected(0.7)
    assert choice.ask(0.7, ACCEPT, appended=1) == token


def test_mirostat_begins_anew_with_a_new_choice_and_after_reset(sampler):
    choice = Choice(sampler)
    for _ in range(2):
        token, mu = choice.expected(0.9)
        assert choice.ask(0.9, NEW) == token
        choice.ids, choice.mu = [token], mu
        token, _ = choice.expected(0.8)
        assert choice.ask(0.8, ACCEPT, appended=1) == token
        assert sampler.call("reset") == 0
        choice = Choice(sampler)
