"""Nothing is parsed before it is authenticated, and nothing is used but what was hashed (README chapters 6, 7)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

import sealhost.signing
from sealhost.signing import Code, DirectoryTrust, SealError, audit, verify
from sealhost.signing.keys import public_key_of

# the package re-exports the function under the module's name
VERIFY = import_module("sealhost.signing.verification")


def poison(monkeypatch, module: object, name: str) -> None:
    def called(*_: object, **__: object) -> None:
        raise AssertionError(f"{name} ran too early")

    monkeypatch.setattr(module, name, called)


def test_the_manifest_is_not_parsed_under_a_wrong_signature(seal_lab, monkeypatch) -> None:
    poison(monkeypatch, VERIFY, "parse_manifest")
    poison(monkeypatch, VERIFY, "check_content")
    seal_lab.write_signature(bytes(31) + b"\1" + bytes(32))
    with pytest.raises(SealError) as caught:
        seal_lab.verify()
    assert caught.value.code is Code.SIG


def test_the_manifest_is_not_even_read_without_a_trusted_key(seal_lab, other_private_key) -> None:
    (seal_lab.keys / "lab.pub").write_bytes(public_key_of(other_private_key).to_pem())
    (seal_lab.root / "manifest.json").unlink()
    with pytest.raises(SealError) as caught:
        seal_lab.verify()
    assert caught.value.code is Code.UNTRUSTED


def test_the_policy_is_asked_before_any_file_is_listed(seal_lab, monkeypatch) -> None:
    class Refusing(DirectoryTrust):
        def authorise(self, manifest, signers) -> None:
            raise SealError(Code.THRESHOLD, manifest.name, f"expected 2 signers, got {len(signers)}", "ask the second")

    poison(monkeypatch, VERIFY, "check_content")
    with pytest.raises(SealError) as caught:
        verify(seal_lab.root, Refusing(seal_lab.keys))
    assert caught.value.code is Code.THRESHOLD


@pytest.mark.parametrize(("code", "accepted"), [(Code.REVOKED, True), (Code.EXPIRED, True), (Code.CLOCK, False)])
def test_a_policy_that_refuses_one_key_may_leave_the_others_or_refuse_all(
    seal_lab, other_private_key, code, accepted
) -> None:
    from sealhost.signing.sign import sign_bundle

    sign_bundle(seal_lab.root, other_private_key)
    other = public_key_of(other_private_key)

    class Choosy(DirectoryTrust):
        def key(self, key_id):
            if key_id == other.key_id:
                raise SealError(code, "key", "expected another key, got this one", "ask the publisher")
            return super().key(key_id)

    if accepted:
        assert len(verify(seal_lab.root, Choosy(seal_lab.keys)).signers) == 1
        return
    with pytest.raises(SealError) as caught:
        verify(seal_lab.root, Choosy(seal_lab.keys))
    assert caught.value.code is code


def test_a_directory_trust_refuses_signers_that_it_does_not_know(seal_lab) -> None:
    manifest = seal_lab.verify().manifest
    with pytest.raises(SealError) as caught:
        DirectoryTrust(seal_lab.keys).authorise(manifest, frozenset({"0" * 64}))
    assert caught.value.code is Code.UNTRUSTED


def test_files_are_opened_in_the_order_of_the_clauses(seal_lab, monkeypatch) -> None:
    trust = DirectoryTrust(seal_lab.keys)
    opened: list[str] = []
    real_open = os.open
    monkeypatch.setattr(
        "sealhost.signing.source.os.open", lambda p, *a, **k: opened.append(os.fspath(p)) or real_open(p, *a, **k)
    )
    verify(seal_lab.root, trust)
    files = [name for name in opened if "." in Path(name).name or name == "LICENSE"]
    assert files[:2] == ["bundle.sig", "manifest.json"]
    assert files[-1] == "model.gguf"
    assert sorted(set(files)) == sorted(files), "a file was opened twice"


def test_no_parser_of_content_is_loaded_by_the_verifier() -> None:
    code = (
        "import sys; from sealhost.signing import *; bad = [m for m in ('numpy', 'wasmtime', 'minijinja', 'gguf', "
        "'sealhost.signing.sign', 'sealhost.signing.pack') if m in sys.modules]; sys.exit(repr(bad) if bad else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sign_bundle'"):
        _ = sealhost.signing.sign_bundle


def test_only_the_verifier_holds_the_token_that_makes_verified_bundles() -> None:
    home = Path(sealhost.signing.__file__).parent.parent
    rooms = [home / room for room in ("host", "sandbox", "signing", "kernels", "plugins")]
    holders = set()
    for path in (file for room in rooms for file in room.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(
            isinstance(node, ast.Name | ast.alias) and "MADE_BY_VERIFY" in ast.dump(node) for node in ast.walk(tree)
        ):
            holders.add(path.name)
    assert holders == {"bundle.py", "verification.py"}


def test_a_later_write_to_the_file_does_not_reach_verified_weights(seal_lab, seal_model) -> None:
    bundle = seal_lab.verify()
    with (seal_lab.root / "model.gguf").open("r+b") as file:
        file.write(b"EVIL" * 4096)
    assert bytes(bundle.weights.view(0, bundle.weights.size)) == seal_model.read_bytes()
    os.truncate(seal_lab.root / "model.gguf", 0)  # a map of the file would now raise SIGBUS
    assert bytes(bundle.weights.view(0, bundle.weights.size)) == seal_model.read_bytes()


@pytest.mark.parametrize("check", [verify, audit])
@pytest.mark.parametrize(
    ("tamper", "code"),
    [
        (lambda path: os.truncate(path, 1 << 20), Code.SIZE),
        (lambda path: os.truncate(path, (4 << 20) + 2000), Code.SIZE),
        (lambda path: path.write_bytes(bytes((4 << 20) + 1000)), Code.DIGEST),
        (lambda path: path.rename(path.with_name("gone")), None),
    ],
    ids=["cut", "grown", "rewritten", "renamed"],
)
def test_what_happens_to_the_weights_while_they_are_read(seal_lab, monkeypatch, tamper, code, check) -> None:
    """Strikes just before the first byte of the weights is read: the file is open, its size was compared."""
    path, once, lock = seal_lab.root / "model.gguf", [True], threading.Lock()
    real_preadv = os.preadv

    def strike(*arguments: object) -> int:
        with lock:
            if once:
                once.clear()
                tamper(path)
        return real_preadv(*arguments)

    trust = DirectoryTrust(seal_lab.keys)
    monkeypatch.setattr("sealhost.signing.chunks.os.preadv", strike)
    if code is None:
        check(seal_lab.root, trust)  # the open file is still the one that was listed
        return
    with pytest.raises(SealError) as caught:
        check(seal_lab.root, trust)
    assert caught.value.code is code


def test_a_small_file_that_grows_while_it_is_read_is_refused(seal_lab, monkeypatch) -> None:
    real_read = os.read

    def grow(descriptor: int, count: int) -> bytes:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        if target.name == "LICENSE":
            with target.open("ab") as file:
                file.write(b"more")
        return real_read(descriptor, count)

    monkeypatch.setattr("sealhost.signing.source.os.read", grow)
    with pytest.raises(SealError) as caught:
        seal_lab.verify()
    assert (caught.value.code, caught.value.where) == (Code.SIZE, "documents/LICENSE")


def test_a_file_that_is_swapped_between_looking_and_opening_is_refused(seal_lab, monkeypatch) -> None:
    real_stat = os.stat

    def swap(name, *arguments: object, **options: object):
        status = real_stat(name, *arguments, **options)
        if name == "bpe.wasm":
            path = seal_lab.root / "plugins" / "bpe.wasm"
            path.rename(seal_lab.root.parent / "moved")
            os.mkfifo(path)
        return status

    monkeypatch.setattr("sealhost.signing.source.os.stat", swap)
    with pytest.raises(SealError) as caught:
        seal_lab.verify()
    assert caught.value.code is Code.FILETYPE


@pytest.mark.parametrize("check", [verify, audit])
@pytest.mark.parametrize("failing", ["preadv", "read", "scandir"])
def test_a_disk_error_is_an_io_refusal(seal_lab, monkeypatch, failing, check) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    trust = DirectoryTrust(seal_lab.keys)
    module = "chunks" if failing == "preadv" else "source"
    monkeypatch.setattr(f"sealhost.signing.{module}.os.{failing}", fail)
    with pytest.raises(SealError) as caught:
        check(seal_lab.root, trust)
    assert caught.value.code is Code.IO
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("name", ["not there", "not\0there"])
def test_a_bundle_that_is_not_there_is_an_io_refusal(seal_lab, name) -> None:
    with pytest.raises(SealError) as caught:
        verify(seal_lab.root.parent / name, DirectoryTrust(seal_lab.keys))
    assert caught.value.code is Code.IO


def test_no_memory_for_the_weights_is_an_io_refusal(seal_lab, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("sealhost.signing.weights.mmap.mmap", fail)
    with pytest.raises(SealError, match="free memory"):
        seal_lab.verify()
