"""Compiles a module in a child process with limits (README §2).

    compiled = compile_module(wasm, settings, CompileLimits())

* No fork of this process's state: the child is a fresh interpreter, started by path with `-I`.
* Input and output are unlinked private files, so neither side can block the other and the output's size is bounded by
  the child's own limit.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHILD = Path(__file__).with_name("compile_child.py")
_REFUSED = 1
_MAX_MESSAGE_BYTES = 4_096
"""Of a child's complaint; the interesting part is its first lines."""


@dataclass(frozen=True, slots=True)
class CompileLimits:
    """Limits of one compilation; reasons in README §3."""

    cpu_seconds: int = 60
    wall_seconds: float = 120.0
    memory_bytes: int = 2 << 30
    output_bytes: int = 512 << 20


class CompileError(Exception):
    """A module that did not compile.

    Args:
        clause: "1.12" when the module is not valid, "1.13" when it ran into a limit.
        problem: "expected X, got Y".
    """

    def __init__(self, clause: str, problem: str) -> None:
        self.clause = clause
        self.problem = problem
        super().__init__(problem)


def compile_module(wasm: bytes, settings: Mapping[str, bool | int], limits: CompileLimits) -> bytes:
    """Compiles `wasm` for an engine with `settings`; the result is for `Module.deserialize`.

    Raises:
        CompileError: When the module is not valid or a limit is hit.
    """
    header = json.dumps({"settings": dict(settings), "limits": asdict(limits)}).encode() + b"\n"
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as complaint:
        source.write(header + wasm)
        source.seek(0)
        code = _run(source, result, complaint, limits)
        if code != 0:
            complaint.seek(0)
            raise _error(code, complaint.read(_MAX_MESSAGE_BYTES).decode(errors="replace"), limits)
        result.seek(0)
        return result.read()


def _run(source: IO[bytes], result: IO[bytes], complaint: IO[bytes], limits: CompileLimits) -> int:
    child = subprocess.Popen(
        [sys.executable, "-I", str(_CHILD)], stdin=source, stdout=result, stderr=complaint, cwd="/", env={}
    )
    try:
        return child.wait(limits.wall_seconds)
    except subprocess.TimeoutExpired:
        return -signal.SIGXCPU
    finally:
        child.kill()
        child.wait()


def _error(code: int, complaint: str, limits: CompileLimits) -> CompileError:
    if code == _REFUSED and "Traceback" not in complaint:
        lines = [line.strip() for line in complaint.splitlines() if line.strip() and line.strip() != "Caused by:"]
        return CompileError("1.12", f"expected a valid module, got: {' / '.join(lines)}")
    if code in {-signal.SIGXCPU, -signal.SIGKILL}:
        problem = f"expected compilation within {limits.cpu_seconds} s of CPU and {limits.wall_seconds} s, got more"
        return CompileError("1.13", problem)
    problem = f"expected compilation within {limits.memory_bytes} bytes, got exit code {code}"
    return CompileError("1.13", problem)
