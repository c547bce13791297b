"""HTTP/1.1 with bounds that uvicorn's fast parser does not have by itself.

Rules (clause 5.8 of host/README.md)
* The head of a request is at most MAX_HEAD_BYTES and arrives within HEAD_SECONDS; beyond either the connection ends.
* A client that does not read its answer loses its connection: otherwise the answer would hold memory and its model
  for ever. So do some clients when the answers of all of them pile up, see `unread`.
* Whenever a client owes bytes, a clock runs: for a head, for the rest of a body that was answered before it had
  arrived, for the next request. Sending anything else, such as empty lines, does not stop it.
* The number of connections is limited, see `connections`.
* An offer to upgrade is declined by answering in HTTP/1.1, as RFC 9110 (7.8) has it, and its body is read: clients in
  Java offer HTTP/2 with every first request unless told otherwise.
* What is no HTTP gets 400 in the one shape that all errors have, and no line in the log. That includes a request
  without exactly one valid Host, as RFC 9112 (3.2) has it: proxies that read another one are how requests are smuggled.
* Where an answer ends the connection, its client can read it although it is still sending, see `closing`.

Example:
    uvicorn.Config(app, http=partial(BoundedHttp, crowd=Crowd(1000), unread=UnreadBytes()))
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .closing import StagedTransport
from .connections import Crowded
from .refusal import error_object

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from .connections import Crowd
    from .unread import UnreadBytes

MAX_HEAD_BYTES = 64 << 10
"""Bytes of a request line and its headers, together with what is read of the body at the same time."""

HEAD_SECONDS = 30
"""Seconds from the connection, or from the first byte of a further request, to the end of the head; and for the rest of
a request that was answered without it."""

READ_SECONDS = 60
"""Seconds in which a client that lets more pile up than the system's buffers hold must read MIN_READ_BYTES."""

MIN_READ_BYTES = 64 << 10
"""1 KiB a second, no line is as slow; the system takes more only when a third of its own buffer is free."""

MAX_REASON = 200
"""Letters of what the parser says: some of it may be the client's."""

_UPGRADING = frozenset((b"upgrade", b"connection", b"http2-settings"))
"""Headers that go with an offer to upgrade; of Connection, `close` stays."""


_HOST: Final = re.compile(rb"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*")
"""Letters of a host and its port in RFC 3986; it may be empty."""


class _BadHeadError(Exception):
    """A head that no request can have; its text is for the client."""


class BoundedHttp(HttpToolsProtocol):
    """One connection.

    Args:
        crowd: The server's others.
        unread: Those of them whose clients read too slowly.
        args, kwargs: uvicorn's.
    """

    transport: StagedTransport

    def __init__(self, *args: Any, crowd: Crowd, unread: UnreadBytes, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._crowd = crowd
        self._unread = unread
        self._head_bytes = 0
        self._in_head = True
        self._running: RequestResponseCycle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """Finds a place among the others, and starts the clock."""
        super().connection_made(transport)
        self.transport = StagedTransport(transport, is_amid=self._is_amid_request, lingers=self._linger)
        self._expect_head()
        is_spare = self._crowd.enter(self)
        if is_spare is None:
            transport.abort()
        elif is_spare:
            self.app = Crowded(self.app, self._crowd)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clocks."""
        self._crowd.leave(self)
        self._abandon()
        self._stop_clock()
        self._reader_goes_on()
        super().connection_lost(exc)
        self.transport.forget()

    def pause_writing(self) -> None:
        """More piles up than the client reads."""
        super().pause_writing()
        self._watch_reader()
        self._unread.piles_up(self)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._reader_goes_on()
        super().resume_writing()

    @property
    def unread_bytes(self) -> int:
        """What was handed over and the system has not taken."""
        return self.transport.get_write_buffer_size()

    def cut(self) -> None:
        """Ends it at once: its client reads too slowly."""
        self.transport.abort()

    def hang_up(self) -> bool:
        """Gives way to another, as soon as the end of an answer is read; whether there was none."""
        self._close()
        if not self.transport.get_write_buffer_size():
            return True
        self.loop.call_later(READ_SECONDS, self.transport.abort)
        return False

    def timeout_keep_alive_handler(self) -> None:
        """Ends an idle connection, also one whose client has left the end of an answer unread."""
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def on_message_begin(self) -> None:
        """A further request on the connection."""
        super().on_message_begin()
        if not self._in_head:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """The head has arrived; one that offers to upgrade is read again without that, see `_decline_upgrade`."""
        if self.parser.should_upgrade():
            return
        _check_host([value for name, value in self.headers if name == b"host"], self.parser.get_http_version())
        self._in_head = False
        self._stop_clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The client owes nothing more for this request."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        if self._owes_request():
            self._stop_clock()  # of a body that came after its answer
        else:
            self._crowd.works(self)

    def on_response_complete(self) -> None:
        """The client owes the next request, and first what is left of this one."""
        super().on_response_complete()
        if self._owes_request():
            self._crowd.waits(self)
            if self.cycle.more_body:
                self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Counts the head's bytes; drops what comes after the last answer."""
        if self.transport.is_lingering:
            self.transport.drop(len(data))
            return
        self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"expected a head of at most {MAX_HEAD_BYTES} bytes, got more; send less")
        elif not self._in_head:
            self._head_bytes = 0
        if self._owes_request() and self._deadline is None and self.timeout_keep_alive_task is None:
            self._expect_head()  # bytes before a request line, which have stopped uvicorn's clock

    def send_400_response(self, msg: str) -> None:
        """Answers what could not be read, but not in the middle of another answer, and closes the connection."""
        if (one := self._running) is not None and one.response_started and not one.response_complete:
            self._close()
            return
        body = msgspec.json.encode(error_object(msg, code="bad_request"))
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.linger()
        self._abandon()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offered:
            self._decline_upgrade(data[offered.args[0] :])
        except httptools.HttpParserCallbackError as error:
            bad_target = "expected a path below 64 KiB and HTTP/1.1 in the request line; check the client"
            reason = error.__context__
            self.send_400_response(str(reason) if isinstance(reason, _BadHeadError) else bad_target)
        except httptools.HttpParserError as error:
            self.send_400_response(f"expected a request in HTTP/1.1: {error}; check the client"[:MAX_REASON])

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads a head again without its offer, and then its body, which the parser took for another protocol's."""
        method = self.parser.get_method()
        if method == b"CONNECT":  # an upgrade to the parser, too
            self.send_400_response("expected a request that is no CONNECT, this is no proxy; check the client")
            return
        kept = [(name, value) for name, value in self.headers if name not in _UPGRADING]
        if any(name == b"connection" and b"close" in value.lower() for name, value in self.headers):
            kept.append((b"connection", b"close"))
        lines = [b"%b %b HTTP/1.1" % (method, self.url), *(b"%b: %b" % one for one in kept), b"", b""]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self._parse(b"\r\n".join(lines) + rest)

    def _owes_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None before the first

    def _is_amid_request(self) -> bool:
        """Whether bytes of the client are unread, or still to come."""
        return self.cycle is not None and (self.cycle.more_body or self.flow.read_paused)  # type: ignore[redundant-expr]  # as above

    def _linger(self) -> None:
        """The last answer is given, and the client has as long as for a head to end what it sends."""
        self.flow.resume_reading()
        self._start_clock()
        self._crowd.waits(self)

    def _expect_head(self) -> None:
        self._in_head = True
        self._start_clock()

    def _start_clock(self) -> None:
        self._stop_clock()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _watch_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(READ_SECONDS, self._look_at_reader, left)

    def _look_at_reader(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < MIN_READ_BYTES:
            self.transport.abort()  # a close would wait for what is left to be read
        else:
            self._watch_reader()

    def _reader_goes_on(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._unread.is_read(self)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        if self.transport.is_lingering:
            self.transport.abort()
        elif not self.transport.is_closing():
            self._close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _close(self) -> None:
        self.transport.close_now()
        self._abandon()

    def _abandon(self) -> None:
        """Tells who works at a request that the connection is gone: uvicorn tells the last of pipelined ones alone."""
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()


def _check_host(hosts: Sequence[bytes], version: str) -> None:
    """Accepts by returning the Host headers of a request.

    Raises:
        _BadHeadError: there is none in HTTP/1.1, more than one, or one that names no host.
    """
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise _BadHeadError(f"expected one Host header, got {len(hosts) or 'none'}; check the client")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise _BadHeadError("expected a host and its port in the Host header, got other letters; check the client")
