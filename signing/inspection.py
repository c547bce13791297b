"""Looks into a bundle without deciding anything about it (README clause 9.5).

The result is what the bundle claims; nothing may be loaded on its strength.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from .errors import Code, SealError
from .limits import MAX_MANIFEST_BYTES
from .manifest import parse_manifest
from .names import MANIFEST
from .source import Source
from .verification import read_signatures

if TYPE_CHECKING:
    from pathlib import Path


def inspect(root: Path) -> dict[str, Any]:
    """What a bundle says about itself, unverified.

    Returns:
        `verified` (always False), `digest`, `claimed_signers` (key ids that nobody checked) and `manifest`.

    Raises:
        SealError: E_IO, E_MISSING, E_FILETYPE, E_PARSE, E_MANIFEST, E_PATH, E_SIG.
    """
    with Source(root) as source:
        data = source.read(MANIFEST, MAX_MANIFEST_BYTES)
        manifest = parse_manifest(data)
        try:
            claimed = sorted({signature.key_id for signature in read_signatures(source).values()})
        except SealError as error:
            if error.code is not Code.NOSIG:
                raise
            claimed = []
    return {
        "verified": False,
        "digest": hashlib.sha256(data).hexdigest(),
        "claimed_signers": claimed,
        "manifest": msgspec.to_builtins(manifest),
    }
