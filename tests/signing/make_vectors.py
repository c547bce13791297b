"""Writes vectors.json: what another implementation of signing/README.md can be checked with. All keys are fixed.

Run it from anywhere after a change of the format:  python tests/signing/make_vectors.py
A test regenerates the same bytes and compares them.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.signing.declaration import PluginSource
from sealhost.signing.ed25519 import L, P, Point, add, decode, multiply
from sealhost.signing.keys import public_key_of
from sealhost.signing.manifest import PluginLimits
from sealhost.signing.marks import Mark, Marks
from sealhost.signing.pack import Template, pack
from sealhost.signing.sign import sign_bundle
from sealhost.signing.signature import signed_message
from sealhost.signing.signed_text import REVOCATIONS_DOMAIN, TRUST_DOMAIN, SignedText
from sealhost.signing.state import encode

OUTPUT = Path(__file__).parent / "vectors.json"
SEEDS = {"publisher": bytes(range(32)), "second": b"\x09" * 32, "keeper": b"\x11" * 32}
GENERATOR = decode(bytes.fromhex("58" + "66" * 31))
TORSION = decode(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"))
"""A point of order 8; its multiples are all points of small order."""
TRUST = """schema = "sealhost trust v1"
name = "fleet"
version = 7

[[key]]
name = "acme"
public = "{publisher}"
not_before = 2026-01-01T00:00:00Z
not_after = 2027-01-01T00:00:00Z

[[key]]
name = "anna"
public = "{keeper}"

[[publisher]]
name = "acme"
bundles = ["acme-*"]
kinds = ["model"]
keys = ["acme"]
threshold = 1

[root]
keys = ["anna"]
threshold = 1
"""
REVOKED = """schema = "sealhost revocations v1"
policy = "fleet"
version = 2

[[revoked]]
key = "{second}"
reason = "laptop stolen"
"""


def private(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(SEEDS[name])


def key_vectors() -> list[dict[str, str]]:
    found = []
    for name, seed in SEEDS.items():
        key = public_key_of(private(name))
        forms = {"public": key.raw.hex(), "key_id": key.key_id, "pem": key.to_pem().decode()}
        found.append({"name": name, "seed": seed.hex(), **forms, "ssh": key.to_ssh("comment").decode()})
    return found


def bundle_vectors() -> dict[str, Any]:
    """A model bundle whose weights are one chunk and a little; they are SHA-256 in counter mode."""
    size = (4 << 20) + 100
    weights = b"".join(hashlib.sha256(number.to_bytes(8, "little")).digest() for number in range(-(-size // 32)))[:size]
    limits = PluginLimits(memory_bytes=65536, init_ms=1, load_ms=1, step_ms=1, encode_ms=1)
    plugins = (
        PluginSource(b"\0asm\1\0\0\0tok", "tok", "tokenizer", 1, "", limits, None),
        PluginSource(b"\0asm\1\0\0\0sam", "sam", "sampler", 1, "full", limits, {"type": "object"}),
    )
    with tempfile.TemporaryDirectory() as folder:
        model, root = Path(folder) / "m.gguf", Path(folder) / "bundle"
        model.write_bytes(weights)
        template = Template("added", "{{ messages }} é\n")
        pack(root, name="acme-7b", version=3, model=model, plugins=plugins, template=template, documents=())
        for name in ("publisher", "second"):
            sign_bundle(root, private(name))
        paths = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "model.gguf")
        files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    digest = hashlib.sha256(files["manifest.json"]).digest()
    return {
        "weights": {"recipe": "SHA-256 of 0, 1, 2, ... as 8 little-endian bytes, joined and cut", "size": size},
        "digest": digest.hex(),
        "message": signed_message(digest).hex(),
        "files": {path: data.hex() for path, data in files.items()},
    }


def trust_vectors() -> dict[str, str]:
    names = {name: public_key_of(private(name)).to_ssh().decode().strip() for name in SEEDS}
    keeper_id = public_key_of(private("keeper")).key_id
    listed = REVOKED.format(second=public_key_of(private("second")).key_id).encode()
    trust = SignedText(TRUST.format(**names).encode(), ()).signed_by(private("keeper"), keeper_id, TRUST_DOMAIN)
    revoked = SignedText(listed, ()).signed_by(private("keeper"), keeper_id, REVOCATIONS_DOMAIN)
    return {"trust.toml": trust.encode().decode(), "revoked.toml": revoked.encode().decode()}


def state_vector() -> str:
    mark = Mark(3, "a" * 64)
    return encode(
        Marks(latest=1_900_000_000, bundles={"acme-7b": mark}, policies={"fleet": Mark(7, "b" * 64)})
    ).decode()


# --- signatures at the edges of Ed25519 ---


def scalar_of(name: str) -> int:
    """The secret scalar of RFC 8032, section 5.1.5."""
    digest = bytearray(hashlib.sha512(SEEDS[name]).digest()[:32])
    digest[0] &= 248
    digest[31] = digest[31] & 127 | 64
    return int.from_bytes(digest, "little")


def encode_point(point: Point) -> bytes:
    inverse = pow(point.z, -1, P)
    x, y = point.x * inverse % P, point.y * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def challenge(r: bytes, a: bytes, message: bytes) -> int:
    return int.from_bytes(hashlib.sha512(r + a + message).digest(), "little") % L


def row(name: str, code: str, public: bytes, message: bytes, signature: bytes) -> dict[str, str]:
    """`expect` is E_KEY where the key is not admitted, E_SIG where its signature is refused, ok where it verifies."""
    return {
        "name": name,
        "expect": code,
        "public": public.hex(),
        "message": message.hex(),
        "signature": signature.hex(),
    }


def little(number: int) -> bytes:
    return number.to_bytes(32, "little")


def torsion_rows() -> list[dict[str, str]]:
    """Keys and R with a part of small order, where verifiers of the field disagree; here no such key is admitted."""
    secret, nonce = scalar_of("publisher"), 0x1234567
    honest, plain_r = multiply(secret, GENERATOR), multiply(nonce, GENERATOR)
    mixed = add(honest, TORSION)

    def search(name: str, a: Point, torsion_of_r: range, base: Point, s_of: Any, *, holds: bool) -> dict[str, str]:
        """Tries messages until the equation without cofactor does (or does not) hold."""
        for number in range(1000):
            message = b"edge %d" % number
            for multiple in torsion_of_r:
                r = encode_point(add(base, multiply(multiple, TORSION)))
                k = challenge(r, encode_point(a), message)
                s = s_of(k) % L
                left, right = multiply(s, GENERATOR), add(decode(r), multiply(k, a))
                if (encode_point(left) == encode_point(right)) is holds:
                    return row(name, "E_KEY", encode_point(a), message, r + little(s))
        raise AssertionError(name)

    identity = multiply(L, GENERATOR)
    both = lambda k: nonce + k * secret  # noqa: E731 — a formula
    return [
        search("key and R of small order, S = 0", TORSION, range(1, 8), identity, lambda _: 0, holds=True),
        search("key of small order, R of mixed order", TORSION, range(1, 8), plain_r, lambda _: nonce, holds=True),
        search("key of mixed order, R of small order", mixed, range(1, 8), identity, lambda k: k * secret, holds=True),
        search("key and R of mixed order", mixed, range(1, 8), plain_r, both, holds=True),
        search("key and R of mixed order, with cofactor alone", mixed, range(1, 8), plain_r, both, holds=False),
        search("key of mixed order, with cofactor alone", mixed, range(1), plain_r, both, holds=False),
    ]


def encoding_rows() -> list[dict[str, str]]:
    """Encodings that are not canonical, of S, of R and of the key."""
    secret, message = scalar_of("publisher"), b"edge"
    key = private("publisher")
    public, good = key.public_key().public_bytes_raw(), key.sign(message)
    r, s = good[:32], int.from_bytes(good[32:], "little")
    one, one_again = little(1), little(P + 1)  # two encodings of the neutral element
    rows = [
        row("S + L", "E_SIG", public, message, r + little(s + L)),
        row("S + 14 L", "E_SIG", public, message, r + little(s + 14 * L)),
    ]
    for name, seen in (("as it stands", one_again), ("reduced", one)):
        k = challenge(seen, public, message)
        rows.append(
            row(f"R not canonical, hashed {name}", "E_SIG", public, message, one_again + little(k * secret % L))
        )
    nonce_r = encode_point(multiply(7, GENERATOR))
    rows += [
        row(f"key not canonical, {name}", "E_KEY", bytes_, message, nonce_r + little(7))
        for name, bytes_ in (("y = p + 1", one_again), ("y = p + 1 and a sign", little(P + 1 | 1 << 255)))
    ]
    return rows


def plain_rows() -> list[dict[str, str]]:
    """An honest key; one signature that is right, and its neighbours."""
    key, message = private("publisher"), b"a message"
    public, good = key.public_key().public_bytes_raw(), key.sign(message)
    r, s = good[:32], int.from_bytes(good[32:], "little")
    torn = encode_point(add(decode(r), TORSION))
    changed = {
        "S = 0": r + bytes(32),
        "S = 1": r + little(1),
        "S - 1": r + little(s - 1),
        "S + 1": r + little(s + 1),
        "-S": r + little(L - s),
        "S = L": r + little(L),
        "S = L - 1": r + little(L - 1),
        "S of ones": r + b"\xff" * 32,
        "the top bit of S": r + little(s | 1 << 255),
        "R = 0": bytes(32) + good[32:],
        "R = the neutral element": little(1) + good[32:],
        "R = p": little(P) + good[32:],
        "R of ones": b"\xff" * 32 + good[32:],
        "R not on the curve": little(2) + good[32:],
        "-R": bytes([*r[:31], r[31] ^ 0x80]) + good[32:],
        "R with a part of order 8": torn + good[32:],
        "R = the generator": encode_point(GENERATOR) + good[32:],
        "R = the key": public + good[32:],
        "R and S exchanged": good[32:] + r,
        "zeros": bytes(64),
        "63 bytes": good[:63],
        "65 bytes": good + b"\0",
        "nothing": b"",
        "a signature of another key": private("second").sign(message),
        "a signature of the digest": key.sign(hashlib.sha512(message).digest()),
    }
    rows = [row("right", "ok", public, message, good), row("right, empty message", "ok", public, b"", key.sign(b""))]
    rows += [row(name, "E_SIG", public, message, signature) for name, signature in changed.items()]
    rows += [
        row("another message", "E_SIG", public, message + b".", good),
        row("a message cut short", "E_SIG", public, message[:-1], good),
        row("-A", "E_SIG", bytes([*public[:31], public[31] ^ 0x80]), message, good),
        row("a key of 31 bytes", "E_KEY", public[:31], message, good),
        row("a key of 33 bytes", "E_KEY", public + b"\0", message, good),
        row("a key that is not on the curve", "E_KEY", little(2), message, good),
    ]
    return rows


def vectors() -> bytes:
    """The file's bytes."""
    found = {
        "about": "vectors of signing/README.md, written by make_vectors.py; binary values are hex",
        "keys": key_vectors(),
        "bundle": bundle_vectors(),
        "trust": trust_vectors(),
        "state.json": state_vector(),
        "ed25519": [*plain_rows(), *encoding_rows(), *torsion_rows()],
    }
    return json.dumps(found, indent=1, ensure_ascii=True).encode() + b"\n"


if __name__ == "__main__":
    OUTPUT.write_bytes(vectors())
