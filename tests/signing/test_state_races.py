"""The state through crashes at any point, updates at the same time, and whoever holds its lock (README chapter 11)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

import pytest
from releases import release

from sealhost.signing import Code, SealError
from sealhost.signing.marks import Mark
from sealhost.signing.state import State

CRASH = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from sealhost.signing import DirectoryTrust
from sealhost.signing.marks import Mark
from sealhost.signing.state import State
folder, keys, version, wanted, seen = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), 0
def dying(real):
    def call(*a, **k):
        global seen
        seen += 1
        if seen == wanted:
            os._exit(77)
        result = real(*a, **k)
        seen += 1
        if seen == wanted:
            os._exit(77)
        return result
    return call
for name in ("fsync", "rename", "mkdir", "fchmod"):
    setattr(os, name, dying(getattr(os, name)))
bundle = SimpleNamespace(manifest=SimpleNamespace(kind="model", name="lab", version=version), digest="a" * 64)
State(folder).record([bundle], DirectoryTrust(keys))
"""


@pytest.mark.parametrize("first", [True, False], ids=["the first write", "a later write"])
def test_a_crash_at_any_point_leaves_the_old_state_or_the_new(tmp_path, seal_lab, plain_trust, first) -> None:
    """Killed before or after each call that changes the disk; nothing but whole states is ever seen."""
    outcomes = set()
    for wanted in range(1, 40):
        state = State(tmp_path / f"state{wanted}")
        if not first:
            state.record([release(1)], plain_trust)
        arguments = [str(state.folder), str(seal_lab.keys), "2", str(wanted)]
        ended = subprocess.run([sys.executable, "-c", CRASH, *arguments], check=False).returncode
        found = state.marks().bundles.get("lab")
        assert found in {None if first else Mark(1, "a" * 64), Mark(2, "a" * 64)}
        outcomes.add((ended, found))
        state.record([release(3)], plain_trust)  # and whoever comes next goes on
        assert {path.name for path in state.folder.iterdir()} == {"state.json"}
        if ended == 0:
            break
    assert ended == 0
    assert len(outcomes) == 3  # killed before and after the rename, and not killed


def test_two_updates_at_a_time_end_with_the_higher(tmp_path, plain_trust) -> None:
    """Threads with a State each take the lock by descriptors of their own, as processes do."""
    start = threading.Barrier(8)
    refused = []

    def update(version: int) -> None:
        start.wait()
        try:
            State(tmp_path / "state").record([release(version), release(1, name=f"n{version}")], plain_trust)
        except SealError as error:
            refused.append((version, error.code))

    threads = [threading.Thread(target=update, args=(version,)) for version in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    marks = State(tmp_path / "state").marks()
    assert marks.bundles["lab"].version == 8
    assert {code for _, code in refused} <= {Code.ROLLBACK}
    won = set(range(1, 9)) - {version for version, _ in refused}
    assert {f"n{version}" for version in won} == set(marks.bundles) - {"lab"}


def test_who_reads_while_others_update_sees_the_old_or_the_new(tmp_path, plain_trust) -> None:
    folder, ended = tmp_path / "state", threading.Event()
    State(folder).record([release(1)], plain_trust)

    def update() -> None:
        version = 1
        while not ended.is_set():
            version += 1
            State(folder).record([release(version)], plain_trust)

    writer = threading.Thread(target=update)
    writer.start()
    try:
        versions = [State(folder).marks().bundles["lab"].version for _ in range(400)]
    finally:
        ended.set()
        writer.join()
    assert versions == sorted(versions)
    assert versions[-1] > 1


def test_a_state_that_is_another_at_every_look_is_refused_in_the_end(tmp_path, plain_trust, monkeypatch) -> None:
    state = State(tmp_path / "state")
    state.record([release(1)], plain_trust)
    (state.folder / "state.json").write_text("{")
    looks = iter(range(1000))
    monkeypatch.setattr(State, "_version_of_file", lambda _: next(looks))
    with pytest.raises(SealError, match=r"E_STATE"):
        state.marks()
    assert 2 < next(looks) < 100


def test_who_waits_too_long_for_the_lock_is_told(tmp_path, plain_trust, monkeypatch) -> None:
    import fcntl

    state = State(tmp_path / "state")
    state.record([release(1)], plain_trust)
    monkeypatch.setattr("sealhost.signing.durable.LOCK_PATIENCE_S", 0.05)
    with contextlib.ExitStack() as stack:
        descriptor = os.open(state.folder, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(SealError, match=r"E_IO .*another process holding it"):
            state.record([release(2)], plain_trust)
    state.record([release(2)], plain_trust)
