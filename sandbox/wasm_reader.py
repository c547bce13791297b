r"""A cursor over the bytes of a WebAssembly module that never leaves them.

Every read is checked against the end; every integer against its width; every count against its bound (clause 1.2).

    reader = Reader(b"\x05hello")
    reader.name()  # "hello"
"""

from __future__ import annotations


class MalformedError(Exception):
    """Bytes that are not the module they claim to be; admission turns it into a refusal.

    Args:
        problem: "expected X, got Y".
        clause: The clause of README §1 that the bytes break.
    """

    def __init__(self, problem: str, clause: str = "1.2") -> None:
        self.problem = problem
        self.clause = clause
        super().__init__(problem)


class Reader:
    """Reads `data[position:end]`.

    Args:
        data: The whole module; offsets in messages are its own.
        position: First byte to read.
        end: One past the last byte.
    """

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.position == self.end

    def byte(self) -> int:
        """One byte."""
        if self.position >= self.end:
            raise MalformedError(f"expected a byte at offset {self.position}, got the end of its section")
        value = self.data[self.position]
        self.position += 1
        return value

    def take(self, count: int) -> bytes:
        """`count` bytes."""
        start = self.position
        self.skip(count)
        return self.data[start : self.position]

    def skip(self, count: int) -> None:
        """Moves on by `count` bytes."""
        if count > self.end - self.position:
            left = self.end - self.position
            raise MalformedError(f"expected {count} bytes at offset {self.position}, got {left}")
        self.position += count

    def unsigned(self, bits: int = 32) -> int:
        """An unsigned LEB128 integer of at most `bits` bits, in at most ceil(bits / 7) bytes."""
        start, value, shift = self.position, 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise MalformedError(f"expected a {bits}-bit integer at offset {start}, got a longer one")
        if value >> bits:
            raise MalformedError(f"expected a {bits}-bit integer at offset {start}, got {value}")
        return value

    def signed(self, bits: int) -> int:
        """A signed LEB128 integer of `bits` bits."""
        start, value, shift = self.position, 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise MalformedError(f"expected a {bits}-bit integer at offset {start}, got a longer one")
        if byte & 0x40:
            value -= 1 << shift
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise MalformedError(f"expected a signed {bits}-bit integer at offset {start}, got {value}")
        return value

    def count(self, limit: int, what: str, clause: str = "1.2") -> int:
        """The length of a vector, at most `limit`."""
        value = self.unsigned()
        if value > limit:
            raise MalformedError(f"expected at most {limit} {what}, got {value}", clause)
        return value

    def name(self) -> str:
        """A length-prefixed UTF-8 string."""
        raw = self.take(self.unsigned())
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise MalformedError(f"expected a name in UTF-8 before offset {self.position}, got other bytes") from None

    def sub(self, length: int) -> Reader:
        """A reader of the next `length` bytes, which this one skips."""
        start = self.position
        self.skip(length)
        return Reader(self.data, start, self.position)

    def finish(self, what: str) -> None:
        """Requires that nothing is left."""
        if not self.at_end:
            raise MalformedError(f"expected the end of {what} at offset {self.position}, got more bytes")
