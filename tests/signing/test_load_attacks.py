"""Every file of attacks/load strikes while a model is loaded and verified meanwhile: a refusal, or the signed bytes.

The bundle has eleven chunks and the read-ahead is one chunk, so that what is struck after two were consumed has not been
read. Each attack meets weights that are read ahead and lazy ones that are touched in order.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from consuming import STEP, load, settle

from sealhost.signing import DirectoryTrust, SealError, VerifiedWeights
from sealhost.signing.limits import CHUNK_BYTES
from sealhost.signing.pack import pack
from sealhost.signing.sign import sign_bundle

FILES = sorted((Path(__file__).parent / "attacks" / "load").glob("*.toml"))
ATTACKS = [tomllib.loads(path.read_text(encoding="utf-8")) for path in FILES]
SIZE = 10 * CHUNK_BYTES + 12345
STRUCK_AFTER = 2 * CHUNK_BYTES
"""Bytes that are consumed before an attack strikes."""


def chunk_content(index: int) -> bytes:
    return (b"GGUF" if index == 0 else b"%4d" % index) + bytes(min(CHUNK_BYTES, SIZE - index * CHUNK_BYTES) - 4)


@pytest.fixture(scope="module")
def long_bundle(tmp_path_factory, make_seal_plugin, seal_private_key) -> tuple[Path, bytes]:
    folder = tmp_path_factory.mktemp("long")
    content = b"".join(map(chunk_content, range(11)))
    (folder / "m.gguf").write_bytes(content)
    pack(
        folder / "bundle",
        name="long",
        version=1,
        model=folder / "m.gguf",
        plugins=(make_seal_plugin("bpe", "tokenizer"), make_seal_plugin("standard", "sampler")),
    )
    sign_bundle(folder / "bundle", seal_private_key)
    return folder / "bundle", content


@pytest.fixture
def long_lab(long_bundle, seal_lab):
    """The lab's publisher with a bundle of eleven chunks; the weights take no room where they are zeros."""
    root, content = long_bundle
    for path in (root / name for name in ("manifest.json", "model.gguf.chunks", "bundle.sig")):
        (seal_lab.root / path.name).write_bytes(path.read_bytes())
    for name in ("chat_template.jinja", "documents/LICENSE"):
        (seal_lab.root / name).unlink()
    (seal_lab.root / "documents").rmdir()
    with (seal_lab.root / "model.gguf").open("wb") as file:
        file.truncate(SIZE)
        for index in range(11):
            os.pwrite(file.fileno(), content[index * CHUNK_BYTES :][:4], index * CHUNK_BYTES)
    seal_lab.content = content
    return seal_lab


# --- operations ---


def flip(lab, chunk: int = 0, at: int = 0) -> None:
    length = min(CHUNK_BYTES, SIZE - chunk * CHUNK_BYTES)
    lab.flip(chunk * CHUNK_BYTES + at % length)


def cut(lab, to: int) -> None:
    os.truncate(lab.root / "model.gguf", to % SIZE)


def grow(lab) -> None:
    os.truncate(lab.root / "model.gguf", SIZE + 1)


def cut_and_grow(lab) -> None:
    os.truncate(lab.root / "model.gguf", 0)
    os.truncate(lab.root / "model.gguf", SIZE)


def replace(lab) -> None:
    other = lab.root.parent / "other"
    other.write_bytes(b"EVIL" + bytes(SIZE - 4))
    other.rename(lab.root / "model.gguf")


def remove(lab) -> None:
    (lab.root / "model.gguf").unlink()


def rename_bundle(lab) -> None:
    lab.root.rename(lab.root.with_name("away"))


def rewrite_with_table(lab) -> None:
    path = lab.root / "model.gguf"
    path.write_bytes(bytes(SIZE))
    zeros = [hashlib.sha256(bytes(len(chunk_content(index)))).digest() for index in range(11)]
    (lab.root / "model.gguf.chunks").write_bytes(b"".join(zeros))


def _sign(lab, table: bytes, **weights: str) -> None:
    (lab.root / "model.gguf.chunks").write_bytes(table)
    manifest = lab.manifest
    digest = hashlib.sha256(table).hexdigest()
    for entry in manifest["files"]:
        if entry["role"] == "weights":
            entry |= {"chunks_sha256": digest, **weights}
        if entry["role"] == "chunks":
            entry["sha256"] = digest
    lab.resign(json.dumps(manifest).encode())


def sign_lying_table(lab, chunk: int) -> None:
    table = bytearray((lab.root / "model.gguf.chunks").read_bytes())
    table[32 * chunk] ^= 1
    _sign(lab, bytes(table))


def sign_swapped_table(lab, a: int, b: int) -> None:
    table = (lab.root / "model.gguf.chunks").read_bytes()
    rows = [table[at : at + 32] for at in range(0, len(table), 32)]
    rows[a], rows[b] = rows[b], rows[a]
    _sign(lab, b"".join(rows))


def sign_lying_flat_digest(lab) -> None:
    _sign(lab, (lab.root / "model.gguf.chunks").read_bytes(), sha256="0" * 64)


OPERATIONS = {
    operation.__name__: operation
    for operation in (
        *(flip, cut, grow, cut_and_grow, replace, remove, rename_bundle, rewrite_with_table),
        *(sign_lying_table, sign_swapped_table, sign_lying_flat_digest),
    )
}
KEYS = {"expect", "name", "do", "when", "full"}


CASES = [
    pytest.param(attack, reading, id=f"{attack['name']} ({reading})")
    for attack in ATTACKS
    for reading in ("ahead", "lazy")
    if not (attack.get("full") and reading == "lazy")  # lazy weights have no flat digest
]


@pytest.mark.parametrize(("attack", "reading"), CASES)
def test_an_attack_during_a_load_is_refused_or_has_no_effect(
    attack: dict[str, Any], reading, long_lab, monkeypatch
) -> None:
    monkeypatch.setattr("sealhost.signing.weights.worker_count", lambda _: 1)
    monkeypatch.setattr("sealhost.signing.chunks.worker_count", lambda _: 1)  # nothing before it is asked for
    monkeypatch.setattr("sealhost.signing.weights.ahead_chunks", lambda *_: 1)
    full = attack.get("full", False)
    arguments = {key: value for key, value in attack.items() if key not in KEYS}
    struck = []

    def strike() -> None:
        struck.append(True)
        OPERATIONS[attack["do"]](long_lab, **arguments)

    def after(weights: VerifiedWeights, consumed: int) -> None:
        if consumed >= STRUCK_AFTER and not struck:
            settle(weights)
            strike()

    if attack.get("when") == "before":
        strike()
    trust = DirectoryTrust(long_lab.keys)
    if attack["expect"] == "accepted":
        _, loaded = load(long_lab.root, trust, reading=reading, after=after, full=full)
        assert loaded == long_lab.content
    else:
        with pytest.raises(SealError) as caught:
            load(long_lab.root, trust, reading=reading, after=after, full=full)
        assert [str(caught.value.code), caught.value.where] == attack["expect"].split()
        assert str(caught.value).isprintable()
    assert struck


def test_the_attack_table_is_whole() -> None:
    names = [attack["name"] for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 20
    assert all(path.read_text(encoding="utf-8").startswith("expect = ") for path in FILES)
    assert {attack["do"] for attack in ATTACKS} == set(OPERATIONS)
    assert STEP < CHUNK_BYTES


def test_the_untouched_bundle_loads(long_lab) -> None:
    for options in ({"reading": "ahead", "full": True}, {"reading": "ahead"}, {"reading": "lazy"}):
        assert load(long_lab.root, DirectoryTrust(long_lab.keys), **options)[1] == long_lab.content
