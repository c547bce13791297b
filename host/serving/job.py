"""One job of a worker thread, which stops between its calls into a tokenizer when it should not go on.

Rules (clause 5.10 of host/README.md)
* A call cannot be interrupted, and its plugin's deadline bounds it. But one request may need thousands of calls (forged
  chats are encoded in pieces), so before each call the job checks whether anybody still waits, and for how long.

Example:
    job = Job(partial(chat_prompt, model, messages))
    pool.submit(job.run)
    job.abandon()                       # its next call is not begun
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from .refusal import http_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from .served import Tokenizer

MAX_SECONDS: Final = 30.0
"""For all of a request's calls together: ten times what 4,096 forged messages take with one that keeps time."""

T = TypeVar("T")


class Job(Generic[T]):
    """A job; made by who waits for it, run by a worker.

    Args:
        work: What is to be done.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._is_abandoned = False
        self._until = float("inf")

    def run(self) -> T:
        """Does the work, on this thread."""
        self._until = time.monotonic() + MAX_SECONDS
        token = _current.set(self)
        try:
            return self._work()
        finally:
            _current.reset(token)

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._is_abandoned = True

    def check(self) -> None:
        """Accepts by returning that the next call may begin.

        Raises:
            RequestError: 499 (nobody reads it), 503.
        """
        if self._is_abandoned:
            raise http_refusal(499, "expected somebody to wait for it, got nobody", "ask again", code="cancelled")
        if time.monotonic() > self._until:
            problem = f"expected the prompt to be encoded within {MAX_SECONDS:.0f} s, got a tokenizer that takes longer"
            raise http_refusal(503, problem, "send fewer messages or prompts", code="tokenizer_too_slow")


_current: ContextVar[Job[Any] | None] = ContextVar("job", default=None)


class PatientTokenizer:
    """A tokenizer that is called for jobs only as long as they should go on.

    Args:
        tokenizer: The plugin.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """As the plugin does, or raises as `Job.check`."""
        if (job := _current.get()) is not None:
            job.check()
        return self._tokenizer.encode(text, add_special=add_special, parse_special=parse_special)
