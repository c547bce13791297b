"""Every file of attacks/trust is a keys folder and who signed: refused with its code, or accepted where it says ok."""

from __future__ import annotations

import hashlib
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.signing import DirectoryTrust, SealError, audit, verify
from sealhost.signing.keys import public_key_of
from sealhost.signing.signature import SignatureFile, signed_message
from sealhost.signing.signed_text import REVOCATIONS_DOMAIN, TRUST_DOMAIN, SignedText

FILES = sorted((Path(__file__).parent / "attacks" / "trust").glob("*.toml"))
CASES = {path.stem: tomllib.loads(path.read_text()) for path in FILES}
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
DOMAINS = {"trust": TRUST_DOMAIN, "revocations": REVOCATIONS_DOMAIN, "bundle": b"sealhost bundle v1\n"}


def private_key(name: str, lab) -> Ed25519PrivateKey:
    """The publisher of the lab's bundle, or anybody else by name."""
    if name == "lab":
        return lab.private_key
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def filled(text: str, lab) -> bytes:
    """The text with {NAME.ssh}, {NAME.pem} and {NAME.id} replaced by that key."""

    def value(match: re.Match[str]) -> str:
        key = public_key_of(private_key(match[1], lab))
        forms = {"ssh": key.to_ssh().decode().strip(), "pem": key.to_pem().decode(), "id": key.key_id}
        return forms[match[2]]

    return re.sub(r"\{([a-z-]+)\.(ssh|pem|id)\}", value, text).encode()


def document(case: dict[str, Any], kind: str, domain: str, lab) -> bytes:
    """A trust file or revocation list with its signatures, damaged as the case says."""
    body = filled(case[kind], lab)
    if repeat := case.get(f"{kind}_repeat"):
        body += (repeat[0] * repeat[1]).encode()
    data = body
    for name in case.get(f"{kind}_signers", ()):
        signer = private_key(name, lab)
        one = SignedText(body, ()).signed_by(signer, public_key_of(signer).key_id, DOMAINS[domain])
        data += one.encode().removeprefix(body)
    if edit := case.get(f"{kind}_edit"):
        assert edit[0].encode() in data
        data = data.replace(edit[0].encode(), edit[1].encode())
    data += case.get(f"{kind}_append", "").encode()
    return data[: len(data) - case.get(f"{kind}_cut", 0)]


def prepare(case: dict[str, Any], lab) -> None:
    digest = hashlib.sha256((lab.root / "manifest.json").read_bytes()).digest()
    for number, name in enumerate(case.get("signers", ["lab"])):
        signer = private_key(name, lab)
        key_id = public_key_of(signer).key_id
        lab.write_signature(
            signer.sign(signed_message(digest)), key_id, f"signatures/{key_id}.sig" if number else "bundle.sig"
        )
    if "trust" in case:
        (lab.keys / "trust.toml").write_bytes(document(case, "trust", case.get("trust_domain", "trust"), lab))
    if "revoked" in case:
        domain = case.get("revoked_domain", "revocations")
        (lab.keys / "revoked.toml").write_bytes(document(case, "revoked", domain, lab))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_keys_folder_decides_as_its_file_says(case: dict[str, Any], seal_lab) -> None:
    prepare(case, seal_lab)
    code, _, where = case["expect"].partition(" ")
    for check in (verify, audit):
        if code == "ok":
            now = case.get("now", NOON)
            assert check(seal_lab.root, DirectoryTrust(seal_lab.keys, clock=lambda now=now: now)).manifest.name == "lab"
            continue
        with pytest.raises(SealError) as caught:
            check(seal_lab.root, DirectoryTrust(seal_lab.keys, clock=lambda: case.get("now", NOON)))
        assert str(caught.value.code) == code, str(caught.value)
        assert caught.value.where.startswith(where), caught.value.where
        assert str(caught.value).isprintable()
        assert caught.value.exit_code == (1 if code in {"E_PARSE", "E_SIG"} else 4)


def test_each_attack_has_its_expectation_first_and_a_name_of_its_own() -> None:
    assert all(path.read_text().startswith("expect = ") for path in FILES)
    assert len({case["name"] for case in CASES.values()}) == len(CASES)


def test_a_bundle_that_is_refused_for_its_key_is_not_even_parsed(seal_lab, monkeypatch) -> None:
    prepare(CASES["a-revoked-key"], seal_lab)
    (seal_lab.root / "manifest.json").unlink()
    with pytest.raises(SealError, match="E_REVOKED"):
        seal_lab.verify()


def test_a_signature_line_within_a_text_ends_the_document_there() -> None:
    line = b"# signed " + b"0" * 64 + b" " + SignatureFile("0" * 64, b"\1" * 64).encode().split()[-1] + b"\n"
    text = SignedText.parse(b'a = """\n' + line, "x")
    assert text.body == b'a = """\n'
    assert [one.key_id for one in text.signatures] == ["0" * 64]
    assert text.encode() == b'a = """\n' + line


def test_a_file_of_signatures_alone_has_an_empty_body() -> None:
    line = b"# signed " + b"0" * 64 + b" " + SignatureFile("0" * 64, b"\1" * 64).encode().split()[-1] + b"\n"
    assert SignedText.parse(line, "x").body == b""
    with pytest.raises(SealError, match="another signature line"):
        SignedText.parse(line.replace(b"==", b"=!"), "x")
    with pytest.raises(SealError, match="at most 64"):
        SignedText.parse(line * 65, "x")
    uncanonical = line.replace(b"AQ==", b"AR==")
    assert uncanonical != line
    with pytest.raises(SealError, match="another signature line"):
        SignedText.parse(uncanonical, "x")
