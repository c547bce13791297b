"""Text out of ids: UTF-8 at every border, stop texts that never leak."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sealhost.host.engine.detokenizer import StopScanner, TextStream, TokenTable


@pytest.fixture(scope="module")
def table(twin):
    return TokenTable(twin.House().vocabulary)


def spoken(table, ids, stop=()):
    """The pieces that a stream of these ids gives, and whether a stop text ended it."""
    stream = TextStream(table, stop)
    pieces = []
    for one in ids:
        text, stopped = stream.push(one)
        pieces.append(text)
        if stopped:
            return pieces, True
    return [*pieces, stream.finish()], False


@pytest.mark.parametrize(
    ("raw", "pieces"),
    [
        (b"A\xffB", ["A", "\ufffd", "B", ""]),
        (b"\xf0\x9f", ["", "", "\ufffd"]),
        (b"\xf0\x9f\x98\x80", ["", "", "", "😀", ""]),
        (b"\xc3A", ["", "\ufffdA", ""]),
        (b"\xe2\x82", ["", "", "\ufffd"]),
        (b"", [""]),
    ],
)
def test_bytes_become_characters_as_they_are_complete(table, raw, pieces):
    assert spoken(table, raw)[0] == pieces


@given(st.binary(max_size=60))
def test_pieces_joined_are_what_the_whole_decodes_to(table, raw):
    pieces, _ = spoken(table, raw)
    assert "".join(pieces) == raw.decode("utf-8", "replace")
    for end in range(len(raw)):  # no prefix ever holds half a character: what was said stays said
        incremental = codecs.getincrementaldecoder("utf-8")("replace")
        assert "".join(pieces[: end + 1]) == incremental.decode(raw[: end + 1])


def test_control_tokens_have_no_text(table, twin):
    assert spoken(table, [65, twin.SILENT, 66, twin.END])[0] == ["A", "", "B", "", ""]
    assert table.text([65, twin.SILENT, 0xC3, 66, 258]) == "A\ufffdB<u>"


@pytest.mark.parametrize(
    ("text", "stop", "expected", "stopped"),
    [
        ("The quick brown fox", ["own fox"], "The quick br", True),
        ("abcZZ", ["ZZZZ"], "abcZZ", False),
        ("axb", ["a.b"], "axb", False),
        ("a.b", ["a.b"], "", True),
        ("a$b", ["$"], "a", True),
        ("a[b", ["["], "a", True),
        ("x(?y", ["(?"], "x", True),
        ("one\\ntwo", ["\n"], "one\\ntwo", False),
        ("one\ntwo", ["\n"], "one", True),
        ("aaaab", ["aab"], "aa", True),
        ("ababac", ["abac"], "ab", True),
        ("xabcd", ["bc", "abc"], "x", True),
        ("xabcd", ["abcd", "bc"], "xa", True),
        ("Grüße 字", ["ße 字"], "Grü", True),
        ("abc", [], "abc", False),
        ("aab", ["ab", "aac"], "a", True),
    ],
)
def test_stops_are_literal_and_cut_where_they_begin(table, text, stop, expected, stopped):
    pieces, found = spoken(table, text.encode(), stop)
    assert ("".join(pieces), found) == (expected, stopped)


def reference(text: str, stops: list[str]) -> tuple[str, bool]:
    """The text before the stop that is complete first; of two complete at once, the longer."""
    for end in range(1, len(text) + 1):
        done = [stop for stop in stops if text[:end].endswith(stop)]
        if done:
            return text[: end - len(max(done, key=len))], True
    return text, False


SMALL = st.text("ab", min_size=1, max_size=4)


@given(st.lists(st.text("ab", max_size=4), max_size=12), st.lists(SMALL, min_size=1, max_size=3))
@example(["aa", "b"], ["ab"])
def test_any_stops_over_any_borders_agree_with_a_search_and_nothing_leaks(pieces, stops):
    scanner = StopScanner(stops)
    expected, found = reference("".join(pieces), stops)
    said = ""
    for piece in pieces:
        text, stopped = scanner.push(piece)
        said += text
        assert expected.startswith(said)
        if stopped:
            assert found
            break
    else:
        assert not found
        said += scanner.flush()
    assert said == expected


def test_a_stop_may_consist_of_the_mark_for_dead_bytes(table):
    pieces, _ = spoken(table, b"ab\xf0\x9f", ["\ufffd"])
    assert "".join(pieces) == "ab"


def test_a_long_stop_costs_little_for_each_character():
    scanner = StopScanner(["a" * 10_000 + "b"])
    said = "".join(scanner.push("a" * 100).text for _ in range(1000)) + scanner.flush()
    assert said == "a" * 100_000


@given(
    st.lists(st.tuples(st.sampled_from(b"EN\xe2\x82\xac\xf0\x9f\x98\x80x"), st.integers(0, 3)), max_size=40),
    st.sampled_from([(), ("END",), ("EEN", "€x")]),
)
def test_a_stream_that_went_back_goes_on_as_if_it_had_never_been_there(table, steps, stop):
    stream, marks, pieces, ids = TextStream(table, stop), [], [], []
    for one, back in steps:
        for _ in range(min(back, len(ids))):
            pieces.pop()
            ids.pop()
            stream.rewind(marks.pop())
        marks.append(stream.mark())
        text, stopped = stream.push(one)
        ids.append(one)
        pieces.append(text)
        if stopped:
            break
    else:
        pieces.append(stream.finish())
    assert pieces == spoken(table, ids, stop)[0]
