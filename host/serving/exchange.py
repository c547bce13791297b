"""One HTTP request and its answer, directly on ASGI: bounded body, JSON or events out, and the client's going away.

Rules
* A body is JSON by its content type, at most MAX_BODY_BYTES, and arrives within BODY_SECONDS. It shares its room with
  those of others (`bodies`).
* Whoever works for a client stops when it goes: `while_connected` listens for the disconnect all the time.
* Events are `data: {json}` and a blank line, nothing else: no comments, no empty events (clause 5.4).
* A stream ends with `[DONE]`, after a finish reason or after an error event, never without one.

Example:
    body = await exchange.body()
    await exchange.while_connected(work())
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from .bodies import Bodies, overloaded
from .refusal import http_refusal, refusal
from .strict_json import parse_object

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from starlette.types import Receive, Scope, Send

    from ...signing.errors import SealhostError

MAX_BODY_BYTES = 8 << 20
"""Bytes of a body: a context of 128k tokens as a list of ids takes one megabyte, as text half of one."""

BODY_SECONDS = 60
"""Seconds for a whole body, so that a connection that trickles does not stay for ever."""

DONE = b"data: [DONE]\n\n"

_EVENTS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # proxies that buffer would turn a stream into one block
]

T = TypeVar("T")


class ClientGone(Exception):  # noqa: N818 — an event, not a fault
    """The client closed the connection."""


def event(data: object) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


class Exchange:
    """One request; used by one task.

    Args:
        scope, receive, send: ASGI's.
        bodies: Those of the other requests; None: it has all room for itself.

    Attributes:
        scope: What ASGI tells of it.
        began: When its head had arrived, by `time.perf_counter`.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, bodies: Bodies | None = None) -> None:
        self.scope = scope
        self.began = time.perf_counter()
        self._receive = receive
        self._send = send
        self._share = (bodies or Bodies()).share()
        self._started = False
        self._streaming = False

    async def body(self) -> dict[str, Any]:
        """The request's body as an object.

        Raises:
            RequestError: 400, 408, 413, 415 or 503.
            ClientGone: the client left before it was complete.
        """
        headers = {name: value.decode("latin-1") for name, value in self.scope["headers"]}
        kind = headers.get(b"content-type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            problem = f"expected content-type application/json, got {kind[:100] or 'none'}"
            raise http_refusal(415, problem, "set the header", code="unsupported_media_type")
        if (coding := headers.get(b"content-encoding", "identity")).lower() != "identity":
            problem = f"expected a body without content-encoding, got {coding[:100]}"
            raise http_refusal(415, problem, "send it uncompressed", code="unsupported_media_type")
        declared = headers.get(b"content-length", "")
        if declared.isdecimal() and int(declared) > MAX_BODY_BYTES:
            raise _too_large()
        gave_way = False

        def give_way() -> None:
            nonlocal gave_way
            gave_way = True
            if not patience.expired():
                patience.reschedule(0)

        try:
            async with asyncio.timeout(BODY_SECONDS) as patience:
                with self._share.coming(give_way):
                    body = await self._read()
            return parse_object(body)
        except TimeoutError:
            if gave_way:
                raise overloaded() from None
            problem = f"expected the whole body within {BODY_SECONDS} s"
            raise http_refusal(408, problem, "send it again", code="request_timeout") from None

    def forget_body(self) -> None:
        """What came with it is no longer needed, so others may have its room; idempotent."""
        self._share.give_back()

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` to its end, or cancels it when the client goes.

        Raises:
            ClientGone: the client went first.
        """
        task, gone = asyncio.create_task(work), asyncio.create_task(self._disconnected())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            return task.result()
        finally:
            for one in (task, gone):
                one.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    async def answer(self, body: object, *, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Sends a complete JSON answer."""
        await self.answer_bytes(msgspec.json.encode(body), b"application/json", status=status, headers=headers)

    async def answer_bytes(
        self, content: bytes, kind: bytes, *, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Sends a complete answer of any content type."""
        length = (b"content-length", str(len(content)).encode())
        await self._start(status, [(b"content-type", kind), length, *headers])
        await self._send({"type": "http.response.body", "body": content})

    async def answer_error(self, error: SealhostError) -> None:
        """Sends an error, as the whole answer or, in a running stream, as its last event."""
        await self.answer_refusal(*refusal(error))

    async def answer_refusal(self, status: int, body: object) -> None:
        """Like `answer_error`, for a status and an error object."""
        if self._streaming:
            await self.finish(event(body))
        elif not self._started:
            await self.answer(body, status=status, headers=_error_headers(status))

    async def stream(self, chunk: bytes) -> None:
        """Sends events, after the head of the answer when they are the first."""
        if not self._started:
            self._streaming = True
            await self._start(200, _EVENTS)
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def finish(self, last: bytes = b"") -> None:
        """Ends a stream; the caller has sent, or sends with `last`, a finish reason or an error."""
        self._streaming = False
        await self._send({"type": "http.response.body", "body": last + DONE})

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _read(self) -> bytes:
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                raise _too_large()
            self._share.grow(len(body))
            if not message.get("more_body", False):
                return bytes(body)

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _error_headers(status: int) -> list[tuple[bytes, bytes]]:
    headers = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers += [(b"retry-after", b"1")] if status in {429, 503} else []
    return headers + ([(b"connection", b"close")] if status in {408, 413} else [])


def _too_large() -> SealhostError:
    problem = f"expected a body of at most {MAX_BODY_BYTES} bytes, got more"
    return http_refusal(413, problem, "send less", code="request_too_large")
