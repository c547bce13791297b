"""The bridge from the engine's thread to the event loop, for the choices of one HTTP request.

Rules
* Events cross with `call_soon_threadsafe` into a queue; the engine never waits for a client, and what waits in all
  queues together is bounded (`unread`).
* However a request ends (finished, failed, client gone, shutdown), what still runs of it is cancelled exactly once,
  in `close`, which is never left to a background task.

Example:
    generation = Generation(engine, requests, unread)
    try:
        generation.start()
        async for batch in generation.batches(): ...
    finally:
        generation.close()
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ..engine.request import ErrorEvent, FinishEvent, TokenEvent
from .refusal import http_refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from ...signing.errors import SealhostError
    from ..engine.request import Event, GenerationRequest
    from .served import EnginePort
    from .unread import UnreadEvents


class Generation:
    """The engine requests of one HTTP request; made and used on the event loop.

    Args:
        engine: Where they run.
        requests: One for each choice.
        unread: What waits in all queues.
        watch: Told of each batch of events before it is handed on.
    """

    def __init__(
        self,
        engine: EnginePort,
        requests: Sequence[GenerationRequest],
        unread: UnreadEvents,
        watch: Callable[[Sequence[tuple[int, TokenEvent | FinishEvent]]], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._requests = requests
        self._unread = unread
        self._watch = watch
        self._index = {request.id: number for number, request in enumerate(requests)}
        self._open: set[str] = set()
        self._gave_up = False
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Hands the requests to the engine.

        Raises:
            Refused: the engine does not take one of them; `close` cancels the others.
        """
        for request in self._requests:
            self._engine.submit(request, self._sink)
            self._open.add(request.id)

    async def batches(self) -> AsyncIterator[list[tuple[int, TokenEvent | FinishEvent]]]:
        """Yields (choice, event), all that are there at a time, until every choice has finished.

        Raises:
            SealhostError: a choice failed, or the server is shutting down.
        """
        while self._open or self._gave_up:
            events = [await self._queue.get()]
            while not self._queue.empty():
                events.append(self._queue.get_nowait())
            self._unread.shrink(self, sum(map(_entries, events)))
            batch, failure = self._sort(events)
            self._watch(batch)
            if batch:
                yield batch
            if failure is not None:
                raise failure

    def interrupt(self, error: SealhostError) -> None:
        """Ends it with an error, after the events that are already there."""
        self._queue.put_nowait(ErrorEvent("", error))

    def give_up(self) -> None:
        """Ends it with an error in the place of the events that are there: its client has not read them in time."""
        self._gave_up = True
        self.close()
        while not self._queue.empty():
            self._queue.get_nowait()
        problem = "expected a client that reads its answer, of all that waited this one was furthest behind"
        self.interrupt(http_refusal(503, problem, "read it as it comes", code="read_too_slowly"))

    def close(self) -> None:
        """Cancels what still runs; idempotent."""
        self._unread.forget(self)
        while self._open:
            self._engine.cancel(self._open.pop())

    def _sort(self, events: Sequence[Event]) -> tuple[list[tuple[int, TokenEvent | FinishEvent]], SealhostError | None]:
        batch: list[tuple[int, TokenEvent | FinishEvent]] = []
        for event in events:
            if isinstance(event, ErrorEvent):
                self._open.discard(event.request_id)
                return batch, event.error
            if isinstance(event, FinishEvent):
                self._open.discard(event.request_id)
            batch.append((self._index[event.request_id], event))
        return batch, None

    def _sink(self, event: Event) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(self._arrive, event)

    def _arrive(self, event: Event) -> None:
        if self._open:  # else nobody waits for it
            self._queue.put_nowait(event)
            self._unread.grow(self, _entries(event))


def _entries(event: Event) -> int:
    """What it counts for among those that wait: itself, and each log-probability in it."""
    if isinstance(event, ErrorEvent):  # some come past `_arrive`
        return 0
    return 1 + len(event.logprobs.top) if isinstance(event, TokenEvent) and event.logprobs else 1
