"""Hashing in processes of their own: what becomes of those that end badly, and of those that nobody needs any more."""

from __future__ import annotations

import errno
import faulthandler
import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from open_files import open_files

from sealhost.signing import Code, SealError, ahead, apart
from sealhost.signing.ahead import HashedAhead
from sealhost.signing.apart import HashedApart
from sealhost.signing.chunks import ChunkHashing, Meter, chunk_table
from sealhost.signing.limits import CHUNK_BYTES

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
"""What other tests have loaded may have threads of its own; a child that hashes needs none of them."""

SIZE = 5 * CHUNK_BYTES + 777


@pytest.fixture
def big(tmp_path):
    """A file of six chunks that differ."""
    path = tmp_path / "big"
    path.write_bytes(b"".join(bytes([index]) * CHUNK_BYTES for index in range(6))[:SIZE])
    return path


@pytest.fixture
def begin(big, monkeypatch):
    """Begins to hash the file, in two processes; whatever was begun is ended with the test."""
    monkeypatch.setattr(apart, "worker_count", lambda _: 2)
    children, before = children_of_this(), open_files()
    descriptor, begun = os.open(big, os.O_RDONLY), []

    def make() -> HashedApart:
        begun.append(HashedApart(descriptor, "big", SIZE))
        return begun[-1]

    yield make
    for one in begun:
        one.stop()
        one.stop()
    os.close(descriptor)
    assert open_files() <= before
    assert children_of_this() <= children  # nobody is left; the others are servers of other tests


def children_of_this() -> set[str]:
    """Also those that have ended, until somebody has waited for them."""
    return {child for path in Path("/proc/self/task").glob("*/children") for child in path.read_text().split()}


def table_of(big: Path) -> bytes:
    descriptor = os.open(big, os.O_RDONLY)
    try:
        return chunk_table(descriptor, "big", SIZE, Meter(SIZE, None))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("tickets", [1, 2, 4, 1024])
def test_the_table_is_the_same_however_the_work_is_dealt(begin, big, monkeypatch, tickets) -> None:
    monkeypatch.setattr(apart, "_MOST_TICKETS", tickets)
    told: list[int] = []
    assert begin().table(Meter(SIZE, lambda done, _: told.append(done))) == table_of(big)
    assert told == sorted(set(told))
    assert told[-1] == SIZE


def test_a_process_that_is_ended_by_the_cut_of_its_file_refuses_the_file(begin, big, monkeypatch) -> None:
    """A real SIGBUS, in the middle of SHA-256."""
    caller, statuses, real = os.getpid(), [], os.waitpid

    def cut(chunk):
        if os.getpid() != caller:
            faulthandler.disable()  # pytest's, which would tell the story at length
            os.truncate(big, 0)
        return hashlib.sha256(chunk)

    def waited(child: int, options: int) -> tuple[int, int]:
        answer = real(child, options)
        statuses.append(answer[1])
        return answer

    monkeypatch.setattr(apart, "hashlib", type("Cutting", (), {"sha256": staticmethod(cut)}))
    monkeypatch.setattr(apart.os, "waitpid", waited)
    with pytest.raises(SealError) as caught:
        begin().table(Meter(SIZE, None))
    assert caught.value.code is Code.SIZE
    assert signal.SIGBUS in [os.WTERMSIG(status) for status in statuses]


def test_what_a_process_could_not_do_is_done_without_it(begin, big, monkeypatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(HashedApart, "_hash", fail)
    meter = Meter(SIZE, None)
    assert begin().table(meter) == table_of(big)
    assert meter.done == SIZE


def test_a_process_that_is_killed_is_not_believed(begin, big) -> None:
    hashing = begin()
    for child in hashing._children:
        os.kill(child, signal.SIGKILL)
    hashing._digests[:] = bytes(len(hashing._digests))
    assert hashing.table(Meter(SIZE, None)) == table_of(big)


def test_whoever_cannot_learn_how_processes_ended_does_not_believe_them(begin, big) -> None:
    hashing, before = begin(), signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert hashing.table(Meter(SIZE, None)) == table_of(big)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_process_that_the_system_has_forgotten_is_not_killed(begin, monkeypatch) -> None:
    before, killed = signal.signal(signal.SIGCHLD, signal.SIG_IGN), []
    try:
        hashing = begin()
        while os.read(hashing._told, 100):
            pass
        for child in hashing._children:
            with pytest.raises(ChildProcessError):  # once it has ended
                os.waitpid(child, 0)
        monkeypatch.setattr(apart.os, "kill", lambda *one: killed.append(one))
        hashing.stop()
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert killed == []  # their numbers may be others' by now


@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 1])
def test_another_size_is_refused(begin, big, size) -> None:
    os.truncate(big, size)
    with pytest.raises(SealError) as caught:
        begin().table(Meter(SIZE, None))
    assert caught.value.code is Code.SIZE


@pytest.mark.parametrize("call", ["pipe", "fork"])
@pytest.mark.parametrize("good", [0, 1])
def test_nothing_is_left_of_processes_that_could_not_all_be_begun(begin, monkeypatch, call, good) -> None:
    real, calls = getattr(os, call), []

    def few(*arguments: object) -> object:
        calls.append(call)
        if len(calls) > good:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return real(*arguments)

    monkeypatch.setattr(apart.os, call, few)
    with pytest.raises(OSError, match="unavailable"):
        begin()


def test_what_a_process_does(big, monkeypatch) -> None:
    """In this one, so that it can be looked at: its end is an exception here."""
    ends, listening, real = [], [], os.pipe

    def heard() -> tuple[int, int]:
        pipe = real()
        listening.append(os.dup(pipe[0]))  # as the caller does, who is not here
        return pipe

    def end(code: int) -> None:
        ends.append(code)
        raise SystemExit

    monkeypatch.setattr(apart.os, "fork", lambda: 0)
    monkeypatch.setattr(apart.os, "pipe", heard)
    monkeypatch.setattr(apart.os, "_exit", end)
    descriptor, told = os.open(big, os.O_RDONLY), []
    with pytest.raises(SystemExit):
        HashedApart(descriptor, "big", SIZE)
    assert ends == [0]
    monkeypatch.setattr(HashedApart, "_hash", lambda *_: told.append(1) or 1 / 0)
    with pytest.raises(SystemExit):
        HashedApart(descriptor, "big", SIZE)
    assert ends == [0, 1]
    assert told == [1]
    for one in (descriptor, *listening):
        os.close(one)


def test_where_no_process_can_be_had_threads_do_it(seal_lab, monkeypatch) -> None:
    def none() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(ahead, "_alone", lambda: True)
    monkeypatch.setattr(apart.os, "fork", none)
    with HashedAhead(seal_lab.root) as begun:
        assert isinstance(begun._hashing, ChunkHashing)


def test_a_process_with_other_threads_does_not_fork(seal_lab, monkeypatch) -> None:
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    with HashedAhead(seal_lab.root) as begun:
        assert isinstance(begun._hashing, ChunkHashing)
    over.set()
    other.join()
    monkeypatch.setattr(ahead, "_THREADS", "/nowhere")  # another system, which does not say
    with HashedAhead(seal_lab.root) as begun:
        assert isinstance(begun._hashing, ChunkHashing)


def test_a_process_that_has_only_begun_forks(seal_lab) -> None:
    program = """
import sys
from pathlib import Path
from sealhost.signing.ahead import HashedAhead
with HashedAhead(Path(sys.argv[1])) as begun:
    print(type(begun._hashing).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program, seal_lab.root], capture_output=True, text=True, check=True)
    assert done.stdout == "HashedApart\n"
