"""A small host of its own: runs guests by the letter of the ABI, with none of the sandbox's code.

Only the header's names and numbers appear here, so that a guest that passes works under any host that follows it.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field

import numpy as np
import wasmtime

ERROR = -0x40000000
FAR = 1 << 40
"""Ticks until an epoch deadline that never comes."""

FUEL = 20_000_000_000
"""Instructions of one call, far more than the slowest one here needs: a guest that loops for ever traps."""

ADD_SPECIAL, PARSE_SPECIAL = 1, 2
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

_BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]
_REST = [byte for byte in range(256) if byte not in _BYTES]
SPELLING = {byte: chr(byte) for byte in _BYTES} | {byte: chr(256 + i) for i, byte in enumerate(_REST)}


def spell(raw: bytes) -> str:
    """Bytes in the printable alphabet of byte-level BPE."""
    return "".join(SPELLING[byte] for byte in raw)


class GuestTrapError(Exception):
    """The guest trapped."""


class GuestRefusedError(Exception):
    """The guest answered an error status; args: status, text."""


class Instance:
    """One instance of a guest: its exports, its memory, its error text, and what its last call cost."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module) -> None:
        self.store = wasmtime.Store(engine)
        self.store.set_epoch_deadline(FAR)
        self._refuel()
        self.exports = wasmtime.Instance(self.store, module, []).exports(self.store)
        self.memory = self.exports["memory"]
        self.spent = 0

    def call(self, name: str, *arguments: int) -> int:
        self._refuel()
        try:
            return self.exports[name](self.store, *arguments)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            raise GuestTrapError(str(error)) from error
        finally:
            self.spent = self._burnt()

    def _refuel(self) -> None:
        self.store.set_fuel(FUEL)

    def _burnt(self) -> int:
        return FUEL - self.store.get_fuel()

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.memory.read(self.store, offset, offset + size))

    def write(self, offset: int, data: bytes) -> None:
        self.memory.write(self.store, data, offset)

    def layout(self, fields: int) -> tuple[int, ...]:
        return struct.unpack(f"<{fields}I", self.read(self.call("layout"), 4 * fields))

    def refuse(self, status: int, error: int, capacity: int) -> None:
        """Raises for a status at or below ERROR."""
        if status <= ERROR or status < 0:
            raise GuestRefusedError(status, self.read(error, capacity).split(b"\0")[0].decode())


@dataclass(frozen=True)
class VocabularyColumns:
    """What a vocabulary stream says, in columns."""

    texts: list[str]
    merges: list[str]
    pre: str = "gpt-2"
    model: str = "gpt2"
    types: list[int] = field(default_factory=list)
    flags: tuple[int, int, int, int] = (0, -1, -1, -1)
    scores: list[float] = field(default_factory=list)

    def stream(self) -> bytes:
        """The stream of sealhost.h."""
        types = self.types or [NORMAL] * len(self.texts)
        scores = np.array(self.scores or [0] * len(self.texts), "<f4")
        tokens = struct.pack("<I", len(self.texts)) + bytes(types) + scores.tobytes()
        parts = [self.model.encode(), self.pre.encode(), struct.pack("<Iiii", *self.flags)]
        parts += [tokens + texts_column(self.texts), struct.pack("<I", len(self.merges)) + texts_column(self.merges)]
        return b"".join(struct.pack("<II", tag, len(part)) + part for tag, part in enumerate(parts, 1))


def texts_column(texts: list[str]) -> bytes:
    """Offsets and bytes."""
    raw = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, raw)]).astype("<u4")
    return offsets.tobytes() + b"".join(raw)


class TokenizerGuest(Instance):
    """A tokenizer, loaded from a stream in pieces."""

    def __init__(self, engine, module, stream: bytes, piece: int = 1 << 20) -> None:
        super().__init__(engine, module)
        assert self.call("sealhost_tokenizer_v1") == 0
        size, _, self.input, self.input_capacity, self.output, self.output_capacity, self.error, self.error_size = (
            self.layout(8)
        )
        assert size == 32
        self.load(stream, piece)

    def load(self, stream: bytes, piece: int) -> None:
        pieces = [stream[i : i + piece] for i in range(0, len(stream), piece)] or [b""]
        for i, part in enumerate(pieces):
            self.write(self.input, part)
            self.refuse(self.call("load", len(part), int(i == len(pieces) - 1)), self.error, self.error_size)

    def encode(self, text: str | bytes, flags: int = 0) -> list[int]:
        raw = text.encode() if isinstance(text, str) else text
        self.write(self.input, raw)
        count = self.call("encode", len(raw), flags)
        self.refuse(count, self.error, self.error_size)
        return np.frombuffer(self.read(self.output, 4 * count), "<u4").tolist()

    def doublings(self, unit: str) -> list[float]:
        """How many times the fuel each doubling of a text costs that repeats `unit`, from 10,000 to 80,000 bytes.

        Fuel counts instructions: the same on every machine, however busy.
        """
        costs = []
        for size in (10_000, 20_000, 40_000, 80_000):
            self.encode(unit * (size // len(unit.encode())))
            costs.append(self.spent)
        return [later / earlier for earlier, later in itertools.pairwise(costs)]

    def token_bytes(self, first: int, count: int) -> list[bytes]:
        written = self.call("token_bytes", first, count)
        self.refuse(written, self.error, self.error_size)
        raw = self.read(self.output, written)
        ends = np.cumsum(np.frombuffer(raw[: 4 * count], "<u4")) + 4 * count
        starts = [4 * count, *ends[:-1]]
        return [raw[a:b] for a, b in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class Parameters:
    """A row's parameters as a request spells them; the row carries them as float32."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    prompt: tuple[int, ...] = ()
    generated: tuple[int, ...] = ()
    bias: tuple[tuple[int, float], ...] = ()
    random: int = 0
    second: int = 0
    config: bytes = b""

    @property
    def u(self) -> float:
        """The uniform number of the draw, in [0, 1)."""
        return (self.random >> 11) * 2.0**-53


NEW, ACCEPT, SAMPLE = 1, 2, 4
TOKEN = 1


SAMPLER_FIELDS = [
    *("size", "minor", "max_rows", "vocab_capacity", "logits", "logits_stride", "rows", "results"),
    *("history", "history_capacity", "bias", "bias_capacity", "config", "config_capacity", "error", "error_capacity"),
    *("candidates", "candidate_capacity", "answer", "answer_capacity", "log", "max_backtrack"),
]
"""The header's struct sealhost_sampler_layout, each a uint32."""


def token_table(words: list[bytes]) -> bytes:
    """The header's struct sealhost_token_table and its columns, of normal tokens that spell `words`."""
    count = len(words)
    offsets = 32 + -(-count // 8) * 8
    texts = offsets + -(-4 * (count + 1) // 8) * 8
    head = struct.pack("<IIiiiIII", 32, count, -1, -1, -1, 32, offsets, texts)
    column = np.cumsum([0, *map(len, words)]).astype("<u4").tobytes()
    return (
        (head + bytes([NORMAL]) * count).ljust(offsets, b"\0") + column.ljust(texts - offsets, b"\0") + b"".join(words)
    )


class SamplerGuest(Instance):
    """A sampler after `init`; `words`: what each id spells, for one that asks for it."""

    def __init__(self, engine, module, words: list[bytes] | None = None) -> None:
        super().__init__(engine, module)
        assert self.call("sealhost_sampler_v1") == 0
        if words is not None:
            table = token_table(words)
            self.write(self.call("vocabulary", len(table)), table)
        assert self.call("init") == 0
        self.area = dict(zip(SAMPLER_FIELDS, self.layout(22), strict=True))
        assert self.area["size"] == 88

    def write_row(
        self,
        logits: np.ndarray,
        parameters: Parameters,
        index: int = 0,
        flags: int = NEW | SAMPLE,
        told: tuple[int, ...] = (0, 0, 0, 0),
    ) -> None:
        """Writes one row and its areas; `told`: parent, taken_back, appended, backtrack_room."""
        history = [*parameters.prompt, *parameters.generated]
        row = struct.pack(
            "<4I2Q4Ifi5f5I",
            *(96, index, flags, len(logits), parameters.random, parameters.second),
            *(len(parameters.prompt), len(history), len(parameters.bias), len(parameters.config)),
            *(parameters.temperature, parameters.top_k),
            *(parameters.top_p, parameters.min_p, parameters.repetition, parameters.presence, parameters.frequency),
            *(0, *told),
        )
        area = self.area
        self.write(area["rows"] + 96 * index, row)
        self.write(area["logits"] + area["logits_stride"] * index, np.asarray(logits, "<f4").tobytes())
        self.write(area["history"] + 4 * area["history_capacity"] * index, np.array(history, "<u4").tobytes())
        bias = b"".join(struct.pack("<If", *pair) for pair in parameters.bias)
        self.write(area["bias"], bias)
        self.write(area["config"], parameters.config)

    def step(self, rows: int = 1) -> None:
        self.refuse(self.call("step", rows), self.area["error"], self.area["error_capacity"])

    def result(self, index: int = 0) -> int:
        size, action, token, reserved = struct.unpack("<4I", self.read(self.area["results"] + 16 * index, 16))
        assert (size, action, reserved) == (16, TOKEN, 0)
        return token

    def logits_of(self, index: int, count: int) -> bytes:
        return self.read(self.area["logits"] + self.area["logits_stride"] * index, 4 * count)

    def draw(self, logits, parameters: Parameters) -> int:
        self.write_row(logits, parameters)
        self.step()
        return self.result()
