"""Long work of the admin plane: one at a time, on a thread of its own, watched while it runs.

Rules (clause 7.7 of host/README.md)
* A second operation is refused (409) while one runs; only one that was started by a signal, which nobody waits for,
  waits for its turn.
* An operation goes on when its client goes away; its outcome can be asked for later.
* Threads are daemons: a compilation cannot be interrupted, and the end of the process must not wait for it.

Example:
    future = operations.start("swap", "/srv/models/v2", lambda tell: deployment.swap(root, None, tell))
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import structlog

from ...signing.errors import Code, SealhostError
from ..errors import InternalError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = structlog.get_logger("sealhost.admin")

T = TypeVar("T")

KINDS: Final = ("load", "swap", "rollback", "reload")
OUTCOMES: Final = ("finished", "refused", "failed")


class Tell(Protocol):
    """Takes how far an operation is."""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Notes the stage, and bytes done and in all where there are bytes."""


def untold(stage: str, done: int = 0, total: int = 0) -> None:
    """A Tell that nobody listens to."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A snapshot of the operation that runs, or of how the last one ended.

    Attributes:
        kind: One of KINDS.
        target: What it works on: a path or a model's name.
        stage: What it is doing, e.g. "verifying".
        done: Bytes of this stage that are done.
        total: Bytes of this stage; 0 when it has none.
        seconds: How long it has taken so far, or took.
        outcome: One of OUTCOMES; None while it runs.
        error: The refusal's line, "" for none.
    """

    kind: str
    target: str
    stage: str
    done: int
    total: int
    seconds: float
    outcome: str | None
    error: str


class _Running:
    """An operation: written by its own thread, read by others."""

    def __init__(self, kind: str, target: str) -> None:
        self.kind, self.target = kind, target
        self._at: tuple[str, int, int] = ("waiting", 0, 0)
        self._began = time.monotonic()

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        self._at = (stage, done, total)

    def snapshot(self, outcome: str | None = None, error: str = "") -> Progress:
        return Progress(self.kind, self.target, *self._at, time.monotonic() - self._began, outcome, error)


class Operations:
    """The one place for long work of a host."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter({(kind, outcome): 0 for kind in KINDS for outcome in OUTCOMES})
        self.last: Progress | None = None
        self._changed = threading.Condition()
        self._running: _Running | None = None

    @property
    def current(self) -> Progress | None:
        """What runs now."""
        running = self._running
        return running.snapshot() if running is not None else None

    @contextmanager
    def slot(self, kind: str, target: str, *, wait: bool = False) -> Iterator[Tell]:
        """Holds the place for one operation while the block runs, and notes how it ended.

        Args:
            kind: One of KINDS.
            target: What it works on.
            wait: Wait for the place instead of being refused.

        Raises:
            RequestError: 409, another operation runs.
        """
        running = self._take(kind, target, wait=wait)
        with self._noted(running):
            yield running

    def start(self, kind: str, target: str, work: Callable[[Tell], T], *, wait: bool = False) -> Future[T]:
        """Runs an operation on a thread of its own.

        Args:
            kind: One of KINDS.
            target: What it works on.
            work: Called with a Tell; what it answers or raises is the future's.
            wait: As for `slot`.

        Raises:
            RequestError: 409, another operation runs.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # whoever waits may go away; the operation does not
        running = None if wait else self._take(kind, target, wait=False)

        def run() -> None:
            held = running or self._take(kind, target, wait=True)
            try:
                with self._noted(held):  # it ends before the answer is there, so that who has it can start the next
                    result = _guarded(kind, work, held)
            except SealhostError as error:
                log.warning("operation refused", operation=kind, target=target, error=str(error))
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, name=f"operation-{kind}", daemon=True).start()
        return future

    @contextmanager
    def _noted(self, running: _Running) -> Iterator[None]:
        outcome, said = "failed", ""
        try:
            yield
            outcome = "finished"
        except SealhostError as error:
            outcome, said = "failed" if error.code is Code.INTERNAL else "refused", str(error)
            raise
        finally:
            with self._changed:
                self.counts[running.kind, outcome] += 1
                self.last = running.snapshot(outcome, said)
                self._running = None
                self._changed.notify()

    def _take(self, kind: str, target: str, *, wait: bool) -> _Running:
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._running is None)
            elif (other := self._running) is not None:
                problem = f"expected no other operation, got a {other.kind} of {other.target} under way"
                raise RequestError(problem, "wait: GET /admin/operation", status=409, reason="operation_running")
            self._running = _Running(kind, target)
            return self._running


def _guarded(kind: str, work: Callable[[Tell], T], tell: Tell) -> T:
    """Runs it; a bug becomes an error that an operator can read."""
    try:
        return work(tell)
    except SealhostError:
        raise
    except Exception as error:  # the last line between a bug and the operator
        log.exception("bug", operation=kind, exc_info=os.environ.get("SEALHOST_DEBUG") == "1")
        problem = f"expected no fault of our own, got {type(error).__name__}: {error}"
        raise InternalError(kind, problem) from error
