"""`run --record`: the file that an answer's sampler session is written to.

    with new_recording(path) as file: …

* Nothing is overwritten, and a file that nothing was written to does not stay.
* It holds what the prompt was, so it is its owner's alone.
"""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING

from ...signing import Code, SealError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@contextlib.contextmanager
def new_recording(path: Path | None) -> Iterator[IO[bytes] | None]:
    """Makes the file; None: nothing is recorded.

    Raises:
        SealError: E_IO.
    """
    if path is None:
        yield None
        return
    try:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
    except OSError as error:
        raise SealError(
            Code.IO, str(path), f"cannot make it: {error.strerror}", "choose a path that is free"
        ) from error
    try:
        with file:
            yield file
    finally:
        if path.stat().st_size == 0:
            path.unlink()


def record_next(samplers: Mapping[str, object], name: str | None, file: IO[bytes]) -> None:
    """Lets the next session of a sampler be recorded.

    Args:
        samplers: The model's.
        name: Of the one that the request asks for; None: the first. One that there is not is refused with the request.
        file: Where to.
    """
    from ...sandbox import SamplerPlugin  # noqa: PLC0415 — brings wasmtime (clause 6.5)
    from ...sandbox.recording import Recorder  # noqa: PLC0415

    found = samplers.get(next(iter(samplers)) if name is None else name)
    if isinstance(found, SamplerPlugin):
        found.record(Recorder(file))
