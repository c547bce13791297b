"""Threads for work that takes a processor: rendering and encoding; the event loop only waits for them.

Rules
* At most `limit` jobs wait or run; the next one is told to come back later (503), so that a flood cannot pile up.
* A job whose client has gone is not started.

Example:
    workers = Workers(threads=2, limit=64)
    ids = await workers.run(chat_prompt, model, messages)
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .refusal import http_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_LIMIT = 128
"""Jobs that wait or run: at a few milliseconds each, the last one waits for well under a second."""

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """A bounded pool; `run` is called on the event loop."""

    def __init__(self, *, threads: int, limit: int = DEFAULT_LIMIT) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sealhost-encode")
        self._limit = limit
        self._held = 0

    async def run(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs one job on a worker thread.

        Raises:
            RequestError: 503, too many are waiting.
        """
        if self._held >= self._limit:
            problem = f"expected fewer than {self._limit} requests to be encoded, that many are waiting"
            raise http_refusal(503, problem, "try again soon", code="overloaded")
        self._held += 1
        future = self._pool.submit(job, *args, **kwargs)
        future.add_done_callback(self._release(asyncio.get_running_loop()))
        return await asyncio.wrap_future(future)  # cancelling it takes a waiting job out of the queue

    def _release(self, loop: asyncio.AbstractEventLoop) -> Callable[[object], None]:
        def free() -> None:
            self._held -= 1

        def done(_future: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(free)

        return done

    def close(self) -> None:
        """Stops the threads once what runs has ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)
