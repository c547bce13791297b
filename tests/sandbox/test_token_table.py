"""The vocabulary that a sampler may ask for: what stands in the table, and that each model's snapshot is its own."""

from __future__ import annotations

import dataclasses
import struct
from itertools import pairwise

import numpy as np
import pytest

from sealhost.sandbox import AdmissionError, SamplingParams
from sealhost.sandbox.token_table import token_table

TAKES = """(func (export "vocabulary") (param i32) (result i32) (global.set $size (local.get 0)) (i32.const 65536))
(global $size (mut i32) (i32.const 0)) (global $first (mut i32) (i32.const 0))
(func (export "init") (result i32) (global.set $first (i32.load8_u offset=65536 (i32.load offset=65564 (i32.const 0)))) (i32.const 0))
(func (export "step") (param i32) (result i32)
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
  (i32.store (i32.const 8328) (i32.load8_u offset=65536 (i32.load offset=65564 (i32.const 0)))) (i32.const 0))"""
"""Answers the first byte of the texts."""


def columns(table: bytes) -> tuple[tuple[int, ...], list[int], list[bytes]]:
    size, count, *ids, types, offsets, start = struct.unpack_from("<2I3i3I", table)
    assert size == 32
    assert types % 8 == offsets % 8 == start % 8 == len(table) % 8 == 0
    ends = np.frombuffer(table, "<u4", count + 1, offsets).tolist()
    texts = [table[start + a : start + b] for a, b in pairwise(ends)]
    return tuple(ids), list(table[types : types + count]), texts


def test_table_has_types_and_the_hosts_own_spellings(byte_vocabulary):
    ids, types, texts = columns(token_table(byte_vocabulary))
    assert ids == (256, 257, 258)
    assert types == byte_vocabulary.types.tolist()
    assert texts[:256] == [bytes([byte]) for byte in range(256)]
    assert texts[256:] == [b"", b"", b"<unk>", b"<unused>"]  # control tokens spell nothing


def test_each_vocabulary_has_a_snapshot_of_its_own(sandbox, build_guest, byte_vocabulary):
    other = dataclasses.replace(byte_vocabulary, token_bytes=(b"Z", *byte_vocabulary.token_bytes[1:]))
    guest = build_guest("sampler", TAKES)
    for vocabulary, first in ((byte_vocabulary, 0), (other, ord("Z"))) * 2:
        sampler = sandbox.load_sampler(guest, 260, vocabulary)
        assert sampler.takes_vocabulary
        with sampler.session(SamplingParams(), []) as session:
            assert session.step()[0].tokens == (first,)


def test_guest_that_asks_where_there_is_none_is_refused(sandbox, build_guest):
    with pytest.raises(AdmissionError, match="expected a vocabulary for a sampler that asks for it") as caught:
        sandbox.load_sampler(build_guest("sampler", TAKES), 260)
    assert caught.value.clause == "1.15"


def test_guest_that_does_not_ask_gets_none(sandbox, build_guest, byte_vocabulary):
    sampler = sandbox.load_sampler(build_guest("sampler"), 260, byte_vocabulary)
    assert not sampler.takes_vocabulary
    with sampler.session(SamplingParams(), []) as session:
        assert not session._instance.memory.read(65536, 65536).strip(b"\0")
