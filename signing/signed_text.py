"""A text that carries its own signatures as comment lines at its end (README chapter 10); pure functions on bytes.

The file is one, so it is replaced as one; what is signed are the exact bytes before the first signature line, so
nothing is re-serialised, and whoever adds a signature changes nothing that others have signed.

Example:
    text = SignedText.parse(data, "trust.toml")
    text.signers(TRUST_DOMAIN, keys, "trust.toml")      # raises on a wrong one, never returns a bool
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from .errors import Code, SealError
from .limits import MAX_SIGNATURES
from .signature import SignatureFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from .keys import PublicKey

TRUST_DOMAIN: Final = b"sealhost trust v1\n"
REVOCATIONS_DOMAIN: Final = b"sealhost revocations v1\n"

_MARK: Final = b"# signed "
_LINE = re.compile(rb"# signed ([0-9a-f]{64}) ([A-Za-z0-9+/]{86}==)")
_REMEDY = "fetch the file again, or have its keepers sign it again"


class SignedText(NamedTuple):
    """A document and the signatures that it bears.

    Attributes:
        body: The signed bytes.
        signatures: In the file's order, each key at most once; claims until `signers` has checked them.
    """

    body: bytes
    signatures: tuple[SignatureFile, ...]

    @classmethod
    def parse(cls, data: bytes, where: str) -> SignedText:
        """Splits a file (clause 10.2).

        Raises:
            SealError: E_SIG.
        """
        start = 0 if data.startswith(_MARK) else data.find(b"\n" + _MARK) + 1
        if start == 0 and not data.startswith(_MARK):
            return cls(data, ())
        body, lines = data[:start], data[start:].split(b"\n")
        if lines.pop() != b"" or len(lines) > MAX_SIGNATURES:
            problem = f"expected at most {MAX_SIGNATURES} whole signature lines at the end, got others"
            raise SealError(Code.SIG, where, problem, _REMEDY)
        signatures = tuple(_parse_line(line, where) for line in lines)
        if len({signature.key_id for signature in signatures}) != len(signatures):
            raise SealError(Code.SIG, where, "expected each key to sign once, got one twice", _REMEDY)
        return cls(body, signatures)

    @property
    def digest(self) -> str:
        """SHA-256 of the signed bytes, hex."""
        return hashlib.sha256(self.body).hexdigest()

    def signers(self, domain: bytes, keys: Iterable[PublicKey], where: str) -> frozenset[str]:
        """Ids of those of the keys that have signed; signatures of other keys are neither counted nor checked.

        Raises:
            SealError: E_SIG if a signature of one of the keys is wrong.
        """
        known = {key.key_id: key for key in keys}
        message = domain + hashlib.sha256(self.body).digest()
        found = set()
        for signature in self.signatures:
            if (key := known.get(signature.key_id)) is not None:
                key.verify(signature.signature, message, where)
                found.add(key.key_id)
        return frozenset(found)

    def signed_by(self, private_key: Ed25519PrivateKey, key_id: str, domain: bytes) -> SignedText:
        """The same document with one signature more; one by the same key gives way."""
        signature = private_key.sign(domain + hashlib.sha256(self.body).digest())
        others = tuple(one for one in self.signatures if one.key_id != key_id)
        return SignedText(self.body, (*others, SignatureFile(key_id, signature)))

    def encode(self) -> bytes:
        """The file's bytes."""
        return self.body + b"".join(
            b"# signed %b %b\n" % (one.key_id.encode(), base64.b64encode(one.signature)) for one in self.signatures
        )


def _parse_line(line: bytes, where: str) -> SignatureFile:
    if match := _LINE.fullmatch(line):
        signature = base64.b64decode(match.group(2), validate=True)
        if base64.b64encode(signature) == match.group(2):  # one text for each signature, as in bundle.sig
            return SignatureFile(match.group(1).decode(), signature)
    raise SealError(Code.SIG, where, "expected `# signed <key id> <base64>`, got another signature line", _REMEDY)
