"""A recording of one sampler session: everything that a guest was given and what it decided (README §11).

    plugin.record(Recorder(file))                # the next session of this plugin writes there
    …
    with path.open("rb") as file:
        recording = Recording(file, where=str(path))
        for event, rows in recording.events(): …

Rules
* The file is text but for the logits: a first line, a head, then one line for each call of the host, in their order;
  the line of a step is followed by its rows of logits as little-endian float32.
* Writing is bounded in bytes; reading trusts nothing: lines, counts and sizes are bounded, and fields are typed.
"""

from __future__ import annotations

import dataclasses
from typing import IO, TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from ..signing.errors import Code
from . import abi
from .errors import GuestError, SandboxError
from .params import SamplingParams
from .session import SamplerSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from .decision import Decision
    from .instance import Instance
    from .record import Ticket
    from .terms import Guest, Terms

MAGIC: Final = b"sealhost recording v1\n"
MAX_RECORDING_BYTES: Final = 256 << 20
"""Of a file that is written: 1,300 steps of a 49k vocabulary."""
MAX_LINE_BYTES: Final = 4 << 20
"""Of a line that is read: a prompt of 131,072 ids takes 1 MiB."""

_WHOLE: Final = frozenset({"top_k", "seed"})

Id = Annotated[int, Meta(ge=0, lt=1 << 32)]
Choice = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Slots = Annotated[list[Annotated[int, Meta(ge=0, lt=abi.MAX_ROWS)]], Meta(max_length=abi.MAX_ROWS)]


class Head(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a session began with.

    Attributes:
        plugin: Its name.
        sha256: Hex digest of its module.
        tier: As its manifest says.
        vocab_size: Logits of a row.
        choices: Which choice each slot serves.
        params: The request's parameters by the names of `SamplingParams`; -inf is the text "-inf".
        config: What the guest got.
        prompt: Ids.
    """

    plugin: str
    sha256: str
    tier: str
    vocab_size: Annotated[int, Meta(ge=1, le=abi.MAX_VOCABULARY)]
    choices: Annotated[list[Choice], Meta(min_length=1, max_length=abi.MAX_ROWS)]
    params: dict[str, int | float | list[tuple[Id, int | float | Literal["-inf"]]]]
    config: str
    prompt: list[Id]


class Event(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One call of the host.

    Attributes:
        call: Its name; "full" when the recording has reached its bound and says no more.
        slots: Of prepare and step; of accept and close_slot the one.
        decisions: Of a step, one for each slot: tokens, ids taken back, whether the choice ended.
        failed: Kind of the GuestError that the call ended with.
        tokens: Of accept.
        backtrack: Of accept.
    """

    call: Literal["prepare", "step", "accept", "close_slot", "reset", "full"]
    slots: Slots = []
    decisions: list[tuple[list[Id], Id, bool]] = []
    failed: str = ""
    tokens: list[Id] = []
    backtrack: Id = 0


class Recorder:
    """Writes a recording.

    Args:
        file: Open for writing bytes; closed with the session.
        most: Bytes after which it says no more.
    """

    def __init__(self, file: IO[bytes], most: int = MAX_RECORDING_BYTES) -> None:
        self._file = file
        self._left = most
        self._is_full = False

    def begin(self, head: Head) -> None:
        """Writes the first lines."""
        self._put(MAGIC + msgspec.json.encode(head) + b"\n")

    def note(self, event: Event, rows: Sequence[NDArray[np.float32]] = ()) -> None:
        """Writes a call and its rows of logits.

        Raises:
            SandboxError: E_IO, when the file cannot be written.
        """
        if self._is_full:
            return
        data = msgspec.json.encode(event) + b"\n" + b"".join(row.astype("<f4").tobytes() for row in rows)
        if len(data) > self._left:
            self._is_full = True
            data = msgspec.json.encode(Event(call="full")) + b"\n"
        self._left -= len(data)
        self._put(data)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _put(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            problem = f"cannot write: {error.strerror or error}"
            raise SandboxError("recording", problem, "check the path, the rights and the space", Code.IO) from error


def head_of(plugin: str, sha256: str, tier: str, vocab_size: int, terms: Terms) -> Head:
    """The head of a session's recording.

    Raises:
        SandboxError: When its configuration is no text.
    """
    try:
        config = terms.config.decode()
    except UnicodeDecodeError:
        problem = "expected a configuration in UTF-8, got other bytes"
        raise SandboxError("recording", problem, "record a request with a JSON configuration") from None
    params = dataclasses.asdict(terms.params)
    params["logit_bias"] = [(token, bias if bias > -np.inf else "-inf") for token, bias in terms.params.logit_bias]
    return Head(
        plugin=plugin,
        sha256=sha256,
        tier=tier,
        vocab_size=vocab_size,
        choices=list(terms.choices),
        params=params,
        config=config,
        prompt=terms.prompt.tolist(),
    )


class RecordedSession(SamplerSession):
    """A session that writes down what happens.

    Args:
        begun: What a session is made of: instance, guest, terms and ticket.
        recorder: Where it is written; closed with the session.
        head: Of the recording.
    """

    def __init__(self, begun: tuple[Instance, Guest, Terms, Ticket], recorder: Recorder, head: Head) -> None:
        super().__init__(*begun)
        self._recorder = recorder
        try:
            recorder.begin(head)
        except SandboxError:
            super().close()
            raise

    def prepare(self, slots: Sequence[int]) -> None:
        """As `SamplerSession.prepare`."""
        try:
            super().prepare(slots)
        except GuestError as error:
            self._recorder.note(Event(call="prepare", slots=list(slots), failed=error.kind))
            raise
        self._recorder.note(Event(call="prepare", slots=list(slots)))

    def step(self, slots: Sequence[int] = (0,)) -> list[Decision]:
        """As `SamplerSession.step`."""
        rows = [self.logits(slot).copy() for slot in slots]  # before the guest can edit them
        try:
            found = super().step(slots)
        except GuestError as error:
            self._recorder.note(Event(call="step", slots=list(slots), failed=error.kind), rows)
            raise
        decisions = [(list(one.tokens), one.backtrack, one.stop) for one in found]
        self._recorder.note(Event(call="step", slots=list(slots), decisions=decisions), rows)
        return found

    def accept(self, slot: int, tokens: Sequence[int], backtrack: int = 0) -> None:
        """As `SamplerSession.accept`."""
        super().accept(slot, tokens, backtrack)
        self._recorder.note(Event(call="accept", slots=[slot], tokens=list(tokens), backtrack=backtrack))

    def close_slot(self, slot: int) -> None:
        """As `SamplerSession.close_slot`."""
        super().close_slot(slot)
        self._recorder.note(Event(call="close_slot", slots=[slot]))

    def reset(self) -> None:
        """As `SamplerSession.reset`."""
        super().reset()
        self._recorder.note(Event(call="reset"))

    def close(self) -> None:
        """As `SamplerSession.close`; the recording ends here."""
        super().close()
        self._recorder.close()


class Recording:
    """Reads a recording.

    Args:
        file: Open for reading bytes.
        where: Its name, for messages.

    Raises:
        SandboxError: E_PARSE, when it is no recording.
    """

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file = file
        self._where = where
        if file.read(len(MAGIC)) != MAGIC:
            raise self._refusal("expected a recording of version 1, got another file")
        line = self._line()
        if line is None:
            raise self._refusal("expected a head, got the end of the file")
        try:
            self.head = msgspec.json.decode(line, type=Head)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._refusal(f"expected a head, got: {error}") from None

    def params(self) -> SamplingParams:
        """The request's parameters.

        Raises:
            SandboxError: When one is not there or out of its range.
        """
        known = {field.name for field in dataclasses.fields(SamplingParams)}
        if unknown := self.head.params.keys() - known:
            raise self._refusal(f"expected parameters that there are, got {', '.join(sorted(unknown))}")
        given = dict(self.head.params)
        pairs = given.pop("logit_bias", [])
        wrong = [
            name for name, value in given.items() if not isinstance(value, int if name in _WHOLE else (int, float))
        ]
        if wrong or not isinstance(pairs, list):
            raise self._refusal(f"expected numbers, and pairs as logit_bias, got otherwise for {wrong or 'logit_bias'}")
        bias = tuple((token, -np.inf if value == "-inf" else float(value)) for token, value in pairs)
        return SamplingParams(**given, logit_bias=bias)  # type: ignore[arg-type]  # numbers, checked there

    def events(self) -> Iterator[tuple[Event, list[NDArray[np.float32]]]]:
        """The calls in their order, each with the rows of logits of its slots, if it is a step.

        Raises:
            SandboxError: E_PARSE, when a line or a row is not what it must be.
        """
        while (line := self._line()) is not None:
            try:
                event = msgspec.json.decode(line, type=Event)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self._refusal(f"expected a call, got: {error}") from None
            rows = [self._row() for _ in event.slots] if event.call == "step" else []
            yield event, rows

    def _row(self) -> NDArray[np.float32]:
        size = 4 * self.head.vocab_size
        data = self._file.read(size)
        if len(data) < size:
            raise self._refusal(f"expected a row of {size} bytes, got {len(data)} before the end of the file")
        return np.frombuffer(data, "<f4").astype(np.float32, copy=False)

    def _line(self) -> bytes | None:
        line = self._file.readline(MAX_LINE_BYTES)
        if not line:
            return None
        if not line.endswith(b"\n"):
            raise self._refusal("expected whole lines of at most 4 MiB, got the end of the file or a longer one")
        return line

    def _refusal(self, problem: str) -> SandboxError:
        return SandboxError(self._where, problem, "make a new recording", Code.PARSE)
