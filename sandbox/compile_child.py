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
        resource.setrlimit(number, (limits[name], limits[name]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))


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
