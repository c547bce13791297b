"""Options that several verbs share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ..config import (
    DEFAULT_KV_BYTES,
    DEFAULT_MAX_SEQUENCES,
    DEFAULT_MAX_WAITING,
    MEBIBYTE,
    EngineConfig,
)
from .places import state_in, trust_in  # what the shared options name

__all__ = [
    "DEFAULTS",
    "EngineOptions",
    "Json",
    "Keys",
    "PassphraseFd",
    "StateFolder",
    "state_in",
    "trust_in",
]

Keys = Annotated[
    Path | None,
    Parameter(name="--keys", help="Folder with the trusted *.pub files; without it your own trust store."),
]
StateFolder = Annotated[
    Path | None,
    Parameter(
        name="--state",
        help="Folder that remembers accepted versions; without it the user's own.",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object instead of text.")]
PassphraseFd = Annotated[
    int | None, Parameter(name="--passphrase-fd", help="Read the passphrase from this open descriptor.")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model runs.

    Attributes:
        context: Most tokens of one sequence, prompt and answer together. [default: the model's, at most 8192]
        threads: Threads of the kernels. [default: one for each usable core]
        kv_mib: Memory of the KV pool, MiB.
        max_sequences: Sequences that run at a time.
        max_waiting: Requests that wait for a place.
        lazy: Verify a chunk of the weights when it is first used; signing/README.md, 7.5, says what that gives up.
    """

    context: Annotated[int | None, Parameter(show_default=False)] = None
    threads: Annotated[int, Parameter(show_default=False)] = 0
    kv_mib: int = DEFAULT_KV_BYTES // MEBIBYTE
    max_sequences: int = DEFAULT_MAX_SEQUENCES
    max_waiting: int = DEFAULT_MAX_WAITING
    lazy: Annotated[bool, Parameter(negative="")] = False

    @property
    def reading(self) -> Literal["ahead", "lazy"]:
        """When the weights are verified: see signing's `verify`."""
        return "lazy" if self.lazy else "ahead"

    def config(self) -> EngineConfig:
        """The engine's settings.

        Raises:
            UsageError: a value is out of range.
        """
        return EngineConfig(
            context=self.context,
            threads=self.threads,
            kv_bytes=self.kv_mib * MEBIBYTE,
            max_sequences=self.max_sequences,
            max_waiting=self.max_waiting,
        )


DEFAULTS = EngineOptions()
"""What verbs take when nothing is said."""
