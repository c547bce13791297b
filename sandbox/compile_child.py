"""The child process that compiles a module (README §2).

Run by path, so that it imports nothing of this package: `python -I compile_child.py`.

Standard input: one line of JSON, {"settings": {…}, "limits": {…}}, then the module's bytes. Standard output: the
compiled module. Exit code 0, or 1 with one line on standard error. Limits are set before the module is read.
"""

from __future__ import annotations

import json
import resource
import sys

import wasmtime

REFUSED = 1


def _limit(limits: dict[str, int]) -> None:
    for name, number in (
        ("cpu_seconds", resource.RLIMIT_CPU),
        ("memory_bytes", resource.RLIMIT_AS),
        ("output_bytes", resource.RLIMIT_FSIZE),
    ):
        _lower(number, limits[name])
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, 16)


def _lower(number: int, limit: int) -> None:
    """Sets a limit where the operator's own is not lower: nobody may raise that."""
    hard = resource.getrlimit(number)[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(number, (limit, limit))


def main() -> int:
    """Compiles standard input to standard output."""
    header = json.loads(sys.stdin.buffer.readline())
    _limit(header["limits"])
    config = wasmtime.Config()
    for name, value in header["settings"].items():
        setattr(config, name, value)
    try:
        compiled = wasmtime.Module(wasmtime.Engine(config), sys.stdin.buffer.read()).serialize()
    except wasmtime.WasmtimeError as error:
        sys.stderr.write(str(error))
        return REFUSED
    sys.stdout.buffer.write(compiled)
    return 0


if __name__ == "__main__":
    sys.exit(main())
