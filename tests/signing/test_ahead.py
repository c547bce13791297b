"""Weights whose hashing begins before the bundle was looked at: the same verdicts, and nothing left behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from open_files import open_files

from sealhost.signing import Code, DirectoryTrust, SealError, ahead, apart, audit, chunks
from sealhost.signing.ahead import HashedAhead

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
"""What other tests have loaded may have threads of its own; a child that hashes needs none of them."""


@pytest.fixture(autouse=True, params=["threads", "apart"])
def how(request, monkeypatch) -> str:
    """Who hashes: one helper thread, or two processes, wherever the tests run."""
    monkeypatch.setattr(chunks, "worker_count", lambda _: 2)
    monkeypatch.setattr(apart, "worker_count", lambda _: 2)
    monkeypatch.setattr(ahead, "_alone", lambda: request.param == "apart")
    return request.param


def hash_all(ahead: HashedAhead) -> None:
    """Waits until everything was hashed: nothing is left for `audit` to read."""
    if isinstance(ahead._hashing, apart.HashedApart):
        for child in ahead._hashing._children:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        return
    for helper in ahead._hashing._helpers:
        helper.join()


def test_the_seconds_count_from_where_the_hashing_began(seal_lab) -> None:
    with HashedAhead(seal_lab.root) as ahead:
        ahead.began -= 1000
        outcome = audit(seal_lab.root, DirectoryTrust(seal_lab.keys), ahead=ahead)
    assert outcome.report.seconds > 1000


@pytest.mark.parametrize("full", [False, True])
def test_the_outcome_is_the_same(seal_lab, full) -> None:
    trust, told = DirectoryTrust(seal_lab.keys), []
    before = open_files()
    with HashedAhead(seal_lab.root) as ahead:
        hash_all(ahead)
        outcome = audit(seal_lab.root, trust, full=full, ahead=ahead, progress=lambda *at: told.append(at))
    plain = audit(seal_lab.root, trust, full=full)
    assert (outcome.digest, outcome.signers, outcome.report.bytes) == (plain.digest, plain.signers, plain.report.bytes)
    assert told[-1] == (plain.report.bytes, plain.report.bytes)
    assert open_files() <= before


def test_nothing_is_read_twice(seal_lab, monkeypatch, how) -> None:
    real, lock, read = os.preadv, threading.Lock(), []

    def counted(descriptor, buffers, at):
        got = real(descriptor, buffers, at)
        with lock:
            read.append(got)
        return got

    monkeypatch.setattr(chunks.os, "preadv", counted)
    with HashedAhead(seal_lab.root) as ahead:
        audit(seal_lab.root, DirectoryTrust(seal_lab.keys), ahead=ahead)
    # by other processes: not here, and not at all but through a map
    assert sum(read) == ((seal_lab.root / "model.gguf").stat().st_size if how == "threads" else 0)


@pytest.mark.parametrize("at", [0, (4 << 20) - 1, 4 << 20, (4 << 20) + 999])
def test_a_flipped_byte_is_refused(seal_lab, at) -> None:
    seal_lab.flip(at)
    assert refusal(seal_lab, hash_first=True) is Code.DIGEST


@pytest.mark.parametrize("size", [0, 1000, (4 << 20) + 1001])
def test_another_size_is_refused(seal_lab, size) -> None:
    os.truncate(seal_lab.root / "model.gguf", size)
    assert refusal(seal_lab) is Code.SIZE


@pytest.mark.parametrize("size", [1000, (4 << 20) + 1001])
def test_a_size_that_changes_after_the_hashing_is_refused(seal_lab, size) -> None:
    with HashedAhead(seal_lab.root) as ahead:
        hash_all(ahead)
        os.truncate(seal_lab.root / "model.gguf", size)
        with pytest.raises(SealError) as caught:
            audit(seal_lab.root, DirectoryTrust(seal_lab.keys), ahead=ahead)
    assert caught.value.code is Code.SIZE


def test_a_disk_error_of_the_helper_is_the_refusal(seal_lab, monkeypatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(chunks.os, "preadv", fail)
    monkeypatch.setattr(apart.HashedApart, "_hash", fail)
    assert refusal(seal_lab, hash_first=True) is Code.IO


@pytest.mark.parametrize("same", [True, False], ids=["right", "wrong"])
def test_a_file_put_in_the_place_of_the_hashed_one_is_hashed_itself(seal_lab, tmp_path, same) -> None:
    path = seal_lab.root / "model.gguf"
    right = path.read_bytes()
    if same:  # what was begun with is wrong, what the verifier opens is right
        path.write_bytes(bytes(len(right)))
    with HashedAhead(seal_lab.root) as ahead:
        hash_all(ahead)
        (tmp_path / "other").write_bytes(right if same else bytes(len(right)))
        (tmp_path / "other").replace(path)
        if same:
            audit(seal_lab.root, DirectoryTrust(seal_lab.keys), ahead=ahead)
            return
        with pytest.raises(SealError) as caught:
            audit(seal_lab.root, DirectoryTrust(seal_lab.keys), ahead=ahead)
    assert caught.value.code is Code.DIGEST


@pytest.mark.parametrize("state", ["missing", "symlink", "fifo", "link"])
def test_weights_that_cannot_be_opened_are_left_for_the_verifier(seal_lab, tmp_path, state) -> None:
    path = seal_lab.root / "model.gguf"
    path.rename(tmp_path / "moved")
    if state == "symlink":
        path.symlink_to(tmp_path / "moved")
    elif state == "fifo":
        os.mkfifo(path)
    elif state == "link":
        path.hardlink_to(tmp_path / "moved")
    assert refusal(seal_lab) is (Code.MISSING if state == "missing" else Code.FILETYPE)


def test_a_bundle_that_is_not_there_is_left_for_the_verifier(seal_lab) -> None:
    seal_lab.root = seal_lab.root / "gone"
    assert refusal(seal_lab) is Code.IO


@pytest.mark.parametrize("size", [1 << 40, (1 << 40) + 1], ids=["largest", "larger"])
def test_a_refusal_ends_the_hashing_at_once(seal_lab, size) -> None:
    os.truncate(seal_lab.root / "model.gguf", size)  # a terabyte of holes takes ten minutes to hash
    before = open_files()
    with HashedAhead(seal_lab.root):
        pass
    assert open_files() <= before
    assert not [thread for thread in threading.enumerate() if thread.name == "sealhost-verify"]


def test_closing_twice_is_closing_once(seal_lab) -> None:
    ahead = HashedAhead(seal_lab.root)
    ahead.close()
    ahead.close()
    assert ahead.hashing_of(0, (seal_lab.root / "model.gguf").stat().st_size) is None


def refusal(lab, *, hash_first: bool = False) -> Code:
    """The code of the refusal, which is that of an audit without a hashing ahead, too."""
    trust, codes, before = DirectoryTrust(lab.keys), [], open_files()
    with HashedAhead(Path(lab.root)) as ahead:
        if hash_first:
            hash_all(ahead)
        for begun in (ahead, None):
            with pytest.raises(SealError) as caught:
                audit(lab.root, trust, ahead=begun)
            codes.append(caught.value.code)
    assert open_files() <= before
    assert codes[0] is codes[1]
    return codes[0]
