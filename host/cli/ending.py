"""How a command ends early: by a signal, or because a standard stream is closed or full.

Rules (clause 6.2 of host/README.md)
* SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that nothing half made is left behind. The second one ends the
  process at once. A signal that was ignored from the start (nohup) stays ignored.
* Either all output has left the process, or the exit code says that it has not.

Example:
    with ended_by_signals():
        ...
    code = tell_all(code)
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, TextIO

from ...signing.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_A_SIGNAL: Final = 128
"""Added to a signal's number it is an exit code, as shells have it."""

INTERRUPTED: Final = OF_A_SIGNAL + signal.SIGINT
"""Exit code after Ctrl-C."""

PIPE_CLOSED: Final = OF_A_SIGNAL + signal.SIGPIPE
"""Exit code when the reader of our output went away."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class EndedError(BaseException):
    """A signal asks the process to end; no Exception, so that nobody on the way takes it for a fault and goes on.

    Args:
        number: The signal's.
    """

    def __init__(self, number: int) -> None:
        self.code = OF_A_SIGNAL + number
        super().__init__(signal.Signals(number).name)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Has signals that would end the process at once raise an EndedError in the block; only the main thread can."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise EndedError(number)

    before = {}
    with contextlib.suppress(ValueError):  # another thread: whoever called us there answers signals
        before = {one: signal.signal(one, end) for one in _SIGNALS if signal.getsignal(one) is signal.SIG_DFL}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def asked_to_end(error: BaseException) -> int | None:
    """The exit code of a signal that is behind an error; None: there is none.

    Python makes other errors of those that meet a class being made or a module being imported.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(seen, EndedError):
            return seen.code
        seen = seen.__cause__ or seen.__context__
    return None


def write_any_letter() -> None:
    """Has standard output write what its encoding lacks (Latin-1, ASCII) as escapes, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def tell_all(code: int) -> int:
    """Sends off what standard output and standard error still hold; answers the exit code, another if that failed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _forget(stream)
            code = code or PIPE_CLOSED
        except OSError as error:
            _forget(stream)
            if code == ExitCode.OK:
                say_last(f"E_IO standard output: cannot write: {error.strerror}; give it room, or another place")
                code = ExitCode.IO
    return code


def say_last(line: str) -> None:
    """A line on standard error, if anybody can hear it."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    """Drops what a stream holds, so that it does not fail again when Python ends."""
    with contextlib.suppress(OSError):  # a test's stream has no descriptor
        number, null = stream.fileno(), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)
    with contextlib.suppress(OSError):
        stream.flush()
