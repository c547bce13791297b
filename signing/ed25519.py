"""Ed25519 arithmetic for the checks that OpenSSL leaves out (README clauses 5.3 and 4.6).

OpenSSL loads public keys of small order and in non-canonical encodings, and accepts forged signatures under them.
This file decides, once for each key, that a key is canonically encoded and of exactly the prime order L. It never
sees a secret, so it need not run in constant time.

Curve: -x² + y² = 1 + d·x²·y² over GF(P). Points are extended coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z,
x·y = T/Z. Formulas and decoding: RFC 8032, sections 5.1.3 and 5.1.4.
"""

from __future__ import annotations

from typing import Final, NamedTuple

P: Final = 2**255 - 19
"""The field's prime."""
L: Final = 2**252 + 27742317777372353535851937790883648493
"""Order of the prime subgroup."""
_D: Final = -121665 * pow(121666, -1, P) % P
_SQRT_MINUS_ONE: Final = pow(2, (P - 1) // 4, P)
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


class Point(NamedTuple):
    """Extended coordinates."""

    x: int
    y: int
    z: int
    t: int


IDENTITY: Final = Point(0, 1, 1, 0)


def add(a: Point, b: Point) -> Point:
    """The sum of two points; also doubles."""
    e = (a.y - a.x) * (b.y - b.x) % P
    f = (a.y + a.x) * (b.y + b.x) % P
    c = 2 * a.t * b.t * _D % P
    d = 2 * a.z * b.z % P
    w, x, y, z = f - e, d - c, d + c, f + e
    return Point(w * x % P, y * z % P, x * y % P, w * z % P)


def multiply(scalar: int, point: Point) -> Point:
    """[scalar]point by doubling and adding."""
    result = IDENTITY
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def is_identity(point: Point) -> bool:
    """Whether a point is the neutral element."""
    return point.x % P == 0 and (point.y - point.z) % P == 0


def decode(encoded: bytes) -> Point | None:
    """A point from its 32 bytes; None if they are no point or not its one canonical encoding."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (1 << 255) - 1
    if len(encoded) != KEY_BYTES or y >= P:
        return None
    numerator, denominator = (y * y - 1) % P, (_D * y * y + 1) % P
    # x = (u/v)^((P+3)/8), up to a factor of sqrt(-1)
    x = numerator * pow(denominator, 3, P) * pow(numerator * pow(denominator, 7, P), (P - 5) // 8, P) % P
    if denominator * x * x % P != numerator:
        x = x * _SQRT_MINUS_ONE % P
    if denominator * x * x % P != numerator or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return Point(x, y, 1, x * y % P)


def key_flaw(encoded: bytes) -> str | None:
    """Why a public key must not be admitted; None if it is sound (clause 5.3).

    Args:
        encoded: The key's 32 bytes.
    """
    if len(encoded) != KEY_BYTES:
        return f"expected a key of {KEY_BYTES} bytes, got {len(encoded)}"
    point = decode(encoded)
    if point is None:
        return "expected the canonical encoding of a curve point, got other bytes"
    if is_identity(multiply(8, point)):
        return "expected a key of prime order, got one of small order, under which signatures can be forged"
    if not is_identity(multiply(L, point)):
        return "expected a key of prime order, got one of mixed order"
    return None


def signature_flaw(signature: bytes) -> str | None:
    """Why a signature must be refused before any key is looked at (clause 4.6); None if it is well formed.

    Args:
        signature: R (32 bytes) and S (32 bytes, little-endian).
    """
    if len(signature) != SIGNATURE_BYTES:
        return f"expected a signature of {SIGNATURE_BYTES} bytes, got {len(signature)}"
    if int.from_bytes(signature[KEY_BYTES:], "little") >= L:
        return "expected S below the group order, got a malleable signature"
    point = decode(signature[:KEY_BYTES])
    if point is None or is_identity(multiply(8, point)):
        return "expected R to be a canonical point of large order, got another"
    return None
