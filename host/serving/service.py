"""What the endpoints share: the models, the workers, and the generations that are running.

Rules
* A running generation is known here, so that a shutdown can end it with an error event (clause 5.7).

Example:
    with service.running(generation):
        ...
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from .bodies import Bodies
from .refusal import http_refusal
from .telemetry import Telemetry
from .unread import UnreadEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .generation import Generation
    from .served import Registry, ServedModel
    from .workers import Workers


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Service:
    """The state of one data plane.

    Attributes:
        registry: Its models.
        workers: Threads for rendering and encoding.
        generations: What is being generated now.
        telemetry: What was counted so far.
        bodies: What its requests brought.
        unread: What their clients have not read yet of streams.
    """

    registry: Registry
    workers: Workers
    generations: set[Generation] = field(default_factory=set)
    telemetry: Telemetry = field(default_factory=Telemetry)
    bodies: Bodies = field(default_factory=Bodies)
    unread: UnreadEvents = field(default_factory=UnreadEvents)

    @contextlib.contextmanager
    def running(self, generation: Generation) -> Iterator[None]:
        """Starts a generation, and closes it however the block ends.

        Raises:
            Refused: the engine does not take it.
        """
        self.generations.add(generation)
        try:
            generation.start()
            yield
        finally:
            self.generations.discard(generation)
            generation.close()

    async def work(self, model: ServedModel, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a job for a model on a worker thread.

        Raises:
            RequestError: 503, too many are waiting.
        """
        if len(self.registry.models) > 1:
            return await self.workers.run_for(model.name, job, *args, **kwargs)
        return await self.workers.run(job, *args, **kwargs)

    def refuse_new(self) -> None:
        """From now on every new request gets 503."""
        self.registry.stop()

    def interrupt_all(self) -> None:
        """Ends what is running with an error, for a shutdown whose grace period is over."""
        for generation in tuple(self.generations):
            problem = "the server is shutting down and the answer was not finished in time"
            generation.interrupt(http_refusal(503, problem, "send the request to another server", code="shutting_down"))
