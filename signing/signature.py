"""The signature file and the message that it signs (README chapter 4); pure functions on bytes."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple

from .ed25519 import SIGNATURE_BYTES
from .errors import Code, SealError
from .limits import MAX_SIGNATURE_FILE_BYTES

_MESSAGE_PREFIX: Final = b"sealhost bundle v1\n"
_FORM = re.compile(
    rb"sealhost signature v1(\r?\n)key ([0-9a-f]{64})\1sig ([A-Za-z0-9+/]{86}==)\1",
)


def signed_message(manifest_digest: bytes) -> bytes:
    """What a publisher signs: the domain and the raw SHA-256 of manifest.json (clause 4.1).

    Args:
        manifest_digest: 32 bytes.
    """
    return _MESSAGE_PREFIX + manifest_digest


class SignatureFile(NamedTuple):
    """A signature and the id of the key that it claims to be from.

    Attributes:
        key_id: 64 lower-case hex digits; a claim until a key with this id has verified the signature.
        signature: 64 bytes.
    """

    key_id: str
    signature: bytes

    @classmethod
    def parse(cls, data: bytes, where: str) -> SignatureFile:
        """Reads a signature file (clauses 4.2 to 4.4).

        Raises:
            SealError: E_SIG.
        """
        match = _FORM.fullmatch(data) if len(data) <= MAX_SIGNATURE_FILE_BYTES else None
        if match is not None:
            encoded = match.group(3)
            signature = base64.b64decode(encoded, validate=True)
            # the last character carries two bits that must be zero: one text for each signature
            if base64.b64encode(signature) == encoded:
                return cls(match.group(2).decode(), signature)
        raise SealError(Code.SIG, where, f"expected a sealhost signature file, got {_describe(data)}", _REMEDY)

    def encode(self) -> bytes:
        """The file's bytes."""
        return f"sealhost signature v1\nkey {self.key_id}\nsig {base64.b64encode(self.signature).decode()}\n".encode()


_REMEDY: Final = "fetch the signature again, or have the publisher sign the bundle again"


def _describe(data: bytes) -> str:
    """Names the fault that people meet, for the message."""
    if len(data) > MAX_SIGNATURE_FILE_BYTES:
        return f"{len(data)} bytes"
    if match := re.search(rb"^sig (\S+)\s*\Z", data, re.MULTILINE):
        try:
            size = len(base64.b64decode(match.group(1), validate=True))
        except binascii.Error:
            return "a signature that is not base64"
        if size != SIGNATURE_BYTES:
            return f"a signature of {size} bytes instead of {SIGNATURE_BYTES}"
    return "other text (three lines with one kind of line end and canonical base64 are needed)"
