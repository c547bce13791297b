"""A small signed bundle, a publisher, and the means to forge: what every test of this room starts from."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.host.cli.main import run
from sealhost.signing import DirectoryTrust, PluginLimits, VerifiedBundle, verify
from sealhost.signing.declaration import PluginSource
from sealhost.signing.keys import public_key_of, write_key_pair
from sealhost.signing.pack import Template, pack
from sealhost.signing.sign import sign_bundle
from sealhost.signing.signature import SignatureFile, signed_message

# the importlib import mode puts no test folder on the path; the attacks' operations are modules beside this file
sys.path.insert(0, str(Path(__file__).resolve().parent))

PUBLISHER_SEED = bytes(range(32))
WEIGHTS_BYTES = (4 << 20) + 1000
"""Two chunks, the second a short one."""
PATIENCE_S = 180
"""Seconds after which somebody waits for ever: a busy machine may stop a test for a minute."""


@dataclass
class SealLab:
    """A bundle directory and a keys folder that a test may damage."""

    root: Path
    keys: Path
    private_key: Ed25519PrivateKey

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.root / "manifest.json").read_bytes())

    def resign(self, manifest: bytes | dict[str, Any] | None = None) -> None:
        """Signs any bytes as the manifest, as a publisher would who does not use our signer."""
        if isinstance(manifest, dict):
            manifest = json.dumps(manifest).encode()
        if manifest is not None:
            (self.root / "manifest.json").write_bytes(manifest)
        digest = hashlib.sha256((self.root / "manifest.json").read_bytes()).digest()
        self.write_signature(self.private_key.sign(signed_message(digest)))

    def write_signature(self, signature: bytes, key_id: str | None = None, path: str = "bundle.sig") -> None:
        key_id = key_id or public_key_of(self.private_key).key_id
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_bytes(SignatureFile(key_id, signature).encode())

    def flip(self, at: int) -> None:
        """Flips a bit of the weights' byte at an offset, in place."""
        with (self.root / "model.gguf").open("r+b") as file:
            octet = os.pread(file.fileno(), 1, at)[0]
            os.pwrite(file.fileno(), bytes([octet ^ 1]), at)

    def verify(self, **options: Any) -> VerifiedBundle:
        return verify(self.root, DirectoryTrust(self.keys), **options)


def seal_plugin(name: str, role: str, wasm: bytes | None = None) -> PluginSource:
    limits = PluginLimits(memory_bytes=1 << 20, init_ms=100, load_ms=100, step_ms=100, encode_ms=100)
    module = wasm if wasm is not None else b"\0asm\1\0\0\0" + name.encode()
    tier = "full" if role == "sampler" else ""
    return PluginSource(module, name, role, 1, tier, limits, {"type": "object"} if role == "sampler" else None)


@pytest.fixture
def no_hang() -> Iterator[None]:
    """Whoever waits for what never comes, such as a FIFO's writer, fails instead of hanging the suite."""

    def give_up(*_: object) -> None:
        raise AssertionError(f"still waiting after {PATIENCE_S} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def make_seal_plugin():
    return seal_plugin


@pytest.fixture(scope="session")
def seal_private_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(PUBLISHER_SEED)


@pytest.fixture(scope="session")
def seal_model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "fake.gguf"
    path.write_bytes(b"GGUF" + random.Random(2).randbytes(WEIGHTS_BYTES - 4))
    return path


@pytest.fixture(scope="session")
def _seal_master(tmp_path_factory, seal_model, seal_private_key) -> Path:
    folder = tmp_path_factory.mktemp("master")
    pack(
        folder / "bundle",
        name="lab",
        version=3,
        model=seal_model,
        plugins=(seal_plugin("bpe", "tokenizer"), seal_plugin("standard", "sampler")),
        template=Template("same", "{{ messages }} é"),
        documents=(("LICENSE", b"as you like it\n"),),
    )
    sign_bundle(folder / "bundle", seal_private_key)
    (folder / "keys").mkdir()
    (folder / "keys" / "lab.pub").write_bytes(public_key_of(seal_private_key).to_pem())
    return folder


@pytest.fixture
def seal_lab(tmp_path, _seal_master, seal_private_key) -> SealLab:
    """A fresh copy of the signed bundle and its keys folder."""
    shutil.copytree(_seal_master, tmp_path / "lab")
    return SealLab(tmp_path / "lab" / "bundle", tmp_path / "lab" / "keys", seal_private_key)


@pytest.fixture
def plain_trust(seal_lab) -> DirectoryTrust:
    """Its keys folder, which has no policy."""
    return DirectoryTrust(seal_lab.keys)


@pytest.fixture(scope="session")
def other_private_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(b"\x09" * 32)


@pytest.fixture
def desk(tmp_path, monkeypatch, seal_lab) -> Path:
    """A working folder with key pairs a, b and c, and the lab's bundle and keys folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEALHOST_PASSPHRASE", raising=False)
    monkeypatch.setenv("SEALHOST_KEYS", str(seal_lab.keys))
    for name in "abc":
        write_key_pair(tmp_path, name, passphrase=None)
    return tmp_path


@pytest.fixture
def trust(capsys):
    """Runs one `trust` command line; answers its JSON."""

    def call(*words: str, code: int = 0) -> dict:
        capsys.readouterr()
        assert run(["trust", *words, "--json"]) == code
        said = capsys.readouterr()
        answer = json.loads(said.out)
        if code:
            assert said.err.count("\n") == 1
            return answer["error"]
        return answer

    return call
