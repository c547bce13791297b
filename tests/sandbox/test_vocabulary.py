"""What a vocabulary's digest covers: everything that a snapshot depends on."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

CHANGES = {
    "model": "llama",
    "pre": "words",
    "texts": lambda v: (b"\xff", *v.texts[1:]),
    "types": lambda v: np.where(np.arange(len(v.types)) == 7, np.uint8(6), v.types),
    "scores": lambda v: v.scores + np.float32(1),
    "merges": (b"a c",),
    "bos": 1,
    "eos": 1,
    "unknown": -1,
    "add_bos": False,
    "add_eos": True,
    "add_space_prefix": True,
    "token_bytes": lambda v: (b"\xff", *v.token_bytes[1:]),
}


def test_equal_vocabularies_have_one_digest(byte_vocabulary):
    assert replace(byte_vocabulary).digest == byte_vocabulary.digest
    assert len(byte_vocabulary.digest) == 32


@pytest.mark.parametrize("name", CHANGES)
def test_digest_covers(byte_vocabulary, name):
    change = CHANGES[name]
    changed = replace(byte_vocabulary, **{name: change(byte_vocabulary) if callable(change) else change})
    assert changed.digest != byte_vocabulary.digest


def test_digest_covers_every_field_but_the_normaliser(byte_vocabulary):
    """The guest never sees what comes before it."""
    assert {field.name for field in fields(byte_vocabulary)} - {"normalize"} == set(CHANGES)


def test_digest_tells_where_one_string_ends_and_the_next_begins(byte_vocabulary):
    one, other = (replace(byte_vocabulary, merges=merges) for merges in ((b"a b", b"c d"), (b"a bc", b" d")))
    assert one.digest != other.digest


def test_digest_tells_no_scores_from_those_that_only_equal_zero(byte_vocabulary):
    """A column of zeros is not hashed; the stream holds bits, so bits decide which one that is."""
    zeros = np.zeros(len(byte_vocabulary.scores), np.float32)
    none, negative = (replace(byte_vocabulary, scores=scores) for scores in (zeros, -zeros))
    assert none.stream() != negative.stream()
    assert none.digest != negative.digest


class Hashed(tuple):  # noqa: SLOT001 — as the host makes them
    sha256 = b"#" * 32


@pytest.mark.parametrize("name", ["texts", "merges", "token_bytes"])
def test_the_hash_that_a_column_carries_stands_for_its_strings_and_for_nothing_else(byte_vocabulary, name):
    strings = getattr(byte_vocabulary, name)
    hashed, again, cut = (
        replace(byte_vocabulary, **{name: column}) for column in (Hashed(strings), Hashed(strings), Hashed(strings)[:])
    )
    other = type("Other", (tuple,), {"sha256": b"+" * 32})(strings)
    assert hashed.digest == again.digest != byte_vocabulary.digest
    assert replace(byte_vocabulary, **{name: other}).digest != hashed.digest
    assert cut.digest == byte_vocabulary.digest
    assert hashed.stream() == byte_vocabulary.stream()
