"""A tokenizer in the sandbox (README §7).

    tokenizer.encode("Hello", add_special=True, parse_special=False)   # [1, 19556]

Thread-safe: each call runs in a fresh instance. Never call it on an event loop: it blocks for up to `encode_ms`.
"""

from __future__ import annotations

import time
from contextlib import closing
from functools import cached_property, partial
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from . import abi, integrity
from .admission import refusal
from .errors import GuestError, SandboxError
from .instance import Instance
from .layout import LayoutError, TokenizerLayout
from .limits import fuel_limit
from .record import PluginRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .instance import Program
    from .limits import Limits
    from .record import PluginStats
    from .vocabulary import Vocabulary

_CHECKED_TYPES = frozenset({abi.TokenType.NORMAL, abi.TokenType.BYTE})
"""Types whose bytes guest and host must agree on at load (7.1); encode's answers are checked for all."""


class TokenizerPlugin:
    """A loaded tokenizer.

    Args:
        name: Of the plugin.
        sha256: Hex digest of its wasm.
        program: The snapshot after `load`.
        layout: What the guest published, checked.
        vocabulary: The model's.
    """

    def __init__(
        self, name: str, sha256: str, program: Program, layout: TokenizerLayout, vocabulary: Vocabulary
    ) -> None:
        self.name = name
        self.sha256 = sha256
        self._program = program
        self._layout = layout
        self._vocabulary = vocabulary
        self._record = PluginRecord(name, program.engine.allowed, program.engine.clock)

    def stats(self) -> PluginStats:
        """What it did so far (clause 10.4)."""
        return self._record.stats()

    @property
    def limits(self) -> Limits:
        """Effective limits."""
        return self._program.limits

    @property
    def max_text_bytes(self) -> int:
        """Longest text that one call takes, in bytes of UTF-8."""
        return self._layout.input_capacity

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of a text.

        Args:
            text: Any text without lone surrogates.
            add_special: Add BOS / EOS as the vocabulary's flags say.
            parse_special: Turn control tokens spelled in the text into their ids; never for a user's text.

        Raises:
            GuestError: When the guest fails, its answer does not spell the text, the plugin is quarantined, or it has
                no place left.
            SandboxError: When the text is too long or holds lone surrogates.
        """
        if normalize := self._vocabulary.normalize:
            self._must_fit(len(text))  # characters, of which there are no more than bytes: it gets nothing longer
            text = normalize(text)
        raw = _utf8(text)
        self._must_fit(len(raw))
        flags = add_special * abi.EncodeFlag.ADD_SPECIAL | parse_special * abi.EncodeFlag.PARSE_SPECIAL
        with closing(self._record.admit()) as ticket:
            try:
                with Instance(self._program, self._record) as instance:  # clause 7.5
                    ids = self._run(instance, raw, int(flags))
                self._check(raw, ids, add_special=add_special, parse_special=parse_special)
            except GuestError as error:
                ticket.fail(error)
                raise
            ticket.prove()
        found: list[int] = ids.tolist()
        return found

    def _must_fit(self, size: int) -> None:
        capacity = self._layout.input_capacity
        if size > capacity:
            problem = f"expected at most {capacity} bytes of text, got {size}"
            raise SandboxError(
                f"plugin {self.name}", problem, "send less text, or use a tokenizer with a larger input area"
            )

    def _check(self, raw: bytes, ids: NDArray[np.uint32], *, add_special: bool, parse_special: bool) -> None:
        check = partial(
            integrity.check, self._vocabulary, raw, ids, add_special=add_special, parse_special=parse_special
        )
        found = check() and check(dropped=self._dropped)  # few texts hold such bytes
        if found is not None:
            raise GuestError(self.name, "invalid", f"encode: {found}")

    @cached_property
    def _dropped(self) -> bytes:
        """Looked for when it first matters: a pass over a large vocabulary costs some milliseconds."""
        return integrity.unspellable(self._vocabulary)

    def _run(self, instance: Instance, raw: bytes, flags: int) -> NDArray[np.uint32]:
        layout = self._layout
        instance.memory.write(layout.input, raw)
        count = instance.call("encode", len(raw), flags)
        capacity = layout.output_capacity // 4
        if count <= abi.ERROR:
            raise instance.guest_error("encode", count, layout.error, layout.error_capacity)
        if count < 0:
            problem = f"encode needs {-count} ids, and its output area holds {capacity}"
            raise GuestError(
                self.name, "error", problem, "send less text, or use a tokenizer with a larger output area"
            )
        if count > capacity:
            raise GuestError(self.name, "invalid", f"expected at most {capacity} ids, got {count}")
        return instance.memory.array(layout.output, count, np.uint32).copy()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        problem = f"expected Unicode text, got the lone surrogate U+{ord(text[error.start]):04X} at index {error.start}"
        raise SandboxError("text", problem, "send valid Unicode") from None


def load_vocabulary(instance: Instance, stream: bytes) -> TokenizerLayout:
    """Takes a first instance through `sealhost_tokenizer_v1`, `layout` and `load`.

    Args:
        instance: Fresh.
        stream: `Vocabulary.stream()`.

    Raises:
        AdmissionError: Clause 1.15.
        GuestError: When a call traps or takes too long.
    """
    name = instance.program.plugin
    minor = instance.call("sealhost_tokenizer_v1")
    if not 0 <= minor <= abi.ABI_MINOR:
        raise refusal(name, "1.14", f"expected ABI minor 0..{abi.ABI_MINOR}, got {minor}")
    layout = _layout(instance, name)
    limit = instance.program.limits.load_ms
    fuel = fuel_limit(limit, instance.program.engine.allowed.fuel_per_ms)
    deadline = time.monotonic() + limit / 1000
    spent = 0
    pieces = range(0, max(len(stream), 1), layout.input_capacity)
    for start in pieces:
        piece = stream[start : start + layout.input_capacity]
        instance.memory.write(layout.input, piece)
        status = instance.call("load", len(piece), int(start == pieces[-1]))
        if status != abi.Status.OK:
            raise _load_error(instance, layout, status)
        spent += instance.spent
        if time.monotonic() > deadline if fuel is None else spent > fuel:
            problem = f"load took longer than {limit} ms" if fuel is None else f"load spent its fuel of {fuel}"
            raise GuestError(name, "timeout", problem, "raise the limit, or fix the plugin")
    instance.memory.array(layout.input, layout.input_capacity, np.uint8)[:] = 0  # clause 5.1: not part of the state
    return layout


def _load_error(instance: Instance, layout: TokenizerLayout, status: int) -> GuestError:
    if status > abi.ERROR:
        return GuestError(instance.program.plugin, "invalid", f"expected status 0 from load, got {status}")
    return instance.guest_error("load", status, layout.error, layout.error_capacity)


def _layout(instance: Instance, name: str) -> TokenizerLayout:
    at = instance.call("layout") & 0xFFFFFFFF
    try:
        TokenizerLayout.check_offset(at, instance.memory.size)
        return TokenizerLayout.parse(instance.memory.read(at, abi.TOKENIZER_LAYOUT.size), at, instance.memory.size)
    except LayoutError as error:
        raise refusal(name, "1.15", str(error)) from None


def check_token_bytes(instance: Instance, layout: TokenizerLayout, vocabulary: Vocabulary) -> None:
    """Clause 7.1: the guest spells every normal and byte token as the host does.

    Raises:
        AdmissionError: Clause 1.16.
        GuestError: When a call traps or takes too long.
    """
    first = 0
    while first < len(vocabulary.texts):
        count = _batch(vocabulary, first, layout.output_capacity)
        written = instance.call("token_bytes", first, count)
        while count > 1 and abi.ERROR < written < 0:  # the guest counts more bytes than the host: ask for less
            count //= 2
            written = instance.call("token_bytes", first, count)
        _compare(instance, layout, vocabulary, first, count, written)
        first += count


def _batch(vocabulary: Vocabulary, first: int, capacity: int) -> int:
    """How many ids from `first` on fit the output area by the host's own table; at least 1."""
    room, count = capacity, 0
    for token in vocabulary.token_bytes[first : first + capacity // 4]:
        room -= 4 + len(token)
        if room < 0:
            break
        count += 1
    return max(count, 1)


def _compare(
    instance: Instance, layout: TokenizerLayout, vocabulary: Vocabulary, first: int, count: int, written: int
) -> None:
    name = instance.program.plugin
    if written <= abi.ERROR:
        raise instance.guest_error("token_bytes", written, layout.error, layout.error_capacity)
    if not 4 * count <= written <= layout.output_capacity:
        problem = (
            f"expected {4 * count}..{layout.output_capacity} bytes from token_bytes({first}, {count}), got {written}"
        )
        raise refusal(name, "1.16", problem)
    raw = instance.memory.read(layout.output, written)
    lengths = np.frombuffer(raw, dtype="<u4", count=count).astype(np.int64)
    ends = 4 * count + np.cumsum(lengths)
    if int(ends[-1]) != written:
        raise refusal(name, "1.16", f"expected token lengths that add up to {written}, got {int(ends[-1])}")
    start = 4 * count
    types = vocabulary.types[first : first + count].tolist()
    for token, kind, end in zip(range(first, first + count), types, ends.tolist(), strict=True):
        if kind in _CHECKED_TYPES and raw[start:end] != vocabulary.token_bytes[token]:
            _differ(name, token, vocabulary.token_bytes[token], raw[start:end])
        start = end


def _differ(name: str, token: int, expected: bytes, found: bytes) -> NoReturn:
    raise refusal(name, "1.16", f"expected id {token} to spell {expected[:64]!r}, got {found[:64]!r}")
