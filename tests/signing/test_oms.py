"""`sign --oms-key`: a model.sig that others can verify, checked here by its definition and on request by their tool.

The tool is not a dependency: `pip install model-signing pyopenssl` somewhere, put its `model_signing` on the PATH, and run
with `-m oracle`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from sealhost.host.cli.main import run
from sealhost.signing import Code, SealError
from sealhost.signing.oms import parse_oms_key
from sealhost.signing.pack import pack
from sealhost.signing.sign import sign_bundle

CURVES = {"P-256": (ec.SECP256R1(), hashes.SHA256()), "P-384": (ec.SECP384R1(), hashes.SHA384())}
CURVES |= {"P-521": (ec.SECP521R1(), hashes.SHA512())}


def pem(key, passphrase: bytes | None = None) -> bytes:
    lock = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)


def public_pem(key) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def bundle(tmp_path, seal_model, make_seal_plugin) -> Path:
    """An unsigned bundle with a folder whose name sorts differently as text and by components, and a git file."""
    plugins = (make_seal_plugin("bpe", "tokenizer"), make_seal_plugin("standard", "sampler"))
    documents = (("LICENSE", b"as you like it\n"), (".gitignore", b"x\n"))
    pack(tmp_path / "b", name="lab", version=1, model=seal_model, plugins=plugins, documents=documents)
    return tmp_path / "b"


@pytest.mark.parametrize("curve", CURVES)
def test_the_envelope_is_signed_and_lists_every_file(bundle, seal_private_key, other_private_key, curve) -> None:
    key = ec.generate_private_key(CURVES[curve][0])
    sign_bundle(bundle, seal_private_key, oms_key=key)
    signature = json.loads((bundle / "model.sig").read_bytes())
    envelope = signature["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    message = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload)
    key.public_key().verify(base64.b64decode(envelope["signatures"][0]["sig"]), message, ec.ECDSA(CURVES[curve][1]))
    assert signature["verificationMaterial"]["publicKey"]["hint"] == hashlib.sha256(public_pem(key)).hexdigest()
    statement = json.loads(payload)
    listed = {one["name"]: one["digest"] for one in statement["predicate"]["resources"]}
    files = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    assert set(listed) == files - {"bundle.sig", "model.sig"}
    assert all(hashlib.sha256((bundle / name).read_bytes()).hexdigest() == digest for name, digest in listed.items())
    joined = b"".join(bytes.fromhex(digest) for digest in listed.values())
    assert statement["subject"] == [{"name": "lab", "digest": {"sha256": hashlib.sha256(joined).hexdigest()}}]
    sign_bundle(bundle, other_private_key)  # a co-signer still can


def test_files_stand_in_the_formats_order_and_git_files_are_left_out(bundle) -> None:
    from types import SimpleNamespace

    from sealhost.signing.oms import _statement

    paths = ["a.txt", "a/z", ".gitignore", ".github/x", "b", "a/.gitignore"]
    files = [SimpleNamespace(path=path, sha256="00" * 32) for path in paths]
    statement = _statement(SimpleNamespace(name="n", files=files), b"{}")
    names = [one["name"] for one in statement["predicate"]["resources"]]
    assert names == ["a/.gitignore", "a/z", "a.txt", "b", "manifest.json"]


def test_a_signature_that_is_there_is_not_replaced(bundle, seal_private_key) -> None:
    (bundle / "model.sig").write_text("somebody's")
    with pytest.raises(SealError) as caught:
        sign_bundle(bundle, seal_private_key, oms_key=ec.generate_private_key(ec.SECP256R1()))
    assert (caught.value.code, caught.value.where) == (Code.USAGE, "model.sig")
    assert (bundle / "model.sig").read_text() == "somebody's"
    assert not (bundle / "bundle.sig").exists()


def test_it_may_be_added_to_a_bundle_that_is_signed(bundle, seal_private_key) -> None:
    before = sign_bundle(bundle, seal_private_key)
    assert sign_bundle(bundle, seal_private_key, oms_key=ec.generate_private_key(ec.SECP256R1())) == before
    assert (bundle / "model.sig").exists()


BAD_KEYS = {
    "no key": lambda: b"no key",
    "RSA": lambda: pem(generate_private_key(65537, 2048)),
    "another curve": lambda: pem(ec.generate_private_key(ec.SECP256K1())),
    "encrypted": lambda: pem(ec.generate_private_key(ec.SECP256R1()), b"x"),
}


@pytest.mark.parametrize("make", BAD_KEYS.values(), ids=BAD_KEYS)
def test_another_kind_of_key_is_refused(make) -> None:
    with pytest.raises(SealError) as caught:
        parse_oms_key(make(), None, "k")
    assert caught.value.code is Code.KEY


@pytest.fixture
def keys(tmp_path, monkeypatch, seal_private_key):
    """The publisher's key and an encrypted P-256 key, as files."""
    monkeypatch.chdir(tmp_path)
    oms = ec.generate_private_key(ec.SECP256R1())
    for name, data in {"acme.key": pem(seal_private_key), "p256.pem": pem(oms, b"correct horse")}.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o600)
    (tmp_path / "p256.pub").write_bytes(public_pem(oms))
    return tmp_path


def test_the_command_line_signs_both_ways(bundle, keys, monkeypatch, capsys) -> None:
    command = ["sign", "b", "--key", "acme.key", "--oms-key", "p256.pem", "--json"]
    monkeypatch.setenv("SEALHOST_PASSPHRASE", "wrong")
    assert run(command) == 4
    assert not (bundle / "bundle.sig").exists()
    capsys.readouterr()
    monkeypatch.setenv("SEALHOST_PASSPHRASE", "correct horse")
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["model_signature"] == "model.sig"
    (keys / "p256.pem").chmod(0o644)
    (bundle / "model.sig").unlink()
    assert run(command) == 4


@pytest.mark.oracle
def test_their_tool_accepts_it_and_notices_changes(bundle, keys, monkeypatch) -> None:
    tool = shutil.which("model_signing")
    assert tool, "install model-signing and pyopenssl, and put model_signing on the PATH"
    monkeypatch.setenv("SEALHOST_PASSPHRASE", "correct horse")
    assert run(["sign", "b", "--key", "acme.key", "--oms-key", "p256.pem"]) == 0
    assert run(["keygen", "second", "--no-passphrase"]) == 0
    assert run(["sign", "b", "--key", "second.key"]) == 0
    bundle.rename(keys / "renamed")

    def verdict() -> int:
        options = ["--signature", "renamed/model.sig", "--public_key", "p256.pub"]
        return subprocess.run([tool, "verify", "key", "renamed", *options], check=False, capture_output=True).returncode

    assert verdict() == 0
    with (keys / "renamed" / "model.gguf").open("r+b") as file:
        file.write(b"X")
    assert verdict() != 0
