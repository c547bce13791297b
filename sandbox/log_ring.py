"""What a guest has written into its log ring (struct sealhost_log), bounded and read when somebody asks.

    ring = LogRing(memory, layout.log)
    ring.news()     # text since the last time, at most 4 KiB of it

* The counter and the bytes are the guest's: any values of them are safe. The text is not escaped here; whoever shows
  it escapes it (README clause 4.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import abi

if TYPE_CHECKING:
    from .memory import GuestMemory

_COUNTER_RANGE = 1 << 32


class LogRing:
    """The ring of one instance.

    Args:
        memory: Of the guest.
        offset: Of its struct; 0: it has none.
    """

    __slots__ = ("_memory", "_offset", "_seen")

    def __init__(self, memory: GuestMemory, offset: int) -> None:
        self._memory = memory
        self._offset = offset
        self._seen = 0

    def news(self) -> str:
        """The text since the last time; it says how much of it the guest has overwritten."""
        if not self._offset:
            return ""
        written = self._written()
        count = (written - self._seen) % _COUNTER_RANGE
        self._seen = written
        if count <= abi.LOG_BYTES:
            return self._last(written, count).decode(errors="replace")
        lost = count - abi.LOG_BYTES
        return f"[{lost} bytes lost] " + self._last(written, abi.LOG_BYTES).decode(errors="replace")

    def tail(self, most: int) -> str:
        """The last `most` characters of what `news` would give."""
        return self.news()[-most:]

    def _written(self) -> int:
        return int.from_bytes(self._memory.read(self._offset, 4), "little")

    def _last(self, written: int, count: int) -> bytes:
        ring = self._memory.read(self._offset + 4, abi.LOG_BYTES)
        at = written % abi.LOG_BYTES
        return (ring[at:] + ring[:at])[abi.LOG_BYTES - count :]
