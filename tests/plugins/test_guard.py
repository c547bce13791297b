"""The guard through the real sandbox: no banned text is ever said, across any border of tokens, and nothing else changes."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from sealhost.host.cli.plugin_folder import AuthoredPlugin
from sealhost.host.cli.plugin_vocabulary import FIRST_MERGED, MERGES, trial_vocabulary
from sealhost.plugins import reference_plugin
from sealhost.sandbox import GuestError, OperatorLimits, SamplingParams, Sandbox, SandboxError

WORDS = trial_vocabulary()
SIZE = len(WORDS.texts)
GREEDY = SamplingParams(temperature=0)
THE = FIRST_MERGED + MERGES.index(b" the")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    limits = OperatorLimits(strikes=1_000_000)
    with Sandbox(limits, cache_directory=tmp_path_factory.mktemp("guard") / "cache") as made:
        yield made


@pytest.fixture(scope="module")
def guard(sandbox):
    return sandbox.load_sampler(AuthoredPlugin.read(reference_plugin("sampler", "guard")), SIZE, WORDS)


@pytest.fixture(scope="module")
def standard(sandbox):
    return sandbox.load_sampler(AuthoredPlugin.read(reference_plugin("sampler", "standard")), SIZE, WORDS)


class Said(NamedTuple):
    """What a choice came to: its ids, its steps, how many ids were taken back."""

    ids: list[int]
    steps: int
    taken_back: int

    @property
    def text(self) -> bytes:
        return spell(self.ids)


def spell(ids: list[int]) -> bytes:
    types = WORDS.types.tolist()
    return b"".join(WORDS.token_bytes[token] for token in ids if types[token] != 3)


def scripted(*texts: str):
    """Logits of a model that wants to say these bytes, the first most of all, whatever it has said so far."""

    def logits(ids: list[int]) -> np.ndarray:
        row = np.zeros(SIZE, np.float32)
        for rank, text in enumerate(reversed(texts)):
            if len(ids) < len(text):
                row[ord(text[len(ids)])] = 5 + rank
        return row

    return logits


def babbling(alphabet: list[int], seed: int):
    """A model that likes these ids; the same beginning gives the same logits."""

    def logits(ids: list[int]) -> np.ndarray:
        numbers = np.random.default_rng([seed, zlib.crc32(bytes(str(ids), "ascii"))])
        row = np.full(SIZE, -20, np.float32)
        row[alphabet] = numbers.normal(0, 2, len(alphabet))
        return row

    return logits


def say(sampler, model, config: dict[str, Any] | None, length: int, params=GREEDY, prompt=(1, 2)) -> Said:
    """Plays the host: takes back and appends as the sampler decides, and looks at every text on the way."""
    ids: list[int] = []
    taken = steps = 0
    banned = [text.encode() for text in (config or {}).get("banned", [])]
    with sampler.session(params, prompt, config=sampler.config_bytes(config)) as session:
        while len(ids) < length:
            session.logits(0)[:] = model(ids)
            (decision,) = session.step((0,))
            del ids[len(ids) - decision.backtrack :]
            ids.extend(decision.tokens)
            session.accept(0, decision.tokens, decision.backtrack)
            taken, steps = taken + decision.backtrack, steps + 1
            assert not any(text in spell(ids) for text in banned)
            assert steps < 50 * length
    return Said(ids, steps, taken)


def test_a_banned_text_is_taken_back_to_where_it_begins(guard):
    said = say(guard, scripted("xbady", "xcorn"), {"banned": ["bad"]}, 5)
    assert said.text == b"xcady"  # the model's second wish at the second place; then it goes on
    assert said.taken_back == 2
    assert said.steps == 5 + 2 + 1


def test_what_was_forbidden_is_forbidden_at_that_place_only(guard):
    assert say(guard, scripted("badbed", "tin"), {"banned": ["bad"]}, 6).text == b"tadbed"


def test_going_back_again_goes_through_the_models_wishes(guard):
    said = say(guard, scripted("bad", "cad", "dad", "sad"), {"banned": ["bad", "cad", "dad"]}, 3)
    assert said.text == b"sad"
    assert said.taken_back == 6


def test_a_beginning_that_can_only_be_banned_gives_way_too(guard):
    # after "a" everything the model likes is banned: it comes back to the place before
    def model(ids):
        row = np.full(SIZE, -50, np.float32)
        row[[ord("a"), ord("b")] if not ids else [ord("x"), ord("y")]] = [2, 1]
        return row

    said = say(guard, model, {"banned": ["ax", "ay"]}, 2)
    assert said.text == b"bx"


def test_one_token_that_holds_a_banned_text_is_left_out_at_once(guard):
    def model(ids):
        row = np.zeros(SIZE, np.float32)
        row[[THE, ord("x")]] = [9, 5]
        return row

    said = say(guard, model, {"banned": ["th"]}, 4)
    assert (said.text, said.taken_back) == (b"xxxx", 0)


def test_a_text_across_the_borders_of_merged_tokens_is_found(guard):
    he, on, a = (FIRST_MERGED + MERGES.index(piece) for piece in (b"he", b"on", b" a"))
    wishes = [he, on, a]

    def model(ids):
        row = np.zeros(SIZE, np.float32)
        row[wishes[len(ids)]] = 9
        row[ord("x")] = 5
        return row

    said = say(guard, model, {"banned": ["eon "]}, 3)  # from within "he" to within " a"
    assert said.ids == [ord("x"), on, a]


def test_a_letter_of_several_bytes_is_found_byte_by_byte(guard):
    wishes = "né!".encode()

    def model(ids):
        row = np.zeros(SIZE, np.float32)
        row[wishes[len(ids)]] = 9
        row[ord("e")] = 5
        return row

    said = say(guard, model, {"banned": ["é"]}, 3)
    assert (said.text, said.taken_back) == (b"ne" + wishes[2:3], 1)


def test_the_last_token_of_an_answer_completes_nothing(guard):
    # whoever stops after three tokens has seen no banned text, for what completes one is never appended
    assert b"bad" not in say(guard, scripted("bad", "xyz"), {"banned": ["bad"]}, 3).text


@pytest.mark.parametrize("config", [None, {}, {"banned": []}, {"banned": ["zzzz"], "ignore_case": False}])
def test_where_nothing_banned_comes_up_the_answer_is_the_standard_samplers(guard, standard, config):
    model = babbling([97, 98, 99, THE, 260], seed=3)
    for seed in range(5):
        params = SamplingParams(temperature=1.2, top_p=0.95, repetition_penalty=1.1, seed=seed)
        assert say(guard, model, config, 40, params).ids == say(standard, model, None, 40, params).ids


def test_no_banned_text_is_ever_said_in_random_runs(guard):
    chance, taken = np.random.default_rng(60), 0
    pieces = [97, 98, 99, 32, THE, *(FIRST_MERGED + MERGES.index(piece) for piece in (b" t", b"he", b" a"))]
    for run in range(150):
        banned = {
            bytes(chance.choice(list(b"abc the"), int(chance.integers(1, 5))).tolist()).decode()
            for _ in range(int(chance.integers(1, 6)))
        } - {"a", "b", "c"}
        params = SamplingParams(temperature=float(chance.choice([0, 0.7, 1.5])), seed=run)
        said = say(guard, babbling(pieces, run), {"banned": sorted(banned)}, 25, params)
        taken += said.taken_back
    assert taken > 50


def test_the_same_seed_says_the_same_twice(guard):
    params = SamplingParams(temperature=1.5, seed=9)
    runs = [say(guard, babbling([97, 98, 99], 1), {"banned": ["ab", "bca", "cc"]}, 30, params) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0].taken_back > 0


def test_case_is_ignored_where_asked_for(guard):
    assert say(guard, scripted("xBaD", "xyz "), {"banned": ["bAd"]}, 4).text == b"xBaD"
    said = say(guard, scripted("xBaD", "xyz "), {"banned": ["bAd"], "ignore_case": True}, 4)
    assert b"bad" not in said.text.lower()


def test_a_text_longer_than_what_can_be_taken_back_is_still_not_said(guard):
    long = "abcdefghijklmnopqrstuvwxyz"
    said = say(guard, scripted(long), {"banned": [long]}, 26)
    assert guard.max_backtrack == 16 < len(long)
    assert said.text.startswith(long[:9].encode())  # these stood for good when the last letter came
    assert said.taken_back == 16


@pytest.fixture(scope="module")
def short_guard(tmp_path_factory):
    """Under an operator who lets it take back one id."""
    limits = OperatorLimits(max_backtrack=1)
    with Sandbox(limits, cache_directory=tmp_path_factory.mktemp("short") / "cache") as sandbox:
        yield sandbox.load_sampler(AuthoredPlugin.read(reference_plugin("sampler", "guard")), SIZE, WORDS)


def test_an_operator_who_allows_less_gets_less_taken_back(short_guard):
    said = say(short_guard, scripted("bad", "xyz"), {"banned": ["bad"]}, 3)
    assert (said.text, said.taken_back) == (b"byd", 1)


def test_where_nothing_can_be_taken_back_the_completing_token_gives_way(short_guard):
    said = say(short_guard, scripted("xab", " b", " z"), {"banned": ["ab", "xb"]}, 3)
    assert (said.text, said.taken_back) == (b"xzb", 1)


def test_many_ids_that_would_complete_a_text_cost_one_step(short_guard):
    letters = [letter for letter in range(33, 127) if letter != ord("a")]

    def model(ids):
        row = np.full(SIZE, -50, np.float32)
        row[letters] = np.linspace(9, 1, len(letters))
        row[[0, *([ord("xab"[len(ids)])] if len(ids) < 3 else [])]] = [0, *([20] if len(ids) < 3 else [])]
        return row

    banned = ["ab", *(f"x{chr(letter)}" for letter in letters)]
    said = say(short_guard, model, {"banned": banned}, 3)
    assert said == Said([ord("x"), 0, ord("b")], steps=5, taken_back=1)


def test_ids_that_the_host_chose_count_like_its_own(guard):
    row = np.zeros(SIZE, np.float32)
    row[[ord("d"), ord("z")]] = [9, 5]

    def decided(session):
        session.logits(0)[:] = row
        return session.step((0,))[0]

    with guard.session(GREEDY, [1], config=guard.config_bytes({"banned": ["bad"]})) as session:
        assert decided(session).tokens == (ord("d"),)
        session.accept(0, list(b"cba"))  # something else than what was decided
        assert decided(session).backtrack == 2
        session.accept(0, list(b"x"), 1)  # not the two that the guard wanted back: "cbx"
        assert decided(session).tokens == (ord("d"),)
        session.accept(0, list(b"ba"), 1)  # "cbba": the forbidden "b" belongs to another beginning
        assert decided(session).backtrack == 2
        session.accept(0, (), 2)
        assert decided(session).tokens == (ord("d"),)


def test_choices_that_share_an_instance_do_not_mix(guard):
    config = {"banned": ["ab", "bc"]}
    params = SamplingParams(temperature=1.3, seed=4)
    model = babbling([97, 98, 99], 8)
    ids: list[list[int]] = [[], [], []]
    with guard.session(params, [7], choices=(0, 1, 2), config=guard.config_bytes(config)) as session:
        for _ in range(60):
            for slot in range(3):
                session.logits(slot)[:] = model(ids[slot])
            for slot, decision in enumerate(session.step((0, 1, 2))):
                del ids[slot][len(ids[slot]) - decision.backtrack :]
                ids[slot].extend(decision.tokens)
                session.accept(slot, decision.tokens, decision.backtrack)
                assert b"ab" not in spell(ids[slot])
                assert b"bc" not in spell(ids[slot])
    assert ids[0] != ids[1]


def test_no_bias_lifts_a_ban(guard):
    # the ban is applied last: +100 on ids that hold, or would complete, a banned text draws neither
    params = SamplingParams(temperature=0, logit_bias=((ord("q"), 100.0), (ord("d"), 100.0)))
    said = say(guard, scripted("bax", "cyz"), {"banned": ["q", "bd", "dd"]}, 3, params)
    assert said.text.count(b"d") <= 2
    assert b"q" not in said.text


def test_when_everything_is_banned_the_request_ends_with_the_defined_error(guard):
    def model(ids):
        row = np.full(SIZE, -np.inf, np.float32)
        row[97] = 1
        return row

    with pytest.raises(GuestError, match="no token can be drawn"):
        say(guard, model, {"banned": ["a"]}, 1)


@pytest.mark.parametrize(
    "config",
    [
        {"banned": [""]},
        {"banned": ["a" * 257]},
        {"banned": "a"},
        {"banned": [1]},
        {"forbidden": ["a"]},
        {"ignore_case": "yes"},
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_before_the_guest_sees_it(guard, config):
    with pytest.raises(SandboxError, match="sampler_config"):
        guard.config_bytes(config)


def test_more_text_than_the_matcher_holds_is_refused(guard):
    numbers = np.random.default_rng(61)
    banned = ["".join(chr(letter) for letter in numbers.integers(97, 123, 100)) for _ in range(90)]
    with pytest.raises(GuestError, match="8,191 bytes"):
        say(guard, scripted("a"), {"banned": banned}, 1)
    assert say(guard, scripted("a"), {"banned": banned[:80]}, 1).text == b"a"


def test_the_module_takes_the_vocabulary_and_its_memory_is_what_it_declares():
    plugin = AuthoredPlugin.read(reference_plugin("sampler", "guard"))
    assert plugin.limits.memory_bytes == 64 << 20
    assert b"vocabulary" in plugin.wasm
    assert (Path(reference_plugin("sampler", "guard")) / "README.md").is_file()
