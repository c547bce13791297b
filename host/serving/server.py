"""The HTTP server: binding before anything is loaded, and an orderly end.

Rules (clause 5.7 of host/README.md)
* The port is taken first: if that fails, no model is read (exit 3).
* SIGTERM or SIGINT: no new connections, new requests get 503, running answers have `grace` seconds, then an error
  event. The process ends within grace + 1 s with exit code 0. A second signal ends at once.

Example:
    with bind("127.0.0.1", 8080) as listener:
        Server(app, service, grace=10).run(sockets=[listener])
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from ...signing.errors import Code
from ..config import DEFAULT_CONNECTIONS
from ..errors import HostError, UsageError
from .connections import Crowd
from .protocol import BoundedHttp
from .unread import UnreadBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

    from .service import Service

MAX_PORT = 65_535
"""Largest TCP port; 0 asks for any free one."""

BACKLOG = 2048
"""Connections that the kernel holds until we accept them."""

KEEP_ALIVE_SECONDS = 75
"""Idle time of a connection: longer than the 60 s after which common proxies drop theirs, so that they do it first."""

LAST_WORDS_SECONDS = 0.4
"""Time for error events to leave after the grace period; then tasks are cut, and as long after them connections."""

ADMIN_LAST_WORDS_SECONDS = 0.05
"""The same for the admin plane, which ends after the data plane: an operation that is under way is not waited for."""

_REMEDY = "name another --host or --port"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        UsageError: there is no such port.
        HostError: E_IO, the address is taken, unknown or not ours.
    """
    if not 0 <= port <= MAX_PORT:  # the resolver would take it modulo 65536
        raise UsageError(f"{host}:{port}", f"expected a port from 0 to {MAX_PORT}, got {port}", "choose another")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        problem = f"expected to listen there, got {getattr(error, 'strerror', None) or error}"
        raise HostError(Code.IO, f"{host}:{port}", problem, _REMEDY) from None
    return listener


@contextlib.contextmanager
def in_background(server: Server, listener: socket.socket) -> Iterator[None]:
    """Runs a server on a thread of its own while the block runs; signals go to the main thread's."""
    thread = threading.Thread(target=server.run, args=([listener],), name="admin-plane", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


class Server(uvicorn.Server):
    """uvicorn with our order of shutting down.

    Args:
        app: The data plane, or the admin plane.
        service: The data plane's state, to be told of the shutdown; None for the admin plane, which has none to end.
        grace: Seconds that running answers have to finish.
        connections: Most connections at a time.
        hang_up: Called on SIGHUP, in a signal handler; None leaves the signal alone.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Service | None,
        *,
        grace: float,
        connections: int = DEFAULT_CONNECTIONS,
        hang_up: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="auto",
                http=partial(BoundedHttp, crowd=Crowd(connections), unread=UnreadBytes()),  # type: ignore[arg-type]  # it is called like a class
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                backlog=BACKLOG,
            )
        )
        self._service = service
        self._grace = grace
        self._hang_up = hang_up
        self._last_words = LAST_WORDS_SECONDS if service is not None else ADMIN_LAST_WORDS_SECONDS

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends running answers after the grace period."""
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(self._grace + self._last_words, self._cut)]
        if self._service is not None:
            self._service.refuse_new()
            timers.append(loop.call_later(self._grace, self._service.interrupt_all))
        try:
            with contextlib.suppress(TimeoutError):
                # a connection that does not close must not keep the process
                async with asyncio.timeout(self._grace + 2 * self._last_words):
                    await super().shutdown(sockets)
        finally:
            for timer in timers:
                timer.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes the signals while serving; unlike uvicorn it does not raise them again, so that we can exit with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self._stop) for one in (signal.SIGTERM, signal.SIGINT)}
        if (hang_up := self._hang_up) is not None:
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda _signal, _frame: hang_up())
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _stop(self, _signal: int, _frame: object) -> None:
        self.force_exit = self.should_exit  # the second signal does not wait
        self.should_exit = True

    def _cut(self) -> None:
        self.force_exit = True
        for task in self.server_state.tasks:
            task.cancel()
