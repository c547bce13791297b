"""An answer without HTTP, for the command line and for warming up.

Example:
    for event in answer(model.engine, request):
        print(event.text)
"""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from ..engine.request import ErrorEvent, FinishEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..engine.request import Event, GenerationRequest, TokenEvent
    from .served import EnginePort


def answer(engine: EnginePort, request: GenerationRequest) -> Iterator[TokenEvent | FinishEvent]:
    """Yields a request's events up to its FinishEvent; leaving the loop early cancels it.

    Raises:
        SealhostError: the request was refused or failed.
    """
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    engine.submit(request, events.put)
    try:
        while True:
            event = events.get()
            if isinstance(event, ErrorEvent):
                raise event.error
            yield event
            if isinstance(event, FinishEvent):
                return
    finally:
        engine.cancel(request.id)  # ignored when it has ended
