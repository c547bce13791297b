"""The guest `regex`: its masks against a brute-force acceptor over the whole vocabulary, its bounds and its refusals."""

from __future__ import annotations

import random
import re

import pytest
import wasmtime
from grammar_guest import FAST_FORWARD, SMALL, GrammarGuest, Words
from grammar_reference import Read, pattern
from plugin_harness import GuestRefusedError

from sealhost.plugins import reference_plugin

PATTERNS = [
    "a", "", "abc", "a|b", "(ab|ba)*", "a*", "a+b?", "(a|ab)(c|bc)", "[ab]{2,4}", "a{3}", "a{2,}", "[^a]", "[^a-z]{1,2}", ".",
    ".*", ".+a", r"\d+", r"\d{1,3}(\.\d+)?", r"\w+", r"\W", r"\s*\S", r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", "é", "é+a", "[é日]{1,2}",
    "[\u0431-\u044f]+", "日本?", "[^日]", "😀|é", "[\U0001f600-\U0001f64f]", r"\x61\u0062", r"\n|\t", r"\.\*\\", "(?:a|b)c*?", "(a(b(c)?)?)?",
    "true|false|null", "(a|b|ab|ba|aa)*c", r"[\d.]+", r"[a\-]+", "[]a]", "[^]a]", "^abc$", "^a|b$", "((a*)*)*", "(|a){3}", "[a-cx-z0-9]{2}",
    r"\{\"name\": \"[^\"]{1,3}\"\}", "(00|01|1)*", "(.a){2}", "[\\s\\S]{2}", "[^\\d\\s]+", "\u0800|\uffff", "[\u07ff-\u0801]", "[\ud7ff-\ue000]",
    "[\uff00-\U00010100]", "(a|b)*a(a|b){5}",
]  # fmt: skip
"""At least one for each rule of the subset; some tokens of the vocabulary end within their characters."""


@pytest.fixture(scope="module")
def regex_module(guest_engine):
    return wasmtime.Module(guest_engine, (reference_plugin("sampler", "regex") / "plugin.wasm").read_bytes())


@pytest.fixture(scope="module")
def regex_guest(guest_engine, regex_module):
    return GrammarGuest(guest_engine, regex_module)


def expected(read: Read, words: Words = SMALL) -> set[int]:
    found = {id_ for id_, text in enumerate(words.texts) if text and read.take(text).lives}
    return found | ({words.eos} if read.ends else set())


def seed_of(raw: str) -> random.Random:
    return random.Random(raw)


@pytest.mark.parametrize("raw", PATTERNS)
def test_masks_equal_a_brute_force_acceptor_over_the_whole_vocabulary(raw, regex_guest):
    rng, config = seed_of(raw), {"pattern": raw}
    for _walk in range(3):
        read, generated = Read(pattern(raw)), []
        for _step in range(9):
            allowed = regex_guest.allowed(config, generated, new=not generated)
            assert allowed == expected(read), (raw, generated)
            # tokens beyond the bytes more often than their number says
            choices = sorted(allowed - {SMALL.eos})
            if not choices:
                break
            long = [id_ for id_ in choices if id_ >= 256]
            chosen = rng.choice(long if long and rng.random() < 0.6 else choices)
            generated.append(chosen)
            read = read.take(SMALL.texts[chosen])


def random_pattern(rng: random.Random, depth: int = 0) -> str:
    def atom() -> str:
        if depth < 3 and rng.random() < 0.3:
            return "(" + random_pattern(rng, depth + 1) + ")"
        return rng.choice(["a", "b", "c", ".", "[ab]", "[^a]", r"\d", "é", "[a-c日]", "1", r"\w", '"'])

    def item() -> str:
        return atom() + rng.choice(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}"])

    return "|".join("".join(item() for _ in range(rng.randint(1, 4))) for _ in range(rng.randint(1, 3)))


def test_masks_of_random_patterns_equal_the_acceptor(regex_guest):
    for seed in range(60):
        rng = random.Random(seed)
        raw = random_pattern(rng)
        read, generated = Read(pattern(raw)), []
        for _step in range(5):
            allowed = regex_guest.allowed({"pattern": raw}, generated, new=not generated)
            assert allowed == expected(read), (seed, raw, generated)
            choices = sorted(allowed - {SMALL.eos})
            if not choices:
                break
            generated.append(rng.choice(choices))
            read = read.take(SMALL.texts[generated[-1]])


def test_a_request_that_begins_in_the_middle_gets_the_same_mask(regex_guest):
    config, generated = {"pattern": "(ab|ba)*c"}, [ord("a"), ord("b"), SMALL.texts.index(b"ba")]
    for end in range(len(generated) + 1):
        going_on = regex_guest.allowed(config, generated[:end], new=end == 0)
        assert going_on == regex_guest.allowed(config, generated[:end])
        regex_guest.allowed(config, generated[:end])


def test_what_only_one_token_continues_is_told_at_once(regex_guest):
    config = {"pattern": "xyz(a|b)"}
    assert regex_guest.answer(config, [], new=True) == (FAST_FORWARD, 3)
    assert regex_guest.allowed(config, list(b"xyz"), new=False) == {ord("a"), ord("b")}


def test_tokens_that_never_stand_for_text_are_never_allowed(guest_engine, regex_module):
    unknown, control, user, unused, byte = 2, 3, 4, 5, 6
    words = Words((b"a", b"a", b"", b"a", b"a", b"a"), bytes([unknown, unused, control, user, byte, 1]), 2)
    assert GrammarGuest(guest_engine, regex_module, words).allowed({"pattern": "a{1,2}"}) == {3, 4, 5}


def test_a_vocabulary_that_cannot_go_on_is_an_error_with_a_text(guest_engine, regex_module):
    guest = GrammarGuest(guest_engine, regex_module, Words.of([b"a", b"b"]))
    with pytest.raises(GuestRefusedError, match="no token of this model continues"):
        guest.allowed({"pattern": "ax"}, [0])


def test_without_an_end_token_an_answer_stops_where_nothing_follows(guest_engine, regex_module):
    guest = GrammarGuest(guest_engine, regex_module, Words.of([b"a", b"b"])._replace(eos=-1))
    assert guest.allowed({"pattern": "ab*"}, [0]) == {1}
    assert guest.allowed({"pattern": "ab"}, [0, 1]) == {-1}


REFUSED = {
    "(": ") at the end", ")": "no ) without its (", "a)": "no ) without its (", "[a": "] at the end", "[": "] at the end", "*": "a character, class or group before",
    "a**": "one quantifier", "a{2": "{m}, {m,} or {m,n}", "a{3,2}": "{m}, {m,} or {m,n}", "a{65535}": "at most 65534", "a{99999999999}": "at most 65534",
    "(?=a)": "a plain group", "(?P<n>a)": "a plain group", "(?i)a": "a plain group", r"\1": "an escape of the subset", r"\bword": "an escape of the subset",
    r"\p{L}": "an escape of the subset", "a\\": "a character after the backslash", "[z-a]": "a range from a lower", r"\xg0": "hexadecimal digits",
    "a^b": "a character, class or group before", "(" * 30 + "a" + ")" * 30: "fewer groups within groups", "((a{1000}){1000}){1000}": "too many",
    "(((){1000}){1000}){1000}": "too many repetitions", "(((a?){1000}){1000}){1000}": "too many", "(ab){65534}": "too many states", "((){65534}){65534}": "too many repetitions", "[^\\s\\S]": "some text fits", "a[^\\s\\S]": "some text fits",
}  # fmt: skip


@pytest.mark.parametrize("raw", REFUSED)
def test_what_is_not_in_the_subset_is_refused_in_words(raw, regex_guest):
    with pytest.raises(GuestRefusedError, match=re.escape(REFUSED[raw])):
        regex_guest.allowed({"pattern": raw})
    assert regex_guest.allowed({"pattern": "a"}) == {ord("a")}  # and the guest goes on


@pytest.mark.parametrize("config", [{}, {"pattern": 1}, {"other": "a"}, [], "a"])
def test_a_configuration_without_a_pattern_is_refused(config, regex_guest):
    with pytest.raises(GuestRefusedError, match="expected a configuration"):
        regex_guest.allowed(config)


HEAVY = [
    "(" * 24 + "a" + ")*" * 24,
    "(a?){1000}" * 60,
    "((a?){30}){30}",
    "(.?){1000}",
    "(a|b|ab|.){900}",
    "x" * 16000,
    "[^a]" * 4000,
    "(.*a){200}",
    "(.{0,300}a){0,100}",
]


@pytest.mark.parametrize("raw", HEAVY, ids=range(len(HEAVY)))
def test_heavy_patterns_are_served_or_refused_within_a_bound_of_instructions(raw, regex_guest):
    most = 0
    try:
        for length in range(6):
            regex_guest.allowed({"pattern": raw}, [ord("a")] * length, new=length == 0)
            most = max(most, regex_guest.spent)
    except GuestRefusedError as error:
        assert "too many" in str(error) or "fits the grammar" in str(error)  # noqa: PT017 -- either way is fine
    assert max(most, regex_guest.spent) < 100_000_000


def test_the_oracle_reads_patterns_as_pythons_engine_does():
    rng = random.Random(7)
    for raw in PATTERNS:
        compiled = re.compile(raw, re.ASCII)
        for _ in range(60):
            sample = "".join(rng.choice("abc01 .-é日\n") for _ in range(rng.randint(0, 5)))
            assert Read(pattern(raw)).take(sample.encode()).ends == bool(compiled.fullmatch(sample)), (raw, sample)
