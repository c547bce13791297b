"""The bridge from the engine's thread to the event loop, for the choices of one HTTP request.

Rules
* Events cross with `call_soon_threadsafe` into a queue; the engine never waits for a client.
* However a request ends (finished, failed, client gone, shutdown), what still runs of it is cancelled exactly once,
  in `close`, which is never left to a background task.

Example:
    generation = Generation(engine, requests)
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

from ..engine.request import ErrorEvent, FinishEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from ...signing.errors import SealhostError
    from ..engine.request import Event, GenerationRequest, TokenEvent
    from .served import EnginePort


class Generation:
    """The engine requests of one HTTP request; made and used on the event loop.

    Args:
        engine: Where they run.
        requests: One for each choice.
        watch: Told of each batch of events before it is handed on.
    """

    def __init__(
        self,
        engine: EnginePort,
        requests: Sequence[GenerationRequest],
        watch: Callable[[Sequence[tuple[int, TokenEvent | FinishEvent]]], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._requests = requests
        self._watch = watch
        self._index = {request.id: number for number, request in enumerate(requests)}
        self._open: set[str] = set()
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
        while self._open:
            events = [await self._queue.get()]
            while not self._queue.empty():
                events.append(self._queue.get_nowait())
            batch, failure = self._sort(events)
            self._watch(batch)
            if batch:
                yield batch
            if failure is not None:
                raise failure

    def interrupt(self, error: SealhostError) -> None:
        """Ends it with an error, after the events that are already there."""
        self._queue.put_nowait(ErrorEvent("", error))

    def close(self) -> None:
        """Cancels what still runs; idempotent."""
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
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)
