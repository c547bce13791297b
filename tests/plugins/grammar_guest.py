"""Runs a grammar guest by the letter of the ABI: its vocabulary, its configuration, the masks that it answers."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import wasmtime
from plugin_harness import CONTROL, NEW, NORMAL, SAMPLE, SAMPLER_FIELDS, GuestRefusedError, Instance

MASK, STOP, FAST_FORWARD = 4, 6, 8

PIECES = (
    b"ab", b"abc", b"aa", b"ba", b"01", b"12", b"00", b"123", b"-1", b"1.", b".5", b"e+", b"  ", b'{"', b'"}', b'":', b'": ',
    b'", "', b'","', b'": "', b"[]", b"[{", b"}]", b"]]", b"}}", b", ", b"tr", b"true", b"false", b"null", b"nul", b"name",
    b"age", b'"name', b'{"name":', b"\\n", b'\\"', b"\\u00", b"00e9", "é".encode(), "日本".encode(), "日".encode()[:2],
    "日".encode()[1:], "é".encode()[1:] + b"a", "😀".encode(), "😀".encode()[:3], b'"a', b'a"', b'"b":', b"\n", b"\t\t", b"ab",
)  # fmt: skip
"""Tokens beyond the 256 bytes: such that span symbols, such that end within a character, and one text twice."""


class Words(NamedTuple):
    """A vocabulary."""

    texts: tuple[bytes, ...]
    types: bytes
    eos: int

    @classmethod
    def of(cls, texts: Iterable[bytes]) -> Words:
        """Normal tokens, then an end and another control token."""
        found = tuple(texts)
        return cls((*found, b"", b""), bytes([NORMAL] * len(found) + [CONTROL, CONTROL]), len(found))

    def table(self) -> bytes:
        """struct sealhost_token_table and what it points at."""
        count = len(self.texts)
        offsets = np.array([0, *accumulate(map(len, self.texts))], "<u4").tobytes()
        types = self.types + bytes(-count % 8)
        offsets += bytes(-len(offsets) % 8)
        places = (32, 32 + len(types), 32 + len(types) + len(offsets))
        head = struct.pack("<2I3i3I", 32, count, -1, self.eos, -1, *places)
        texts = b"".join(self.texts)
        return head + types + offsets + texts + bytes(-len(texts) % 8)


SMALL = Words.of([*(bytes([byte]) for byte in range(256)), *PIECES])


class GrammarGuest(Instance):
    """A grammar sampler after `init`."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module, words: Words = SMALL) -> None:
        super().__init__(engine, module)
        self.words = words
        table = words.table()
        at = self.call("vocabulary", len(table))
        assert at
        self.write(at, table)
        assert self.call("init") == 0
        self.area = dict(zip(SAMPLER_FIELDS, self.layout(22), strict=True))

    def answer(self, config: object, generated: Sequence[int], *, new: bool) -> tuple[int, int]:
        """One step; the action and the count of the result."""
        raw = json.dumps(config, separators=(",", ":"), ensure_ascii=False).encode()
        flags = SAMPLE | (NEW if new else 0)
        numbers = (96, 0, flags, len(self.words.texts), 0, 0, 1, 1 + len(generated), 0, len(raw))
        self.write(self.area["rows"], struct.pack("<4I2Q4Ifi5f5I", *numbers, 1, 0, 1, 0, 1, 0, 0, *bytes(5)))
        self.write(self.area["config"], raw)
        self.write(self.area["history"], np.array([0, *generated], "<u4").tobytes())
        self.refuse(self.call("step", 1), self.area["error"], self.area["error_capacity"])
        _, action, _, count = struct.unpack("<4I", self.read(self.area["results"], 16))
        return action, count

    def allowed(self, config: object, generated: Sequence[int] = (), *, new: bool = True) -> set[int]:
        """Ids that may follow; with `new` as the first step of a request that begins with `generated`."""
        action, count = self.answer(config, generated, new=new)
        if action == STOP:
            return {self.words.eos}
        if action == FAST_FORWARD:
            return {int(np.frombuffer(self.read(self.area["answer"], 4), "<u4")[0])}
        assert (action, count) == (MASK, 0)
        size = (len(self.words.texts) + 31) // 32 * 4
        bits = np.unpackbits(np.frombuffer(self.read(self.area["answer"], size), "u1"), bitorder="little")
        return set(np.flatnonzero(bits).tolist())

    def refusal(self, config: object) -> str | None:
        """What the guest says when it refuses a configuration."""
        try:
            self.allowed(config)
        except GuestRefusedError as error:
            return str(error)
        return None

    def takes(self, config: object, text: bytes) -> bool:
        """Whether a text, told byte by byte, is one that the grammar ends."""
        return self.words.eos in self.allowed(config, list(text)) if self.begins(config, text) else False

    def begins(self, config: object, text: bytes) -> bool:
        """Whether a text, told byte by byte, is the beginning of one."""
        generated: list[int] = []
        for byte in text:
            if byte not in self.allowed(config, generated, new=not generated):
                return False
            generated.append(byte)
        return True
