"""Weights whose reading begins before the bundle was looked at, and that are then used: the same bytes, the same verdicts."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from consuming import load
from open_files import open_files

from sealhost.host.cli import main
from sealhost.host.cli.begun import begin, take_usual_turns
from sealhost.host.cli.handover import handed_over, take_begun
from sealhost.signing import Code, DirectoryTrust, SealError, chunks, verify
from sealhost.signing.ahead import HashedAhead


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch) -> None:
    """One helper, wherever the tests run."""
    monkeypatch.setattr(chunks, "worker_count", lambda _: 2)


@pytest.fixture
def reads(monkeypatch) -> list[int]:
    """Offsets that were read from, in order."""
    real, seen = os.preadv, []

    def preadv(descriptor, buffers, at):
        seen.append(at)
        return real(descriptor, buffers, at)

    monkeypatch.setattr(chunks.os, "preadv", preadv)
    return seen


def read_all(ahead: HashedAhead) -> None:
    """Waits until the helper has read all that it may."""
    for helper in ahead._hashing._helpers:
        helper.join()


@pytest.mark.parametrize("wait", [True, False], ids=["all", "some"])
@pytest.mark.parametrize("full", [False, True])
def test_what_was_begun_is_gone_on_with(seal_lab, reads, full, wait) -> None:
    before = open_files()
    with HashedAhead(seal_lab.root, keep=True) as ahead:
        if wait:
            read_all(ahead)
        _, got = load(seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead", full=full, ahead=ahead)
    assert got == (seal_lab.root / "model.gguf").read_bytes()
    assert sorted(reads) == [0, 4 << 20]  # each chunk once
    assert open_files() <= before


def test_what_the_helper_did_counts_as_time_of_verifying(seal_lab) -> None:
    with HashedAhead(seal_lab.root, keep=True) as ahead:
        read_all(ahead)
        spent = ahead._hashing.seconds
        bundle, _ = load(seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead", ahead=ahead)
    assert 0 < spent <= bundle.weights.seconds


def test_no_more_is_read_early_than_one_core_has_time_for(seal_lab, reads, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "_EARLY_BYTES", 4 << 20)
    with HashedAhead(seal_lab.root, keep=True) as ahead:
        read_all(ahead)
    assert reads == [0]


@pytest.mark.parametrize("at", [0, (4 << 20) - 1, 4 << 20, (4 << 20) + 999])
def test_a_flipped_byte_is_refused(seal_lab, at) -> None:
    seal_lab.flip(at)
    assert refusal(seal_lab) is Code.DIGEST


def test_bytes_are_those_that_were_hashed_whatever_is_written_later(seal_lab) -> None:
    path = seal_lab.root / "model.gguf"
    right = path.read_bytes()
    with HashedAhead(seal_lab.root, keep=True) as ahead:
        read_all(ahead)
        with path.open("r+b") as file:
            file.write(b"evil")
        _, got = load(seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead", ahead=ahead)
    assert got == right


def test_a_file_put_in_the_place_of_the_one_that_was_begun_is_read_itself(seal_lab, tmp_path) -> None:
    path = seal_lab.root / "model.gguf"
    right = path.read_bytes()
    path.write_bytes(bytes(len(right)))
    with HashedAhead(seal_lab.root, keep=True) as ahead:
        read_all(ahead)
        (tmp_path / "other").write_bytes(right)
        (tmp_path / "other").replace(path)
        _, got = load(seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead", ahead=ahead)
    assert got == right


@pytest.mark.parametrize("size", [0, 1000, (4 << 20) + 1001])
def test_another_size_is_refused(seal_lab, size) -> None:
    os.truncate(seal_lab.root / "model.gguf", size)
    assert refusal(seal_lab) is Code.SIZE


def test_a_disk_error_of_the_helper_is_the_refusal(seal_lab, monkeypatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(chunks.os, "preadv", fail)
    assert refusal(seal_lab) is Code.IO


def test_weights_that_there_is_no_room_for_are_left_for_the_verifier(seal_lab, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(chunks.mmap, "mmap", full)
    before = open_files()
    with HashedAhead(seal_lab.root, keep=True) as ahead:
        assert ahead._hashing is None
        with pytest.raises(SealError) as caught:
            verify(seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead", ahead=ahead)
    assert caught.value.code is Code.IO
    assert open_files() <= before


def test_nobody_takes_the_same_memory_twice(seal_lab, reads) -> None:
    trust, right = DirectoryTrust(seal_lab.keys), (seal_lab.root / "model.gguf").read_bytes()
    with HashedAhead(seal_lab.root, keep=True) as ahead:
        for _ in range(2):
            assert load(seal_lab.root, trust, reading="ahead", ahead=ahead)[1] == right
    assert sorted(reads) == [0, 0, 4 << 20, 4 << 20]


def test_digests_alone_are_no_weights(seal_lab) -> None:
    with HashedAhead(seal_lab.root) as ahead:
        _, got = load(seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead", ahead=ahead)
    assert got == (seal_lab.root / "model.gguf").read_bytes()


@pytest.mark.parametrize("reading", ["whole", "lazy"])
def test_only_weights_that_are_read_ahead_can_have_been_begun(seal_lab, reading) -> None:
    with HashedAhead(seal_lab.root, keep=True) as ahead, pytest.raises(ValueError, match="begun"):
        verify(seal_lab.root, DirectoryTrust(seal_lab.keys), reading=reading, ahead=ahead)


def test_weights_that_nobody_closes_end_their_helpers(seal_lab) -> None:
    before = open_files()
    bundle = verify(seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead")
    del bundle
    assert open_files() <= before
    assert not [thread for thread in threading.enumerate() if thread.name == "sealhost-verify"]


# --- the command line's guess ---


@pytest.fixture(autouse=True)
def usual_turns() -> Iterator[None]:
    """Tests that begin to load and do not go on leave other tests as they were."""
    yield
    take_usual_turns()


def test_what_a_verb_names_is_begun_and_taken_once(seal_lab) -> None:
    before = open_files()
    words = ["run", "--keys", str(seal_lab.keys), str(seal_lab.root), "a\0b", "x" * 5000]
    with begin(words) as begun, handed_over(begun):
        with take_begun() as ahead:
            _, got = load(seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead", ahead=ahead)
        with take_begun() as again:
            assert (ahead, again._hashing) == (begun, None)
    assert got == (seal_lab.root / "model.gguf").read_bytes()
    assert open_files() <= before


def test_what_nobody_takes_or_uses_is_dropped(seal_lab) -> None:
    before = open_files()
    with begin(["run", str(seal_lab.root), "hi"]) as begun:
        assert begun._hashing is not None
    with begin(["chat", str(seal_lab.root)]) as begun, handed_over(begun), take_begun() as ahead:
        assert ahead is begun
    assert open_files() <= before
    assert not [thread for thread in threading.enumerate() if thread.name == "sealhost-verify"]


@pytest.mark.parametrize(("verb", "often"), [("run", True), ("chat", True), ("bench", True), ("serve", False)])
def test_threads_take_turns_more_often_while_a_verb_imports_and_loads(seal_lab, verb, often) -> None:
    usual = sys.getswitchinterval()
    with begin([verb, str(seal_lab.root), "hi"]):
        assert (sys.getswitchinterval() < usual / 10) is often
    take_usual_turns()
    assert sys.getswitchinterval() == usual


@pytest.mark.parametrize("verb", ["run", "bench"])
def test_verbs_use_what_was_begun(seal_lab, tmp_path, monkeypatch, reads, verb) -> None:
    taken, real = [], HashedAhead.taken

    def noted(ahead: HashedAhead, *of: int) -> chunks.ChunkHashing | None:
        read_all(ahead)
        taken.append(real(ahead, *of))
        return taken[-1]

    monkeypatch.setattr(HashedAhead, "taken", noted)
    words = [verb, str(seal_lab.root), *(["hi"] if verb == "run" else [])]
    words += ["--keys", str(seal_lab.keys), "--state", str(tmp_path / "state")]
    with begin(words) as begun:
        code = main.run(words, begun)
    assert code == 1  # E_GGUF: these weights are no model
    assert None not in taken
    assert sorted(reads) == [0, 4 << 20]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["run"],
        ["serve", "{}"],
        ["run", "{}", "hi", "--lazy"],
        ["run", "{}/plugins", "a\0b", "x" * 5000],
    ],
    ids=str,
)
def test_nothing_else_begins(seal_lab, words) -> None:
    with begin([word.format(seal_lab.root) for word in words]) as begun:
        assert begun._hashing is None


def test_nothing_begins_for_a_user_who_reads_lazily(seal_lab, monkeypatch) -> None:
    monkeypatch.setenv("SEALHOST_LAZY", "1")
    with begin(["run", str(seal_lab.root), "hi"]) as begun:
        assert begun._hashing is None


def refusal(lab) -> Code:
    """The code of the refusal, which is that of a load that begins nothing, too."""
    trust, codes, before = DirectoryTrust(lab.keys), [], open_files()
    with HashedAhead(Path(lab.root), keep=True) as ahead:
        if ahead._hashing is not None:
            read_all(ahead)
        for begun_before in (ahead, None):
            with pytest.raises(SealError) as caught:
                load(lab.root, trust, reading="ahead", ahead=begun_before)
            codes.append(caught.value.code)
    assert open_files() <= before
    assert codes[0] is codes[1]
    return codes[0]
