"""vectors.json is what the code makes today, and the verifier agrees with every row of it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sealhost.signing import DirectoryTrust, PublicKey, SealError, verify
from sealhost.signing.ed25519 import L, add, decode, multiply
from sealhost.signing.keys import parse_public_key
from sealhost.signing.state import State

FOLDER = Path(__file__).parent
VECTORS = json.loads((FOLDER / "vectors.json").read_bytes())
ROWS = {row["name"]: row for row in VECTORS["ed25519"]}
IN_2026 = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_vectors", FOLDER / "make_vectors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_vectors_are_what_the_code_makes(maker) -> None:
    assert maker.vectors() == (FOLDER / "vectors.json").read_bytes()


@pytest.mark.parametrize("vector", VECTORS["keys"], ids=[key["name"] for key in VECTORS["keys"]])
def test_both_forms_of_a_key_have_its_id(vector) -> None:
    for form in ("pem", "ssh"):
        assert parse_public_key(vector[form].encode(), form).key_id == vector["key_id"]
    assert PublicKey(bytes.fromhex(vector["public"])).key_id == vector["key_id"]


def outcome(row: dict[str, str]) -> str:
    try:
        key = PublicKey(bytes.fromhex(row["public"]))
        key.verify(bytes.fromhex(row["signature"]), bytes.fromhex(row["message"]))
    except SealError as error:
        return str(error.code)
    return "ok"


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_signature_at_the_edge_has_its_pinned_outcome(row) -> None:
    assert outcome(row) == row["expect"]


TORSION_ROWS = {name: row for name, row in ROWS.items() if "order" in name and name.startswith("key")}


@pytest.mark.parametrize("row", TORSION_ROWS.values(), ids=TORSION_ROWS)
def test_an_edge_case_is_one_that_verifiers_of_the_field_accept(row, maker) -> None:
    """Else its refusal would show nothing: the equation holds, with the cofactor in all of them, without it in most."""
    public, signature, message = (bytes.fromhex(row[field]) for field in ("public", "signature", "message"))
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % L
    left, right = multiply(s, maker.GENERATOR), add(decode(r), multiply(k, decode(public)))
    same = maker.encode_point(left) == maker.encode_point(right)
    assert same is not row["name"].endswith("alone")
    assert maker.encode_point(multiply(8, left)) == maker.encode_point(multiply(8, right))


def write_bundle(root: Path) -> None:
    for path, data in VECTORS["bundle"]["files"].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(bytes.fromhex(data))
    size = VECTORS["bundle"]["weights"]["size"]
    blocks = (hashlib.sha256(number.to_bytes(8, "little")).digest() for number in range(-(-size // 32)))
    (root / "model.gguf").write_bytes(b"".join(blocks)[:size])


def test_the_vectors_bundle_verifies_under_the_vectors_policy(tmp_path) -> None:
    write_bundle(tmp_path / "bundle")
    (tmp_path / "keys").mkdir()
    for name, text in VECTORS["trust"].items():
        (tmp_path / "keys" / name).write_text(text)
    trust = DirectoryTrust(tmp_path / "keys", clock=lambda: IN_2026)
    bundle = verify(tmp_path / "bundle", trust, full=True)
    ids = {key["name"]: key["key_id"] for key in VECTORS["keys"]}
    assert bundle.digest == VECTORS["bundle"]["digest"]
    assert bundle.signers == (ids["publisher"],)
    assert VECTORS["bundle"]["message"] == (b"sealhost bundle v1\n" + bytes.fromhex(bundle.digest)).hex()
    assert trust.revocations.reasons == {ids["second"]: "laptop stolen"}


def test_the_vectors_state_is_read(tmp_path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text(VECTORS["state.json"])
    marks = State(tmp_path / "state").marks()
    assert (marks.latest, marks.bundles["acme-7b"].version, marks.policies["fleet"].version) == (1_900_000_000, 3, 7)
