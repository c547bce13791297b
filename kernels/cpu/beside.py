"""Compiles parts of a step into the cache in a second process (README clause 8).

llvmlite lets one thread at a time into LLVM, so a second core takes a second process. What comes of it is files: where
it cannot be started, or fails, whoever waits finds them missing and compiles by itself.

Run as `python -P -m sealhost.kernels.cpu.beside FOLDER ISA KV_TYPE PART...`, with the caller's import path.

Example:
    with compiling_beside([Part.PRODUCTS, Part.ATTENTION], folder, isa, kv_type) as beside:
        ...  # compile another part
        beside.wait()
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..kv_type import KvType
from .isa import Isa
from .objects import Part
from .sync import available_threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Beside:
    """The second process, if there is one.

    Args:
        process: None: there is none.
    """

    def __init__(self, process: subprocess.Popen[bytes] | None) -> None:
        self._process = process

    def wait(self) -> None:
        """Until it has ended, in whatever way."""
        if self._process is not None:
            self._process.wait()


@contextlib.contextmanager
def compiling_beside(parts: Sequence[Part], folder: Path | None, isa: Isa, kv_type: KvType) -> Iterator[Beside]:
    """Compiles parts into a folder while the block runs, if there are both and a core for it; ends with the block."""
    process = None
    if parts and folder is not None and available_threads() > 1 and sys.executable:
        with contextlib.suppress(OSError):  # the system has no more processes
            process = _started([str(folder), isa, kv_type, *(part.name for part in parts)])
    try:
        yield Beside(process)
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _started(arguments: list[str]) -> subprocess.Popen[bytes]:
    """The process; -P keeps the folder it is started in off its import path, as an installed `sealhost` does."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    silent = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, *arguments],
        stdin=silent, stdout=silent, stderr=silent, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip


def main() -> None:
    """Compiles what the arguments name."""
    from .cache import part_paths, write  # noqa: PLC0415 — it imports this
    from .compiler import compile_part  # noqa: PLC0415 — numba takes half a second to import

    folder, isa, kv_type, *names = sys.argv[1:]
    paths = part_paths(Path(folder), Isa(isa), KvType(kv_type))
    for part in (Part[name] for name in names):
        write(paths[part], compile_part(part, Isa(isa), KvType(kv_type)))


if __name__ == "__main__":
    main()
