"""The engine: a thread that turns the core's crank, and the inbox through which everyone else talks to it.

Rules
* `submit` and `cancel` may come from any thread and never wait for a step (clause 2.1).
* Room is counted when a request arrives (clause 2.4): past max_sequences + max_waiting the answer is 429, not a longer
  queue.
* Every request that was taken ends, also when the engine is closed or meets a fault of its own.
* A closed engine holds on to nothing that its holder does not: no part of it refers back to it (clause 2.21).

Example:
    engine = Engine(loaded, EngineConfig())
    engine.start()
    engine.submit(request, queue.put)
    engine.close()
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ..errors import InternalError
from .admission import check
from .core import Core
from .inbox import Inbox, Submit

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import EngineConfig
    from ..weights.loaded import LoadedModel
    from .detokenizer import TokenTable
    from .request import EngineStats, Event, GenerationRequest

log = logging.getLogger(__name__)


class Engine:
    """One model's engine; `start` and `close` it once.

    Args:
        loaded: The model; the caller closes it after the engine.
        config: Limits of a step and of the queue.
    """

    def __init__(self, loaded: LoadedModel, config: EngineConfig) -> None:
        self._inbox = Inbox(config.max_sequences + config.max_waiting)
        self._core = Core(loaded, config, wake=self._inbox.wake, ended=self._inbox.forget)
        self._vocab = loaded.spec.vocab
        self._samplers = loaded.samplers
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @property
    def context(self) -> int:
        """Most tokens of one sequence, prompt and answer together."""
        return self._core.context

    @property
    def table(self) -> TokenTable:
        """What every id adds to an answer; `table.text(ids)` detokenises ids that are all there."""
        return self._core.table

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends all requests with an error and the thread with them; idempotent, returns when all is done."""
        interruption = None
        while True:  # whoever closes an engine frees its model's memory next, also after a Ctrl-C
            try:
                self._inbox.close()
                if self._thread is not None:
                    self._ended.wait()  # a join that is interrupted would say that the thread has ended
                    self._thread.join()
                break
            except Exception:  # a fault of our own, which trying again would not mend
                raise
            except BaseException as error:  # noqa: BLE001 — a signal's, raised below
                interruption = error
        if interruption is not None:
            raise interruption

    def submit(self, request: GenerationRequest, sink: Callable[[Event], None]) -> None:
        """Takes a request; its events go to `sink` on the engine's thread, which must not be held up.

        Raises:
            Refused: it can never run (400), the queue is full (429) or the engine is closing (503).
        """
        check(request, context=self.context, vocab=self._vocab, samplers=self._samplers)
        self._inbox.submit(request, sink)

    def cancel(self, request_id: str) -> None:
        """Ends a request without a further event from the next step on; unknown or ended ids are ignored."""
        self._inbox.cancel(request_id)

    @property
    def is_open(self) -> bool:
        """Whether it takes requests: not after `close`, nor after a fault that it could not go on from."""
        return self._inbox.is_open

    def stats(self) -> EngineStats:
        """A snapshot of the last turn."""
        return self._core.stats

    def _run(self) -> None:
        """Turns until it is closed; whatever ends it, nobody is left without an answer (clause 2.14)."""
        try:
            self._turn_until_closed()
        except Exception:
            log.exception("the engine met a fault while it ended requests, and takes no more")
        self._inbox.close()
        try:
            self._receive(wait=False)  # who was taken meanwhile
            self._core.close(
                InternalError("engine", "expected to finish the answer, the host is stopping", "ask again")
            )
        except Exception:
            log.exception("the engine met a fault while it closed")
        finally:
            self._ended.set()

    def _turn_until_closed(self) -> None:
        worked = False
        while self._receive(wait=not worked):
            try:
                worked = self._core.turn()
            except Exception as error:
                log.exception("the engine met a fault of its own")
                self._core.fail_all(InternalError("engine", f"expected a turn without a fault, got: {error}"))
                worked = False

    def _receive(self, *, wait: bool) -> bool:
        """Takes over what came in; answers False when it is time to end."""
        letters, closing = self._inbox.take(until=(lambda: self._core.has_news) if wait else None)
        for letter in letters:
            if isinstance(letter, Submit):
                self._core.add(letter.request, letter.sink)
            else:
                self._core.cancel(letter.request_id)
        return not closing
