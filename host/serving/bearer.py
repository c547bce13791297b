"""Keys that a request may carry as `Authorization: Bearer KEY`.

Rules
* Keys are kept and compared as digests, in constant time, with every known key.

Example:
    keys = BearerKeys(["sk-…"])
    keys.admit(b"Bearer sk-…")
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class BearerKeys:
    """A set of keys, any of which is enough; false when there is none."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(_digest(key.encode()) for key in keys)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def admit(self, authorization: bytes) -> bool:
        """Whether an Authorization header carries one of the keys."""
        scheme, _, key = authorization.partition(b" ")
        given = _digest(key.strip())
        matches = [hmac.compare_digest(given, known) for known in self._digests]  # all of them, whichever fits
        return scheme.lower() == b"bearer" and any(matches)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
