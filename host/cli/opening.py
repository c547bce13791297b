"""Opens one bundle for a verb that answers on the terminal, with progress for a person who is looking.

The weights are read and verified while they are loaded; nothing is answered before all of them were (clause 1.8).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...signing import verify
from .begun import take_usual_turns
from .handover import take_begun
from .options import state_in, trust_in
from .progress import progress_bar
from .terminal import note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ...signing import VerifiedBundle
    from ..app import Host, Opened
    from .options import EngineOptions


@contextlib.contextmanager
def opened_bundle(
    root: Path, keys: Path | None, state: Path | None, engine: EngineOptions
) -> Iterator[tuple[Host, Opened]]:
    """Verifies and loads a bundle; closes everything at the end.

    Args:
        root: The bundle's directory.
        keys: `--keys`.
        state: `--state`.
        engine: How the model runs, and when its weights are verified.

    Raises:
        SealhostError: it was refused on the way.
    """
    config, trust, marks = engine.config(), trust_in(keys), state_in(state)
    with take_begun() as ahead:
        marks.see(trust)  # before the bundle is: what the trust files refuse must not be forgotten with them
        reading = engine.reading
        verified = verify(root, trust, reading=reading, ahead=ahead if reading == "ahead" else None)
    with opened_weights(verified) as bundle:
        marks.check([bundle], trust)
        from ..app import Host  # noqa: PLC0415 — brings numba and wasmtime (clause 6.5), so only for what was accepted

        with Host(config, limits=engine.limits(), announce=note) as host:
            with progress_bar("verifying and loading") as bar:
                opened = host.open(bundle, progress=bar)
            take_usual_turns()
            marks.record([bundle], trust)  # it works, and nobody has used it yet (signing/README.md, 11.4)
            yield host, opened


@contextlib.contextmanager
def opened_weights(bundle: VerifiedBundle) -> Iterator[VerifiedBundle]:
    """Closes a bundle's weights, if it has any, however the block ends."""
    try:
        yield bundle
    finally:
        if bundle.weights is not None:
            bundle.weights.close()
