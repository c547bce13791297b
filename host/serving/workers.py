"""Threads for work that takes a processor: rendering and encoding; the event loop only waits for them.

Rules
* At most `limit` jobs wait or run; the next one is told to come back later (503), so that a flood cannot pile up. Of
  them one model has at most half where there are others, so that what dawdles in its bundle does not keep those out.
* `threads` jobs run at a time. One that overruns its grace keeps its thread and gives its place to the next, so that
  guests that loop hold up nobody else until their deadlines end them.
* A job whose client has gone is not started, and one that runs calls no tokenizer any more (`job`).

Example:
    workers = Workers(threads=2, limit=64)
    ids = await workers.run(chat_prompt, model, messages)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .job import Job
from .refusal import http_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_LIMIT = 128
"""Jobs that wait or run: at a few milliseconds each, the last one waits for well under a second."""

GRACE_SECONDS = 0.1
"""How long a job holds its place: many times what a common text takes, and a small part of a guest's deadline."""

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """A bounded pool; `run` is called on one event loop.

    Args:
        threads: Jobs that run at a time, but for those that overrun.
        limit: Jobs that wait or run; also the most threads there can ever be.
    """

    def __init__(self, *, threads: int, limit: int = DEFAULT_LIMIT) -> None:
        self._pool = ThreadPoolExecutor(limit, thread_name_prefix="sealhost-encode")  # makes them as they are needed
        self._places = asyncio.Semaphore(threads)
        self._limit = limit
        self._held: Counter[str] = Counter()

    async def run(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs one job on a worker thread.

        Raises:
            RequestError: 503, too many are waiting.
        """
        return await self._run("", self._limit, partial(job, *args, **kwargs))

    async def run_for(self, model: str, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run`, for a model that has others beside it.

        Raises:
            RequestError: 503, too many are waiting, or too many of this model.
        """
        return await self._run(model, max(self._limit // 2, 1), partial(job, *args, **kwargs))

    async def _run(self, owner: str, most: int, job: Callable[[], T]) -> T:
        if self._held.total() >= self._limit or self._held[owner] >= most:
            problem = f"expected fewer than {most} requests to be encoded, that many are waiting"
            raise http_refusal(503, problem, "try again soon", code="overloaded")
        self._held[owner] += 1
        try:
            await self._places.acquire()
        except BaseException:  # its client has gone
            self._held[owner] -= 1
            raise
        loop, place = asyncio.get_running_loop(), _Place(self._places)
        grace = loop.call_later(GRACE_SECONDS, place.give_back)
        running = Job(job)
        future = self._pool.submit(running.run)
        future.add_done_callback(self._release(loop, owner, place, grace))
        try:
            return await asyncio.wrap_future(future)
        finally:
            running.abandon()

    def _release(
        self, loop: asyncio.AbstractEventLoop, owner: str, place: _Place, grace: asyncio.TimerHandle
    ) -> Callable[[object], None]:
        def free() -> None:
            self._held[owner] -= 1
            grace.cancel()
            place.give_back()

        def done(_future: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(free)

        return done

    def close(self) -> None:
        """Stops the threads once what runs has ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Place:
    """One of the places of jobs that run, given back once."""

    __slots__ = ("_given_back", "_places")

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._given_back = False

    def give_back(self) -> None:
        if not self._given_back:
            self._given_back = True
            self._places.release()
