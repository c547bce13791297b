"""Opens one bundle for a verb that answers on the terminal, with progress for a person who is looking."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...signing import verify
from .options import state_in, trust_in
from .progress import progress_bar
from .terminal import note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..app import Host, Opened
    from ..config import EngineConfig


@contextlib.contextmanager
def opened_bundle(
    root: Path, keys: Path | None, state: Path | None, config: EngineConfig
) -> Iterator[tuple[Host, Opened]]:
    """Verifies and loads a bundle; closes everything at the end.

    Raises:
        SealhostError: it was refused on the way.
    """
    trust, marks = trust_in(keys), state_in(state)
    with progress_bar("verifying") as bar:
        bundle = verify(root, trust, progress=bar)
    marks.check([bundle], trust)
    from ..app import Host  # noqa: PLC0415 — brings numba and wasmtime (clause 6.5), so only for what was accepted

    with Host(config, announce=note) as host:
        with progress_bar("loading") as bar:
            opened = host.open(bundle, progress=bar)
        marks.record([bundle], trust)  # it works, and nobody has used it yet (signing/README.md, 11.4)
        yield host, opened
