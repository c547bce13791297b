"""The guest `json` under GBNF grammars: what is refused, in which words, and what hostile grammars cost."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
import wasmtime
from gbnf_grammars import GRAMMARS, JSON, REFUSED
from grammar_guest import SMALL, GrammarGuest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plugin_harness import GuestRefusedError

from sealhost.plugins import reference_plugin
from sealhost.sandbox.config_schema import MAX_CONFIG_BYTES

MOST_FUEL = 100_000_000
"""Instructions of one step: the bound of the other grammar guests' tests."""


@pytest.fixture(scope="module")
def guest(guest_engine):
    path = reference_plugin("sampler", "json") / "plugin.wasm"
    return GrammarGuest(guest_engine, wasmtime.Module(guest_engine, path.read_bytes()))


@pytest.mark.parametrize(("raw", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_grammar_is_refused_with_its_line_and_column(raw, text, guest):
    with pytest.raises(GuestRefusedError) as caught:
        guest.allowed({"grammar": raw})
    message = caught.value.args[1]
    assert text in message
    assert message.startswith("expected a grammar that" if text == "some text fits" else "grammar: line ")
    assert guest.allowed({"grammar": 'root ::= "a"'}) == {ord("a")}  # and the guest goes on


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, 'expected a configuration {"schema": ...} or {"grammar": "root ::= ..."}'),
        (
            {"schema": True, "grammar": 'root ::= "a"'},
            "expected a configuration with either schema or grammar, got both",
        ),
        ({"grammar": ["root"]}, "expected the grammar as a text, got another value"),
        ({"grammar": {}}, "expected the grammar as a text, got another value"),
    ],
)
def test_a_configuration_has_one_schema_or_one_grammar(config, text, guest):
    with pytest.raises(GuestRefusedError, match=re.escape(text)):
        guest.allowed(config)


def names(count: int) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return [a + b for a in letters for b in letters][:count]


def chain(count: int) -> str:
    """Rules that each name the next, in an order that is no help."""
    found = names(count)
    rules = [f"{a}::={b}" for a, b in pairwise(found)]
    return "\n".join([f"root::={found[0]}", *rules[::2], *rules[1::2][::-1], f"{found[-1]}::=[a]"])


def back_and_forth(count: int) -> str:
    """Rules that name the next and the one before; only the first one ends."""
    found = ["root", *names(count)]
    rules = [
        f"{here}::=[(]{after}[)]|[x]{before}" for before, here, after in zip(found, found[1:], found[2:], strict=False)
    ]
    return "\n".join([f"root::=[k]|[c]{found[1]}", *rules, f"{found[-1]}::=[y]{found[-2]}"])


def doubled(count: int) -> str:
    return "\n".join(["root::=a0", *(f"a{i}::=a{i + 1} a{i + 1}" for i in range(count)), f"a{count}::=[x]"])


HOSTILE = {
    "opened and never closed": "root::=" + "(" * 16_000,
    "nested as deep as a configuration holds": "root::=" + "(" * 8_000 + "[a]" + ")" * 8_000,
    "nested loops": "root::=" + "(" * 250 + "[a]" + ")*" * 250,
    "nested choices": "root::=" + "([a]|" * 250 + "[b]" + ")?" * 250,
    "quantifiers of quantifiers": "root::=[a]" + "*" * 16_000,
    "repetitions of repetitions": "root::=" + "(" * 100 + "[a]" + "){1000}" * 100,
    "choices of repetitions of repetitions": "root::=" + "(" * 100 + "[a]?" + "){0,1000}" * 100,
    "repetitions of many bytes": "root::=" + "[^a]{2000}" * 100,
    "nothing, again and again": "root::=" + "()*" * 5_000,
    "nothing but alternatives": "root::=" + "|" * 16_000,
    "optional parts": "root::=" + "[a]?" * 4_000,
    "loops": "root::=" + "[a]*" * 4_000,
    "loops of anything": "root::=" + ".*" * 8_000,
    "a long literal": 'root::="' + "x" * 16_000 + '"',
    "a long name": "root::=" + "x" * 16_000,
    "long names": "\n".join(["root::=" + "a" * 4_000, "a" * 4_000 + "::=" + "b" * 4_000, "b" * 4_000 + "::=[a]"]),
    "thousands of rules": chain(1_700),
    "thousands of names": "root::=" + " ".join(names(3_844)),
    "rules back and forth": back_and_forth(770),
    "doubled rules": doubled(900),
    "doubled rules that fit": doubled(80),
    "a small rule, used everywhere": "a::=[b-y]{9}|[^a]|[a][c]\nroot::=" + " ".join("a" * 8_000),
    "left recursion of many rules": "root::=a0\n" + "\n".join(f"a{i}::=a{i + 1}" for i in range(900)) + "\na900::=root",
    "a large class": "root::=[" + "".join(chr(0x4E00 + 7 * i) for i in range(500, 0, -1)) + "]{9}",
    "large classes": "root::=" + "".join("[" + "".join(chr(0x4E00 + 3 * i + j) for i in range(500, 0, -1)) + "]" for j in range(10)),
    "too large a class": "root::=[" + "".join(chr(0x4E00 + 2 * i) for i in range(600)) + "]",
    "many alternatives": "root::=" + "|".join(f"[{a}][{b}]" for a in "abcdefghijklm" for b in names(100)),
    "as many readings as texts": "root::=[a]root root root|[a]|[a]root|[a]root root",
    "lists in the middle": "root::=[a]root?[b]?|[b]",
    "overlapping loops": "root::=((.*[a]){100}){100}",
    "counted anything": "root::=(.{0,300}[a]){0,100}",
    "comments": "#" * 16_000,
    "line breaks": "\n" * 8_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_grammars_are_served_or_refused_within_a_bound_of_instructions(name, guest):
    raw, most = HOSTILE[name], 0
    config = {"grammar": raw}
    assert len(json.dumps(config, ensure_ascii=False, separators=(",", ":")).encode()) <= MAX_CONFIG_BYTES
    try:
        for length in range(6):
            guest.allowed(config, [ord("a")] * length, new=length == 0)
            most = max(most, guest.spent)
    except GuestRefusedError as error:
        words = ("too many", "got more", "fits", "defined", "expected ) at", "left recursion", "root")
        assert any(word in str(error) for word in words)  # noqa: PT017 -- either way is fine
    assert max(most, guest.spent) < MOST_FUEL


def test_sixty_thousand_parentheses_do_not_reach_the_guest():
    from sealhost.sandbox import SandboxError
    from sealhost.sandbox.config_schema import serialised

    with pytest.raises(SandboxError, match=f"expected at most {MAX_CONFIG_BYTES} bytes"):
        serialised({"grammar": "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000})


PIECES = [
    *'()[]{}|*+?."\\#^-,:=<>!\n\t\r 019aé日😀\0\x7f',
    "root",
    "::=",
    "root ::= ",
    "{2}",
    "{1,3}",
    "{0,",
    '"a"',
    "[^a]",
    "\\u00",
    "\\x0",
    "(|",
    "#x\n",
    "\nb ::= ",
]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=60).map(lambda s: "root ::= " + s)
)
@example("root ::= [" + "é" * 8_000)
def test_no_text_makes_the_guest_trap(guest, raw):
    served(guest, raw)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damaged_grammar_makes_the_guest_trap(guest, data):
    raw = data.draw(st.sampled_from([*GRAMMARS, JSON]))
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, min(len(raw), start + 8)))
    served(guest, raw[:start] + data.draw(st.lists(st.sampled_from(PIECES), max_size=4).map("".join)) + raw[end:])


def served(guest: GrammarGuest, raw: str) -> None:
    """Some steps: a trap is an error of its own, and fuel is bounded."""
    generated: list[int] = []
    try:
        for _ in range(4):
            allowed = guest.allowed({"grammar": raw}, generated, new=not generated)
            assert allowed
            assert guest.spent < MOST_FUEL
            if allowed == {SMALL.eos}:
                return
            generated.append(min(allowed - {SMALL.eos}))
    except GuestRefusedError as error:
        assert re.match(r"(grammar: line \d+, column \d+: )?expected ", str(error.args[1]))  # noqa: PT017 -- either way is fine
    assert guest.spent < MOST_FUEL
