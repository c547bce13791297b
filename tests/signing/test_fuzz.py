"""Parsers of trust files, states and signatures: whatever bytes they get, only our own errors come out.

In the quick suite each runs a few hundred examples; `-m soak` runs them for SEALHOST_FUZZ_S seconds each (100 by default).
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealhost.signing import SealError
from sealhost.signing.keys import parse_public_key
from sealhost.signing.manifest import parse_manifest
from sealhost.signing.signature import SignatureFile
from sealhost.signing.signed_text import SignedText
from sealhost.signing.state import State
from sealhost.signing.strict_toml import parse_strict_toml
from sealhost.signing.trust_file import (
    Policy,
    RevocationList,
    Revocations,
    Revoked,
    TrustFile,
    encode_revocations,
    encode_trust_file,
)

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_bytes())
TRUST = VECTORS["trust"]["trust.toml"].encode()
POLICY = Policy.parse(TRUST)
STATE = VECTORS["state.json"].encode()
BUNDLE = {path: bytes.fromhex(data) for path, data in VECTORS["bundle"]["files"].items()}

PARSERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "trust file": (TRUST, Policy.parse),
    "revocation list": (
        VECTORS["trust"]["revoked.toml"].encode(),
        lambda data: Revocations.parse(data, POLICY),
    ),
    "revocation list, signed": (
        VECTORS["trust"]["revoked.toml"].encode().split(b"# signed")[0],
        lambda data: parse_strict_toml(data, RevocationList, "x"),
    ),
    "signed text": (TRUST, lambda data: SignedText.parse(data, "x")),
    "state": (STATE, State(Path("x"))._parse),
    "manifest": (BUNDLE["manifest.json"], parse_manifest),
    "signature": (BUNDLE["bundle.sig"], lambda data: SignatureFile.parse(data, "x")),
    "public key": (VECTORS["keys"][0]["pem"].encode(), lambda data: parse_public_key(data, "x")),
}
TOKENS = (
    b'"', b"'", b'"""', b"\\", b"\\u0000", b"\\ud800", b"[", b"]", b"[[", b"]]", b"{", b"}", b"=", b".", b",", b"#", b"\n",
    b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"1e999", b"nan", b"-0", b"9" * 40, b"0x1", b"1979-05-27", b"99:99:99Z",
    b"true", b"null", b"# signed ", b"a.b.c", b"version", b"schema", b"threshold", b"\xe2\x80\xae", b"==",
)  # fmt: skip
"""What the grammars of TOML, JSON and our own lines turn on."""


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """The seed with one to six edits: bytes changed, cut out, doubled, moved, or tokens put in."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 2, 8, 64, 400)))
        kind = chance.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = data[at:end] * chance.choice((1, 2, 50))
        elif kind == 3:
            data[at:at] = chance.choice(TOKENS) * chance.choice((1, 1, 3, 2000))
        else:
            piece = bytes(data[at:end])
            del data[at:end]
            place = chance.randrange(len(data) + 1)
            data[place:place] = piece
    return bytes(data)


def check(parse: Callable[[bytes], object], data: bytes) -> bool:
    """Whether the bytes were accepted; any exception but ours passes through and fails the test."""
    refusal = ""
    try:
        parse(data)
    except SealError as error:
        refusal = str(error)
    assert refusal.isprintable()
    assert len(refusal) < 1500
    return not refusal


@pytest.mark.parametrize("name", PARSERS)
def test_edited_documents_raise_only_our_errors(name) -> None:
    seed, parse = PARSERS[name]
    chance = random.Random(name)
    assert check(parse, seed)
    outcomes = [check(parse, mutated(seed, chance)) for _ in range(300)]
    assert not all(outcomes)


@pytest.mark.soak
@pytest.mark.parametrize("name", PARSERS)
def test_edited_documents_raise_only_our_errors_for_a_long_time(name) -> None:
    seed, parse = PARSERS[name]
    chance = random.Random()
    until = time.monotonic() + float(os.environ.get("SEALHOST_FUZZ_S", "100"))
    while time.monotonic() < until:
        number = chance.getrandbits(64)
        data = mutated(seed, random.Random(number))
        try:
            check(parse, data)
        except Exception as error:
            raise AssertionError(f"{name}: mutated(seed, random.Random({number})) raised {error!r}") from error


@pytest.mark.parametrize("name", ["trust file", "revocation list", "state"])
def test_every_single_byte_of_what_is_signed_or_sealed_counts(name) -> None:
    seed, parse = PARSERS[name]
    for at in range(0, len(seed), 3):
        for bit in (0x01, 0x20):
            assert not check(parse, seed[:at] + bytes([seed[at] ^ bit]) + seed[at + 1 :]), at


@settings(max_examples=200, deadline=None, database=None)
@given(data=st.binary(max_size=200))
@pytest.mark.parametrize("name", PARSERS)
def test_any_bytes_raise_only_our_errors(name, data) -> None:
    check(PARSERS[name][1], data)


@settings(max_examples=150, deadline=None, database=None)
@given(
    name=st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
    version=st.integers(1, 2**53 - 1),
    reason=st.from_regex(r"\A[A-Za-z0-9 .,:;()/_-]{0,200}\Z"),
)
def test_what_is_written_reads_back(name, version, reason) -> None:
    """The writers check it themselves and raise; so any example that they refuse fails here."""
    import msgspec

    listed = [{"key": "0" * 64, "reason": reason}]
    file = {"schema": "sealhost revocations v1", "policy": name, "version": version, "revoked": listed}
    assert encode_revocations(msgspec.convert(file, RevocationList))
    key = {"name": name, "public": VECTORS["keys"][0]["ssh"].strip(), "status": "retired"}
    rule = {"name": name, "bundles": ["*", "a-?"], "kinds": ["plugin"], "keys": [name], "threshold": 1}
    policy = {"schema": "sealhost trust v1", "name": name, "version": version, "key": [key], "publisher": [rule]}
    data = encode_trust_file(msgspec.convert(policy, TrustFile))
    assert Policy.parse(data).file.key[0].name == name


def test_what_would_read_back_as_something_else_is_not_written() -> None:
    smuggled = 'x"\n[[revoked]]\nkey = "' + "1" * 64 + '"\nreason = "y'
    listed = (Revoked(key="0" * 64, reason=smuggled),)
    file = RevocationList(schema="sealhost revocations v1", policy="p", version=1, revoked=listed)
    with pytest.raises(SealError, match="reads back the same"):
        encode_revocations(file)
