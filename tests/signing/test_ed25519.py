"""Ed25519: published vectors, and the keys and signatures that OpenSSL lets through."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sealhost.signing import Code, PublicKey, SealError
from sealhost.signing.ed25519 import IDENTITY, L, P, Point, add, decode, is_identity, key_flaw, multiply
from sealhost.signing.keys import public_key_of
from sealhost.signing.signature import SignatureFile, signed_message

# RFC 8032, section 7.1: secret key, public key, message, signature
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
            "387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
            "4a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
    (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        hashlib.sha512(b"abc").hexdigest(),
        (
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
            "3dca179c138ac17ad9bef1177331a704"
        ),
    ),
]
ORDER_EIGHT = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
SMALL_ORDER = {
    "order 1": "0100000000000000000000000000000000000000000000000000000000000000",
    "order 2": "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "order 4, x even": "0000000000000000000000000000000000000000000000000000000000000000",
    "order 4, x odd": "0000000000000000000000000000000000000000000000000000000000000080",
    "order 8, first": ORDER_EIGHT,
    "order 8, first negated": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "order 8, second": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "order 8, second negated": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
}
NOT_CANONICAL = {
    "x is 0 and its sign is set": "0100000000000000000000000000000000000000000000000000000000000080",
    "order 2 with the sign set": "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "y is p": "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "y is p with the sign set": "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "y is p + 1": "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "y is p + 1 with the sign set": "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "all ones": "ff" * 32,
    "no point": "0200000000000000000000000000000000000000000000000000000000000000",
}


def encode(point: Point) -> bytes:
    inverse = pow(point.z, -1, P)
    return (point.y * inverse % P | (point.x * inverse % P & 1) << 255).to_bytes(32, "little")


@pytest.mark.parametrize(("secret", "public", "message", "signature"), RFC_8032)
def test_the_vectors_of_rfc_8032_verify_and_their_neighbours_do_not(secret, public, message, signature) -> None:
    key = PublicKey(bytes.fromhex(public))
    assert public_key_of(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))) == key
    key.verify(bytes.fromhex(signature), bytes.fromhex(message))
    with pytest.raises(SealError, match="E_SIG"):
        key.verify(bytes.fromhex(signature), bytes.fromhex(message) + b"!")
    for at in (0, 31, 32, 63):
        changed = bytearray.fromhex(signature)
        changed[at] ^= 1
        with pytest.raises(SealError, match="E_SIG"):
            key.verify(bytes(changed), bytes.fromhex(message))


@pytest.mark.parametrize("encoded", SMALL_ORDER.values(), ids=SMALL_ORDER)
def test_a_key_of_small_order_is_not_admitted(encoded) -> None:
    assert is_identity(multiply(8, decode(bytes.fromhex(encoded))))
    with pytest.raises(SealError, match="small order") as caught:
        PublicKey(bytes.fromhex(encoded))
    assert (caught.value.code, caught.value.exit_code) == (Code.KEY, 4)


@pytest.mark.parametrize("encoded", NOT_CANONICAL.values(), ids=NOT_CANONICAL)
def test_a_key_that_is_not_canonical_is_not_admitted(encoded) -> None:
    with pytest.raises(SealError, match="canonical"):
        PublicKey(bytes.fromhex(encoded))


@pytest.mark.parametrize("torsion", [1, 2, 3, 4, 5, 6, 7])
def test_a_key_of_mixed_order_is_not_admitted(torsion, seal_private_key) -> None:
    honest = decode(public_key_of(seal_private_key).raw)
    mixed = encode(add(honest, multiply(torsion, decode(bytes.fromhex(ORDER_EIGHT)))))
    Ed25519PublicKey.from_public_bytes(mixed)  # OpenSSL takes it
    with pytest.raises(SealError, match="mixed order"):
        PublicKey(mixed)


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_key_of_another_length_is_not_admitted(size) -> None:
    with pytest.raises(SealError, match="32 bytes"):
        PublicKey(bytes(size))


@pytest.mark.parametrize("seed", range(8))
def test_honest_keys_are_admitted(seed) -> None:
    private_key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    public_key_of(private_key).verify(private_key.sign(b"message"), b"message")


def test_a_forged_signature_under_the_identity_key_is_refused() -> None:
    """R = B and S = 1 satisfy the equation for any message once A is the identity; OpenSSL agrees."""
    identity = bytes.fromhex(SMALL_ORDER["order 1"])
    base = bytes.fromhex("58" + "66" * 31)
    for number in range(20):
        Ed25519PublicKey.from_public_bytes(identity).verify(base + (1).to_bytes(32, "little"), bytes([number]))
    with pytest.raises(SealError) as caught:
        PublicKey(identity)
    assert caught.value.code is Code.KEY


def test_the_arithmetic_knows_the_group() -> None:
    base = decode(bytes.fromhex("58" + "66" * 31))
    assert is_identity(multiply(L, base))
    assert not is_identity(multiply(L - 1, base))
    assert is_identity(multiply(0, base))
    assert encode(multiply(5, base)) == encode(add(add(base, multiply(3, base)), base))
    assert is_identity(add(IDENTITY, IDENTITY))
    assert key_flaw(encode(base)) is None


def test_the_signed_message_and_the_signature_file_are_pinned() -> None:
    """A test vector of the format: changing any of these bytes changes the format."""
    private_key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(RFC_8032[0][0]))
    key = public_key_of(private_key)
    message = signed_message(hashlib.sha256(b"{}").digest())
    assert message.hex() == (
        "7365616c686f73742062756e646c652076310a44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )
    assert key.key_id == "06e3fd8fda29bb60ab59557de61edb0aecdb231134be30e75b455f8e1b792fa9"
    assert SignatureFile(key.key_id, private_key.sign(message)).encode().splitlines() == [
        b"sealhost signature v1",
        b"key " + key.key_id.encode(),
        b"sig 6N+1n+AgQ2A7bjVag8Ex5vQTCr4bO+sCJdgbEO0//W3SWIm+LUcuZ8FzrCGh2iHp5JAZUKiANbGIi+W47BtvBQ==",
    ]


@pytest.mark.parametrize("size", [0, 32, 63, 65, 128])
def test_a_signature_of_another_length_is_refused(size, seal_private_key) -> None:
    with pytest.raises(SealError, match="64 bytes"):
        public_key_of(seal_private_key).verify(bytes(size), b"message")


def test_a_signature_file_that_is_too_long_is_refused_by_its_size() -> None:
    with pytest.raises(SealError, match="513 bytes"):
        SignatureFile.parse(b"x" * 513, "x.sig")
