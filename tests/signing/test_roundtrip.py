"""What a publisher makes is what an operator gets: keygen, pack, sign, verify through the functions."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import os

import pytest

from sealhost.signing import (
    Code,
    DirectoryTrust,
    SealError,
    VerifiedBundle,
    VerifyReport,
    audit,
    content,
    inspect,
    verify,
)
from sealhost.signing.keys import parse_private_key, public_key_of, read_private_key_file, write_key_pair
from sealhost.signing.pack import pack
from sealhost.signing.sign import sign_bundle


def test_keygen_pack_sign_and_verify_fit_together(tmp_path, seal_model, make_seal_plugin) -> None:
    (tmp_path / "keys").mkdir()
    key = write_key_pair(tmp_path, "acme", passphrase=b"correct horse")
    (tmp_path / "acme.pub").rename(tmp_path / "keys" / "acme.pub")
    packed = pack(
        tmp_path / "bundle",
        name="acme-1b",
        version=7,
        model=seal_model,
        plugins=(make_seal_plugin("bpe", "tokenizer"), make_seal_plugin("standard", "sampler")),
    )
    pem = read_private_key_file(tmp_path / "acme.key")
    signed = sign_bundle(tmp_path / "bundle", parse_private_key(pem, b"correct horse", "acme.key"))
    bundle = verify(tmp_path / "bundle", DirectoryTrust(tmp_path / "keys"))
    assert bundle.digest == packed.digest == signed.digest
    assert bundle.signers == (key.key_id,) == (signed.key_id,)
    assert bundle.weights is not None
    assert bytes(bundle.weights.view(0, bundle.weights.size)) == seal_model.read_bytes()
    assert (bundle.manifest.name, bundle.manifest.version, bundle.template) == ("acme-1b", 7, None)


def test_a_verified_bundle_holds_the_bytes_that_were_packed(seal_lab, seal_model) -> None:
    bundle = seal_lab.verify()
    assert bundle.template == "{{ messages }} é"
    assert [(plugin.name, plugin.role, plugin.tier) for plugin in bundle.plugins] == [
        ("bpe", "tokenizer", ""),
        ("standard", "sampler", "full"),
    ]
    for plugin in bundle.plugins:
        assert plugin.sha256 == hashlib.sha256(plugin.wasm).hexdigest()
        assert plugin.limits.memory_bytes == 1 << 20
    assert bundle.plugins[1].config_schema == {"type": "object"}
    assert bundle.weights.size == seal_model.stat().st_size
    assert bundle.weights.view(0, 1).readonly
    assert bundle.report.bytes == sum(entry.size for entry in bundle.manifest.files)
    assert bundle.report.seconds > 0
    assert bundle.digest == hashlib.sha256((seal_lab.root / "manifest.json").read_bytes()).hexdigest()


def test_a_plugin_bundle_has_no_weights(tmp_path, make_seal_plugin, seal_private_key, seal_lab) -> None:
    pack(tmp_path / "p", name="mine", version=1, model=None, plugins=(make_seal_plugin("mine", "sampler"),))
    sign_bundle(tmp_path / "p", seal_private_key)
    bundle = verify(tmp_path / "p", DirectoryTrust(seal_lab.keys))
    assert (bundle.manifest.kind, bundle.weights, bundle.template) == ("plugin", None, None)
    assert [plugin.name for plugin in bundle.plugins] == ["mine"]


def test_progress_ends_at_the_total_and_never_goes_back(seal_lab) -> None:
    calls: list[tuple[int, int]] = []
    bundle = seal_lab.verify(progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1] == (bundle.report.bytes, bundle.report.bytes)


def test_a_caller_can_stop_verifying_from_its_progress_callback(seal_lab) -> None:
    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seal_lab.verify(progress=stop)


def test_only_verify_can_make_a_verified_bundle(seal_lab) -> None:
    bundle = seal_lab.verify()
    fields = {field.name: getattr(bundle, field.name) for field in dataclasses.fields(bundle)}
    with pytest.raises(TypeError):
        VerifiedBundle(**fields)
    with pytest.raises(TypeError, match="call verify"):
        VerifiedBundle(**fields, token=object())
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(bundle, report=VerifyReport(0.0, 0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        bundle.digest = "0" * 64
    assert copy.copy(bundle) == bundle


def test_audit_agrees_with_verify_and_keeps_no_bytes(seal_lab) -> None:
    bundle, outcome = seal_lab.verify(), audit(seal_lab.root, DirectoryTrust(seal_lab.keys), full=True)
    assert (outcome.digest, outcome.signers, outcome.manifest) == (bundle.digest, bundle.signers, bundle.manifest)
    assert not hasattr(outcome, "weights")


def test_a_signature_file_with_crlf_still_verifies(seal_lab) -> None:
    path = seal_lab.root / "bundle.sig"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert seal_lab.verify().signers


def test_a_foreign_model_sig_may_lie_beside_ours(seal_lab) -> None:
    (seal_lab.root / "model.sig").write_text("{}")
    assert seal_lab.verify().signers


def test_a_second_signer_goes_to_signatures_and_both_count(seal_lab, other_private_key) -> None:
    signed = sign_bundle(seal_lab.root, other_private_key)
    assert signed.path == f"signatures/{signed.key_id}.sig"
    assert signed.key_id not in seal_lab.verify().signers  # not trusted: neither counted nor in the way
    (seal_lab.keys / "other.pub").write_bytes(public_key_of(other_private_key).to_ssh("second signer"))
    assert seal_lab.verify().signers == tuple(sorted((signed.key_id, public_key_of(seal_lab.private_key).key_id)))
    (seal_lab.keys / "lab.pub").unlink()
    assert seal_lab.verify().signers == (signed.key_id,)


def test_signing_twice_changes_nothing(seal_lab) -> None:
    before = sorted((path, path.read_bytes()) for path in seal_lab.root.rglob("*") if path.is_file())
    assert sign_bundle(seal_lab.root, seal_lab.private_key).path == "bundle.sig"
    assert sorted((path, path.read_bytes()) for path in seal_lab.root.rglob("*") if path.is_file()) == before


def test_a_stale_signature_is_refused_and_not_replaced(seal_lab) -> None:
    seal_lab.write_signature(seal_lab.private_key.sign(b"something else"))
    with pytest.raises(SealError) as caught:
        sign_bundle(seal_lab.root, seal_lab.private_key)
    assert caught.value.code is Code.SIG


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda root: (root / "model.gguf").write_bytes(b"GGUF"), Code.SIZE),
        (lambda root: (root / "x").touch(), Code.UNLISTED),
        (lambda root: (root / "plugins/bpe.wasm").unlink(), Code.MISSING),
        (lambda root: (root / "plugins/bpe.wasm").write_bytes(bytes(11)), Code.DIGEST),
        (lambda root: (root / "manifest.json").write_text("{}"), Code.MANIFEST),
    ],
)
def test_nobody_signs_what_would_not_verify(seal_lab, damage, code) -> None:
    (seal_lab.root / "bundle.sig").unlink()
    damage(seal_lab.root)
    with pytest.raises(SealError) as caught:
        sign_bundle(seal_lab.root, seal_lab.private_key)
    assert caught.value.code is code
    assert not (seal_lab.root / "bundle.sig").exists()


def test_the_signer_refuses_a_flat_digest_that_contradicts_the_chunks(seal_lab) -> None:
    manifest = seal_lab.manifest
    manifest["files"][0]["sha256"] = "0" * 64
    seal_lab.resign(manifest)
    (seal_lab.root / "bundle.sig").unlink()
    with pytest.raises(SealError, match="flat sha256"):
        sign_bundle(seal_lab.root, seal_lab.private_key)


def test_a_failed_signature_leaves_nothing_behind(seal_lab, other_private_key, monkeypatch) -> None:
    before = sorted(seal_lab.root.rglob("*"))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sealhost.signing.keys.os.fsync", fail)
    with pytest.raises(SealError) as caught:
        sign_bundle(seal_lab.root, other_private_key)
    assert caught.value.code is Code.IO
    monkeypatch.undo()
    assert sorted(seal_lab.root.rglob("*")) == before
    assert seal_lab.verify().signers


def test_a_refusal_names_what_changed_what_is_missing_and_what_is_extra(seal_lab) -> None:
    (seal_lab.root / "plugins/bpe.wasm").write_bytes(b"longer than before")
    (seal_lab.root / "plugins/standard.wasm").unlink()
    for name in "abcde":
        (seal_lab.root / name).touch()
    with pytest.raises(SealError) as caught:
        seal_lab.verify()
    error = caught.value
    assert error.changed == ("plugins/bpe.wasm",)
    assert error.missing == ("plugins/standard.wasm",)
    assert error.extra == ("a", "b", "c", "d", "e")
    expected = "changed: 1 (plugins/bpe.wasm); missing: 1 (plugins/standard.wasm); extra: 5 (a, b, c, …)"
    assert expected in str(error)


def test_every_changed_file_of_equal_size_is_named(seal_lab) -> None:
    for path in ("plugins/bpe.wasm", "documents/LICENSE", "model.gguf"):
        data = bytearray((seal_lab.root / path).read_bytes())
        data[-1] ^= 1
        (seal_lab.root / path).write_bytes(data)
    with pytest.raises(SealError) as caught:
        seal_lab.verify()
    assert set(caught.value.changed) == {"plugins/bpe.wasm", "documents/LICENSE", "model.gguf"}


def test_a_changed_chunk_is_named_with_both_digests(seal_lab) -> None:
    data = bytearray((seal_lab.root / "model.gguf").read_bytes())
    data[(4 << 20) + 3] ^= 1
    (seal_lab.root / "model.gguf").write_bytes(data)
    table = (seal_lab.root / "model.gguf.chunks").read_bytes()
    found = hashlib.sha256(data[4 << 20 :]).hexdigest()
    for check, counted in ((verify, ""), (audit, " (1 of 2 chunks differ)")):
        with pytest.raises(SealError) as caught:
            check(seal_lab.root, DirectoryTrust(seal_lab.keys))
        assert f"expected sha256 {table[32:].hex()[:16]}… for chunk 1 (bytes from 4194304)" in str(caught.value)
        assert f"got {found[:16]}…{counted};" in str(caught.value)


def test_inspect_shows_claims_and_says_that_nobody_checked_them(seal_lab) -> None:
    (seal_lab.root / "model.gguf").write_bytes(b"changed")
    facts = inspect(seal_lab.root)
    assert facts["verified"] is False
    assert facts["manifest"]["name"] == "lab"
    assert facts["claimed_signers"] == [public_key_of(seal_lab.private_key).key_id]
    (seal_lab.root / "bundle.sig").unlink()
    assert inspect(seal_lab.root)["claimed_signers"] == []
    (seal_lab.root / "bundle.sig").write_text("nonsense")
    with pytest.raises(SealError) as caught:
        inspect(seal_lab.root)
    assert caught.value.code is Code.SIG


def test_a_template_that_is_not_utf8_is_refused(seal_lab) -> None:
    manifest = seal_lab.manifest
    entry = next(entry for entry in manifest["files"] if entry["role"] == "template")
    entry["sha256"], entry["size"] = hashlib.sha256(b"\xff\xfe").hexdigest(), 2
    (seal_lab.root / entry["path"]).write_bytes(b"\xff\xfe")
    seal_lab.resign(manifest)
    with pytest.raises(SealError) as caught:
        seal_lab.verify()
    assert (caught.value.code, caught.value.where) == (Code.TEMPLATE, "chat_template.jinja")


def test_a_bundle_with_a_broken_signature_file_is_not_signed_again(seal_lab, other_private_key) -> None:
    (seal_lab.root / "bundle.sig").write_text("sealhost signature v1\nkey x\nsig ???\n")
    with pytest.raises(SealError, match="not base64") as caught:
        sign_bundle(seal_lab.root, other_private_key)
    assert caught.value.code is Code.SIG


def test_a_signature_that_cannot_be_placed_is_an_io_refusal(seal_lab, other_private_key, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(type(seal_lab.root), "mkdir", fail)
    with pytest.raises(SealError, match="Read-only") as caught:
        sign_bundle(seal_lab.root, other_private_key)
    assert caught.value.code is Code.IO


def test_weights_that_are_cut_before_the_flat_digest_is_taken_are_refused(seal_lab, monkeypatch) -> None:
    real = content.flat_digest

    def cut_first(descriptor: int, path: str, size: int) -> str:
        os.truncate(seal_lab.root / path, 1 << 20)
        return real(descriptor, path, size)

    monkeypatch.setattr(content, "flat_digest", cut_first)
    with pytest.raises(SealError) as caught:
        audit(seal_lab.root, DirectoryTrust(seal_lab.keys), full=True)
    assert caught.value.code is Code.SIZE
