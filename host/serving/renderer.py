"""One chat template in a process of its own, which may die of it (clause 5.13 of host/README.md).

Rules
* A template is a third party's program, and its engine counts instructions but not memory: some functions cost no fuel
  and produce any amount of text, or make the engine abort its process. So it never runs in this process.
* The child process is a fresh interpreter, started by path, without environment (but TZ), with limits of memory and of
  processor time. If it dies, the next rendering starts another.
* One rendering at a time: others wait on their worker threads, never on the event loop.

Example:
    with closing(Renderer(source)) as renderer:
        renderer.start()                    # parses while the weights are loaded
        renderer.check()                    # or raises: it does not parse
        renderer.render({"messages": [...]})
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from ..errors import RequestError, TemplateError

if TYPE_CHECKING:
    from collections.abc import Mapping

FUEL: Final = 5_000_000
"""Instructions and letters of one rendering: two million letters of messages fit; all of it lasts half a second."""

MAX_SECONDS: Final = 4
"""Of processor time for one rendering: several times what the fuel lasts."""

PATIENCE_SECONDS: Final = 60.0
"""For one answer, however busy the machine is."""

MAX_MEMORY_BYTES: Final = 1 << 30
"""Of the process: a body of 8 MiB takes a tenth of it, as text, as Python's objects and as the engine's."""

MAX_ANSWER_BYTES: Final = 64 << 20
"""Of one rendering's text: more than the fuel lasts for."""

MAX_TEMPLATE_CHARACTERS: Final = 1 << 18
"""Letters of a template; the longest published ones have about 20,000."""

_MAX_REASON_CHARACTERS: Final = 300
"""Longest text of a template's own refusal that a client is shown."""

_SIZE: Final = struct.Struct("<I")
"""Before each message, as in the child."""

_CHILD: Final = Path(__file__).with_name("template_child.py")
_WHERE: Final = "chat_template"
_PUBLISHER: Final = "tell the bundle's publisher"


class _DiedError(Exception):
    """The process ended, or did not answer."""


class Renderer:
    """A template; any thread may render.

    Args:
        source: The template's text, from a verified bundle.

    Raises:
        TemplateError: it is too long.
    """

    def __init__(self, source: str) -> None:
        if len(source) > MAX_TEMPLATE_CHARACTERS:
            problem = f"expected at most {MAX_TEMPLATE_CHARACTERS} letters, got {len(source)}"
            raise TemplateError(_WHERE, problem, "pack another template")
        self._source = source
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._end: weakref.finalize[[_Child], Renderer] | None = None
        self._is_checked = self._is_closed = False

    def start(self) -> None:
        """Starts the process, which begins to parse; waits for nothing."""
        with self._lock:
            self._start()

    def check(self) -> None:
        """Waits until the template is parsed.

        Raises:
            TemplateError: it does not parse, or the process cannot be started.
        """
        with self._lock:
            self._ready()

    def render(self, context: Mapping[str, Any]) -> str:
        """The text for a context of plain values. Blocks: never call it on an event loop.

        Raises:
            RequestError: 400, the template itself refuses.
            TemplateError: it fails, or exceeds a limit.
        """
        with self._lock:
            child = self._ready()
            try:
                answer = child.ask({"context": context})
            except _DiedError as death:
                self._stop()
                raise TemplateError(_WHERE, f"expected a text, got {death}", _PUBLISHER) from None
        if (text := answer.get("text")) is not None:
            return text
        if (refusal := answer.get("refusal")) is not None:
            problem = f"the model's chat template refuses these messages: {refusal[:_MAX_REASON_CHARACTERS]}"
            raise RequestError(problem, "change their roles or their order", param="messages")
        raise TemplateError(_WHERE, answer.get("fault", "no reason"), _PUBLISHER)

    def close(self) -> None:
        """Ends the process, also while it renders; idempotent."""
        self._is_closed = True
        if (child := self._child) is not None:
            child.kill()  # who waits for an answer waits no longer
        with self._lock:
            self._stop()

    def _start(self) -> _Child:
        if self._is_closed:
            raise TemplateError(_WHERE, "expected a model that is open, got a closed one", "try again")
        if self._child is None:
            try:
                self._child = _Child(self._source)
            except OSError as error:
                problem = f"expected a process to render in, got: {error.strerror}"
                raise TemplateError(_WHERE, problem, "raise the limit of processes or of open files") from None
            self._end = weakref.finalize(self, _Child.end, self._child)
            self._is_checked = False
        return self._child

    def _ready(self) -> _Child:
        child = self._start()
        if not self._is_checked:
            try:
                fault = child.answer().get("fault")
            except _DiedError as death:
                fault = str(death)
            if fault is not None:
                self._stop()
                raise TemplateError(_WHERE, fault, "pack another template")
            self._is_checked = True
        return child

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._child = self._end = None


class _Child:
    """The process, and the messages that go back and forth."""

    def __init__(self, source: str) -> None:
        zone = {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env=zone, bufsize=0,
        )  # fmt: skip
        limits = {
            "fuel": FUEL,
            "seconds": MAX_SECONDS,
            "memory_bytes": MAX_MEMORY_BYTES,
            "answer_bytes": MAX_ANSWER_BYTES,
        }
        with contextlib.suppress(_DiedError):  # its answer says so, too
            self._send({"source": source, "limits": limits})

    def ask(self, message: object) -> dict[str, str]:
        self._send(message)
        return self.answer()

    def answer(self) -> dict[str, str]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        (size,) = _SIZE.unpack(self._receive(_SIZE.size, deadline))
        if size > MAX_ANSWER_BYTES:
            raise _DiedError("more than it may answer")
        return msgspec.json.decode(self._receive(size, deadline), type=dict[str, str])

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            _pipe(pipe).close()

    def _send(self, message: object) -> None:
        data = msgspec.json.encode(message)
        rest = memoryview(_SIZE.pack(len(data)) + data)
        try:
            while rest:  # it reads all of it before it answers, so neither side waits for the other
                rest = rest[_pipe(self._process.stdin).write(rest) :]
        except OSError:
            raise _DiedError(self._how()) from None

    def _receive(self, size: int, deadline: float) -> bytearray:
        data = bytearray()
        try:
            descriptor = _pipe(self._process.stdout).fileno()
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while len(data) < size:
                if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
                    raise _DiedError(f"no answer within {PATIENCE_SECONDS:.0f} s")
                if not (part := os.read(descriptor, min(size - len(data), 1 << 20))):
                    raise _DiedError(self._how())
                data += part
        except OSError as error:
            raise _DiedError(str(error)) from None
        return data

    def _how(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "the end of its answers"
        if code == -signal.SIGPROF:
            return f"a rendering of more than {MAX_SECONDS} s of processor time"
        return f"a process that ended, as it does beyond {MAX_MEMORY_BYTES >> 20} MiB of memory (exit code {code})"


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 — asked for above
    return pipe
