"""The sampler that `serve` puts every request through (clause 5.14 of host/README.md).

Example:
    choice = sampler_choice("guard", Path("guard.json"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...signing.declaration import read_input
from ..config import SamplerChoice
from ..errors import RequestError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

FLAG: Final = "--sampler-config-file"

MAX_CONFIG_FILE_BYTES: Final = 64 << 10
"""Bytes of the file, blanks and all; a guest takes 16 KiB at most."""


def sampler_choice(name: str | None, config: Path | None) -> SamplerChoice | None:
    """What the operator has chosen; None: nothing.

    Args:
        name: The sampler's name.
        config: File with its configuration, a JSON object.

    Raises:
        UsageError: a configuration without a sampler, or one that is no JSON object.
        SealError: E_IO, E_SIZE: the file cannot be read.
    """
    if name is None:
        if config is not None:
            raise UsageError(FLAG, "expected --sampler with it, got none", "name the sampler that it is for")
        return None
    return SamplerChoice(name, None if config is None else _json_object(config))


def _json_object(path: Path) -> dict[str, Any]:
    from ..serving.strict_json import parse_object  # noqa: PLC0415 — other verbs need no server

    try:
        return parse_object(read_input(path, MAX_CONFIG_FILE_BYTES))
    except RequestError as error:
        raise UsageError(str(path), error.problem, "write one JSON object in UTF-8") from None
