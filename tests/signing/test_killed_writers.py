"""What a writer that is killed leaves behind keeps nobody from going on (README clauses 5.5, 9.1, 9.4, 10.8)."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from typing import TYPE_CHECKING

import pytest

from sealhost.signing import Code, DirectoryTrust, SealError
from sealhost.signing import pack as packing
from sealhost.signing.durable import locked_folder, make_folder, new_folder, write_new_file
from sealhost.signing.keys import public_key_of, write_key_pair
from sealhost.signing.sign import sign_bundle
from sealhost.signing.stewardship import Grant, add_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEFT = (".bundle.sig.new", ".bundle.sig.ab3_xyz9.new", ".model.sig.new", f"signatures/.{'a' * 64}.sig.new")


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(act: Callable[[], object]) -> None:
    """Runs it in a process of its own, which is killed on the way."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def no_unnamed_files(monkeypatch) -> None:
    """A file system that has no files without a name, such as NFS."""
    real = os.open

    def refuse(path, flags: int, *rest: int, **options: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *rest, **options)

    monkeypatch.setattr("sealhost.signing.durable.os.open", refuse)


@pytest.mark.parametrize("left", LEFT)
def test_the_next_signer_removes_what_a_killed_one_left(seal_lab, other_private_key, left) -> None:
    (seal_lab.root / left).parent.mkdir(exist_ok=True)
    (seal_lab.root / left).write_bytes(b"sealhost sig")
    with pytest.raises(SealError, match="E_UNLISTED"):
        seal_lab.verify()
    assert sign_bundle(seal_lab.root, other_private_key).path.startswith("signatures/")
    seal_lab.verify()


def test_an_empty_signatures_folder_that_a_killed_signer_made_goes_too(seal_lab) -> None:
    (seal_lab.root / "signatures").mkdir()
    sign_bundle(seal_lab.root, seal_lab.private_key)
    seal_lab.verify()


def test_a_file_of_such_a_name_that_is_listed_or_a_folder_stays(seal_lab, other_private_key) -> None:
    (seal_lab.root / ".bundle.sig.new").write_bytes(b"x")
    entry = {
        "path": ".bundle.sig.new",
        "size": 1,
        "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    }
    seal_lab.resign(seal_lab.manifest | {"files": [*seal_lab.manifest["files"], {**entry, "role": "document"}]})
    sign_bundle(seal_lab.root, other_private_key)
    seal_lab.verify()
    (seal_lab.root / ".model.sig.new").mkdir()
    with pytest.raises(SealError, match="E_UNLISTED"):
        sign_bundle(seal_lab.root, other_private_key)


@pytest.mark.parametrize("first", [True, False])
def test_a_signer_that_is_killed_before_its_signature_has_a_name_leaves_none(
    seal_lab, other_private_key, monkeypatch, first
) -> None:
    if first:
        (seal_lab.root / "bundle.sig").unlink()
    before = contents(seal_lab.root)
    with monkeypatch.context() as patch:
        patch.setattr("sealhost.signing.durable.os.link", die)
        killed(lambda: sign_bundle(seal_lab.root, other_private_key))
    assert contents(seal_lab.root) in (before, [*before, "signatures"])
    sign_bundle(seal_lab.root, other_private_key)
    seal_lab.verify() if not first else sign_bundle(seal_lab.root, seal_lab.private_key)
    seal_lab.verify()


@pytest.mark.usefixtures("no_unnamed_files")
def test_where_files_need_a_name_the_next_signer_removes_it(seal_lab, other_private_key, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sealhost.signing.durable.os.rename", die)
        killed(lambda: sign_bundle(seal_lab.root, other_private_key))
    with pytest.raises(SealError, match="E_UNLISTED"):
        seal_lab.verify()
    sign_bundle(seal_lab.root, other_private_key)
    seal_lab.verify()


@pytest.mark.usefixtures("no_unnamed_files")
def test_where_files_need_a_name_none_is_overwritten_either(tmp_path) -> None:
    write_new_file(tmp_path / "a", b"first", mode=0o640)
    with pytest.raises(SealError) as caught:
        write_new_file(tmp_path / "a", b"second", mode=0o640)
    assert caught.value.code is Code.USAGE
    assert (tmp_path / "a").read_bytes() == b"first"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert contents(tmp_path) == ["a"]


def test_without_proc_files_get_their_names_in_another_way(tmp_path, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr("sealhost.signing.durable.os.link", fail)
    write_new_file(tmp_path / "a", b"first", mode=0o600)
    assert contents(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"first"


def test_who_takes_the_name_meanwhile_keeps_it(tmp_path, monkeypatch) -> None:
    real = os.link

    def overtaken(*arguments: str, **options: bool) -> None:
        (tmp_path / "a").write_bytes(b"theirs")
        real(*arguments, **options)

    monkeypatch.setattr("sealhost.signing.durable.os.link", overtaken)
    with pytest.raises(SealError, match="E_USAGE"):
        write_new_file(tmp_path / "a", b"ours", mode=0o600)
    assert (tmp_path / "a").read_bytes() == b"theirs"


def test_a_folder_above_that_may_be_written_and_not_read_is_enough_for_a_pack(
    tmp_path, make_seal_plugin, monkeypatch
) -> None:
    def fail(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    plugin = make_seal_plugin("standard", "sampler")
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.iterdir", fail)
        pack_lab(tmp_path / "out", plugin)
    assert contents(tmp_path)[0] == "out"


def test_of_two_who_sign_an_unsigned_bundle_at_a_time_neither_is_lost(seal_lab, other_private_key) -> None:
    (seal_lab.root / "bundle.sig").unlink()
    overtaken: list[str] = []

    def overtake(*_: int) -> None:
        if not overtaken:
            overtaken.append("")
            overtaken[0] = sign_bundle(seal_lab.root, other_private_key).path

    signed = sign_bundle(seal_lab.root, seal_lab.private_key, progress=overtake)
    assert (overtaken[0], signed.path) == ("bundle.sig", f"signatures/{public_key_of(seal_lab.private_key).key_id}.sig")
    seal_lab.verify()


def test_a_keygen_that_is_killed_leaves_no_half_key(tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sealhost.signing.durable.os.link", die)
        killed(lambda: write_key_pair(tmp_path, "acme", passphrase=None))
    assert contents(tmp_path) == []
    write_key_pair(tmp_path, "acme", passphrase=None)


@pytest.mark.parametrize("call", ["link", "fsync"])
def test_a_killed_trust_add_leaves_a_folder_that_works(seal_lab, other_private_key, monkeypatch, call) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"sealhost.signing.durable.os.{call}", die)
        killed(lambda: add_key(seal_lab.keys, public_key_of(other_private_key), Grant("other")))
    DirectoryTrust(seal_lab.keys)
    add_key(seal_lab.keys, public_key_of(other_private_key), Grant("other"))
    assert len(DirectoryTrust(seal_lab.keys).keys) == 2


def pack_lab(out: Path, plugin) -> packing.Packed:
    return packing.pack(out, name="tools", version=1, model=None, plugins=(plugin,))


def test_the_next_pack_removes_what_a_killed_one_left(tmp_path, make_seal_plugin, monkeypatch) -> None:
    plugin = make_seal_plugin("standard", "sampler")
    with monkeypatch.context() as patch:
        patch.setattr("sealhost.signing.pack._publish", die)
        killed(lambda: pack_lab(tmp_path / "out", plugin))
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.")
    pack_lab(tmp_path / "another", plugin)
    assert left.exists()
    pack_lab(tmp_path / "out", plugin)
    assert contents(tmp_path) == sorted({*contents(tmp_path)} - {left.name})
    assert not left.exists()


def test_what_somebody_still_fills_stays_and_so_does_what_is_not_ours(tmp_path, make_seal_plugin) -> None:
    busy, empty, link = (tmp_path / f".out.{name}.tmp" for name in ("abcdefgh", "ijklmnop", "qrstuvwx"))
    for folder in (busy, empty):
        folder.mkdir()
    (busy / "model.gguf").touch()
    link.symlink_to(busy)
    descriptor = os.open(busy, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        pack_lab(tmp_path / "out", make_seal_plugin("standard", "sampler"))
    finally:
        os.close(descriptor)
    assert (busy / "model.gguf").exists()
    assert empty.exists()
    assert link.is_symlink()


def test_a_file_system_without_locks_is_told_and_removes_nothing(tmp_path, monkeypatch) -> None:
    def fail(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    (tmp_path / ".new.abcdefgh.tmp").mkdir()
    (tmp_path / ".new.abcdefgh.tmp" / "x").touch()
    monkeypatch.setattr("sealhost.signing.durable.fcntl.flock", fail)
    with pytest.raises(SealError, match=r"E_IO .*No locks available"), locked_folder(tmp_path):
        pass
    with new_folder(tmp_path / "new") as folder:
        folder.rename(tmp_path / "new")
    assert contents(tmp_path) == [".new.abcdefgh.tmp", ".new.abcdefgh.tmp/x", "new"]


def test_folders_above_keys_are_made_for_their_owner_alone_to_write(tmp_path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b" / "keys")
        make_folder(tmp_path / "a" / "b" / "keys")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")} == {0o755}
