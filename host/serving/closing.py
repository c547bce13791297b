"""A connection whose client can still read the last answer, although it has not sent all that it wanted to.

Rules (clause 5.19 of host/README.md)
* A system resets a connection that is closed while bytes of its client are unread, and what the client has not read by
  then is lost. So a close amid a request goes in stages, as RFC 9112 (9.6) has it: our sending side first; then what
  still comes is dropped; and when the client closes too, or its time or MAX_DROPPED_BYTES are used up, the rest.
* Any other close is one at once, and so is a second one.

Example:
    transport = StagedTransport(transport, is_amid=lambda: cycle.more_body, lingers=start_clock)
    transport.close()
    transport.drop(len(data))
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DROPPED_BYTES: Final = 64 << 20
"""Bytes that are read for nothing: eight of the largest bodies, some 20 ms of the event loop."""


class StagedTransport(asyncio.Transport):
    """What a protocol uses of a transport, with a close in stages.

    Args:
        transport: The real one; it must be able to close its sending side.
        is_amid: Whether the client still owes a part of its request.
        lingers: Called when the second stage begins; whoever made this ends it in time, by `abort`.

    Attributes:
        is_lingering: Whether what comes is to be dropped.
    """

    def __init__(
        self, transport: asyncio.Transport, *, is_amid: Callable[[], bool], lingers: Callable[[], None]
    ) -> None:
        super().__init__()
        self._transport = transport
        self._is_amid = is_amid
        self._lingers = lingers
        self._dropped = 0
        self.is_lingering = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """As the real one."""
        self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        """As the real one, bytes."""
        return self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self.is_lingering or self._transport.is_closing()

    def abort(self) -> None:
        """As the real one."""
        self._transport.abort()

    def close_now(self) -> None:
        """Closes it when all that was written is out."""
        self._transport.close()

    def close(self) -> None:
        """Closes it, in stages if its client may be sending."""
        if self._is_amid():
            self.linger()
        else:
            self.close_now()

    def linger(self) -> None:
        """Closes it in stages; at once if that has begun."""
        if self.is_closing():
            self.close_now()
            return
        self._transport.write_eof()
        self.is_lingering = True
        self._lingers()

    def forget(self) -> None:
        """It is lost: lets go of whoever made this, which would wait for the garbage collector otherwise."""
        self._is_amid, self._lingers = bool, lambda: None

    def drop(self, size: int) -> None:
        """So many bytes came while it lingers."""
        self._dropped += size
        if self._dropped > MAX_DROPPED_BYTES:
            self.abort()
