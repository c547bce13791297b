"""What was accepted before is never lowered, forgotten or raced past (README chapter 11)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from releases import release

from sealhost.signing import Code, DirectoryTrust, SealError
from sealhost.signing.keys import public_key_of
from sealhost.signing.marks import Mark, Marks
from sealhost.signing.signed_text import REVOCATIONS_DOMAIN, TRUST_DOMAIN, SignedText
from sealhost.signing.state import State, encode

FILES = sorted((Path(__file__).parent / "attacks" / "state").glob("*.toml"))
CASES = {path.stem: tomllib.loads(path.read_text()) for path in FILES}
NOW = 1_900_000_000


def write_policy(case: dict[str, Any], lab) -> None:
    """A trust.toml, with a root of the lab's own key and a revocation list where the case asks for them."""
    key = public_key_of(lab.private_key)
    window = "not_after = 2100-01-01T00:00:00Z\n" if case.get("window") else ""
    root = '[root]\nkeys = ["lab"]\nthreshold = 1\n' if case.get("root") else ""
    text = f"""schema = "sealhost trust v1"\nname = "fleet"\nversion = 2
[[key]]\nname = "lab"\npublic = "{key.to_ssh().decode().strip()}"\n{window}
[[publisher]]\nname = "lab"\nbundles = ["*"]\nkinds = ["model"]\nkeys = ["lab"]\n{root}"""
    signed = SignedText(text.encode(), ()).signed_by(lab.private_key, key.key_id, TRUST_DOMAIN)
    (lab.keys / "trust.toml").write_bytes(signed.encode() if root else text.encode())
    if version := case.get("listed"):
        body = f'schema = "sealhost revocations v1"\npolicy = "fleet"\nversion = {version}\n'.encode()
        listed = SignedText(body, ()).signed_by(lab.private_key, key.key_id, REVOCATIONS_DOMAIN)
        (lab.keys / "revoked.toml").write_bytes(listed.encode())


def write_marks(case: dict[str, Any], folder: Path, same: dict[str, str]) -> None:
    def marks(kind: str) -> dict[str, Mark]:
        return {
            name: Mark(version, same[kind] if letter == "same" else letter * 64)
            for name, (version, letter) in case.get(kind, {}).items()
        }

    kinds = ("bundles", "accepted", "policies", "revocations")
    data = encode(Marks(latest=case.get("latest", 0), **{kind: marks(kind) for kind in kinds}))
    if body := case.get("body"):
        data = b"sealhost state v1 " + hashlib.sha256(body.encode()).hexdigest().encode() + b"\n" + body.encode()
    folder.mkdir(mode=0o700)
    (folder / "state.json").write_bytes(data)


def damage(kind: str, folder: Path) -> None:
    file = folder / "state.json"
    data = file.read_bytes()
    aside, elsewhere = folder.parent / "aside", folder.parent.with_name("elsewhere")
    if kind in {"symlink", "hard-link", "fifo", "folder", "remove"}:
        file.rename(aside)
    if kind.startswith("folder-"):
        folder.rename(aside)
    {
        "flip": lambda: file.write_bytes(data[:-70] + bytes([data[-70] ^ 1]) + data[-69:]),
        "flip-first": lambda: file.write_bytes(data[:30] + bytes([data[30] ^ 1]) + data[31:]),
        "cut": lambda: file.write_bytes(data[:-2]),
        "empty": lambda: file.write_bytes(b""),
        "append": lambda: file.write_bytes(data + b"\n"),
        "long": lambda: file.write_bytes(data + b" " * (1 << 20)),
        "remove": lambda: None,
        "symlink": lambda: file.symlink_to(aside),
        "hard-link": lambda: file.hardlink_to(aside),
        "fifo": lambda: os.mkfifo(file),
        "folder": file.mkdir,
        "folder-symlink": lambda: folder.symlink_to(aside),
        "folder-file": lambda: folder.write_bytes(data),
        "folder-dangling": lambda: folder.symlink_to(folder.parent / "nowhere"),
        "folder-below-a-file": lambda: (folder.parent.rename(elsewhere), folder.parent.touch()),
        "folder-below-a-loop": lambda: (folder.parent.rename(elsewhere), folder.parent.symlink_to(folder.parent)),
        "file-world-writable": lambda: file.chmod(0o606),
        "world-writable": lambda: folder.chmod(0o707),
    }[kind]()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.usefixtures("no_hang")
def test_the_state_decides_as_its_file_says(case: dict[str, Any], seal_lab, tmp_path) -> None:
    folder = tmp_path / "var" / "state"
    folder.parent.mkdir()
    bundle = seal_lab.verify()
    if case.get("root") or case.get("window"):
        write_policy(case, seal_lab)
    trust = DirectoryTrust(seal_lab.keys, clock=lambda: datetime(2026, 6, 1, tzinfo=UTC))
    same = {"bundles": bundle.digest, "accepted": bundle.digest}
    same |= {"policies": trust.policy.text.digest if trust.policy else ""}
    write_marks(case, folder, same)
    if kind := case.get("damage"):
        damage(kind, folder)
    state = State(folder, clock=lambda: case.get("now", NOW))
    if earlier := case.get("seen"):  # trust files, or a time, of a load that was then refused
        write_policy(case | earlier, seal_lab)
        State(folder, clock=lambda: earlier.get("now", NOW)).see(DirectoryTrust(seal_lab.keys))
        (seal_lab.keys / "revoked.toml").unlink(missing_ok=True)
        write_policy(case, seal_lab)
    code, _, where = case["expect"].partition(" ")
    if code == "ok":
        state.check([bundle], trust)
        state.record([bundle], trust)
        state.check([bundle], trust)
        return
    before = snapshot(folder)
    for act in (state.check, state.record):
        with pytest.raises(SealError) as caught:
            act([bundle], trust)
        assert str(caught.value.code) in {code, *(["E_IO"] if act == state.record and "folder-" in str(kind) else [])}
        assert caught.value.code is Code.IO or caught.value.exit_code == 4
        assert where in caught.value.where
        assert str(caught.value).isprintable()
    assert snapshot(folder) == before


def snapshot(folder: Path) -> dict[str, bytes]:
    """What stands in a folder; a refusal must leave it so."""
    if folder.is_symlink() or not folder.parent.is_dir() or folder.is_file():
        return {}
    return {path.name: path.read_bytes() if path.is_file() else b"" for path in folder.iterdir()}


def test_checking_writes_nothing_and_recording_makes_the_folder(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "deep" / "state", clock=lambda: NOW)
    state.check([release(3)], plain_trust)
    assert not state.folder.exists()
    state.record([release(3)], plain_trust)
    assert state.marks() == Marks(latest=NOW, bundles={"lab": Mark(3, "a" * 64)})
    assert state.folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in state.folder.iterdir()] == ["state.json"]
    assert [path.name for path in state.folder.parent.iterdir()] == ["state"]


def test_marks_rise_and_never_fall(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state")
    for version in (1, 4, 4, 7):
        state.record([release(version)], plain_trust)
    for version in (6, 1):
        with pytest.raises(SealError, match="E_ROLLBACK lab: expected version 7 or higher, got"):
            state.record([release(version)], plain_trust)
    assert state.marks().bundles == {"lab": Mark(7, "a" * 64)}


def test_seeing_marks_no_bundle_and_writes_only_what_is_new(tmp_path, seal_lab, monkeypatch) -> None:
    write_policy({"root": True, "listed": 3}, seal_lab)
    trust, state = DirectoryTrust(seal_lab.keys), State(tmp_path / "state", clock=lambda: NOW)
    state.see(trust)
    marks = state.marks()
    assert (marks.latest, marks.policies["fleet"].version, marks.revocations["fleet"].version) == (NOW, 2, 3)
    assert marks.bundles == {}
    monkeypatch.setattr(State, "record", None)  # a second time there is nothing to write
    state.see(trust)


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("kind", ["fifo", "hard link", "symbolic link", "folder"])
def test_a_log_that_is_no_plain_file_is_refused_and_nothing_is_written(tmp_path, plain_trust, kind) -> None:
    state, outside = State(tmp_path / "state"), tmp_path / "outside"
    state.record([release(3)], plain_trust)
    outside.write_text("precious")
    log, before = state.folder / "log.jsonl", state.marks()
    {
        "fifo": lambda: os.mkfifo(log),
        "hard link": lambda: log.hardlink_to(outside),
        "symbolic link": lambda: log.symlink_to(outside),
        "folder": log.mkdir,
    }[kind]()
    with pytest.raises(SealError) as caught:
        state.accept_clock()
    assert caught.value.code in {Code.STATE, Code.IO}
    assert caught.value.where == "log.jsonl"
    assert state.marks() == before
    assert outside.read_text() == "precious"


def test_a_pipe_that_somebody_reads_is_no_log_either(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state")
    state.record([release(3)], plain_trust)
    os.mkfifo(state.folder / "log.jsonl")
    reader = os.open(state.folder / "log.jsonl", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(SealError, match=r"E_STATE log\.jsonl"):
            state.accept_clock()
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)


def test_a_folder_in_the_place_of_what_a_killed_update_leaves_keeps_nobody_from_recording(
    tmp_path, plain_trust
) -> None:
    state = State(tmp_path / "state")
    state.record([release(3)], plain_trust)
    (state.folder / ".state.json.x.new").mkdir()
    state.record([release(4)], plain_trust)
    assert state.marks().bundles["lab"].version == 4


def test_marks_that_could_not_be_read_again_are_not_written(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state")
    state.record([release(3)], plain_trust)
    before = state.marks()
    with pytest.raises(SealError, match="E_STATE"):
        State(state.folder, clock=lambda: 1e18).record([release(4)], plain_trust)
    assert state.marks() == before


def test_a_policy_without_root_and_window_leaves_nothing_to_see(tmp_path, seal_lab, plain_trust) -> None:
    state = State(tmp_path / "state")
    state.see(plain_trust)
    write_policy({}, seal_lab)
    state.see(DirectoryTrust(seal_lab.keys))
    assert not state.folder.exists()


def test_a_plugin_bundle_does_not_raise_the_mark_of_a_model_of_its_name(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state")
    state.record([release(5), release(9, kind="plugin")], plain_trust)
    state.record([release(6)], plain_trust)
    assert {name: mark.version for name, mark in state.marks().bundles.items()} == {"lab": 6, "plugin:lab": 9}
    with pytest.raises(SealError, match="E_ROLLBACK plugin:lab"):
        state.check([release(8, kind="plugin")], plain_trust)


def test_one_refused_bundle_raises_no_mark_of_the_others(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state")
    state.record([release(5)], plain_trust)
    with pytest.raises(SealError):
        state.record([release(9, name="new"), release(4)], plain_trust)
    assert set(state.marks().bundles) == {"lab"}


def test_an_operator_may_accept_exactly_one_older_bundle_and_it_is_logged(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state", clock=lambda: NOW)
    state.record([release(5)], plain_trust)
    state.accept_older(release(3, "b"))
    state.record([release(3, "b")], plain_trust)
    state.record([release(5)], plain_trust)  # the mark itself still runs, and acceptance outlives it
    state.check([release(3, "b")], plain_trust)
    assert state.marks().bundles == {"lab": Mark(5, "a" * 64)}
    for other in (release(3, "c"), release(4, "b")):
        with pytest.raises(SealError, match="E_ROLLBACK"):
            state.check([other], plain_trust)
    (line,) = (state.folder / "log.jsonl").read_text().splitlines()
    facts = {"action": "accept older", "name": "lab", "version": 3, "digest": "b" * 64, "mark": 5}
    assert json.loads(line) == {"time": "2030-03-17T17:46:40Z", **facts}
    state.record([release(6)], plain_trust)
    with pytest.raises(SealError, match="E_ROLLBACK"):
        state.check([release(3, "b")], plain_trust)


@pytest.mark.parametrize(
    ("bundle", "code"),
    [
        (release(5), Code.USAGE),
        (release(5, "b"), Code.EQUIVOCATION),
        (release(6), Code.USAGE),
        (release(1, name="unknown"), Code.USAGE),
    ],
)
def test_accepting_what_is_not_older_is_refused(tmp_path, plain_trust, bundle, code) -> None:
    state = State(tmp_path / "state")
    state.record([release(5)], plain_trust)
    before = snapshot(state.folder)
    with pytest.raises(SealError) as caught:
        state.accept_older(bundle)
    assert caught.value.code is code
    assert snapshot(state.folder) == before


def test_the_clock_is_taken_back_only_by_an_operator(tmp_path, seal_lab) -> None:
    write_policy({"window": True}, seal_lab)
    trust = DirectoryTrust(seal_lab.keys)
    times = [NOW]
    state = State(tmp_path / "state", clock=lambda: times[0])
    state.record([release(1)], trust)
    times[0] -= 10_000
    with pytest.raises(SealError, match="E_CLOCK"):
        state.check([release(1)], trust)
    state.accept_clock()
    state.check([release(1)], trust)
    assert "accept clock" in (state.folder / "log.jsonl").read_text()


def test_what_the_root_signed_is_remembered_too(tmp_path, seal_lab) -> None:
    write_policy({"root": True, "listed": 4}, seal_lab)
    trust = DirectoryTrust(seal_lab.keys)
    state = State(tmp_path / "state")
    state.record([], trust)
    marks = state.marks()
    assert marks.policies == {"fleet": Mark(2, trust.policy.text.digest)}
    assert marks.revocations == {"fleet": Mark(4, trust.revocations.text.digest)}


def test_a_log_that_cannot_be_written_accepts_nothing(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state")
    state.record([release(5)], plain_trust)
    (state.folder / "log.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SealError) as caught:
        state.accept_older(release(3))
    assert caught.value.code is Code.IO
    assert state.marks().accepted == {}
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_state_is_refused(tmp_path, plain_trust, monkeypatch) -> None:
    state = State(tmp_path / "state")
    state.record([release(5)], plain_trust)
    monkeypatch.setattr("sealhost.signing.state.limits.MAX_MANIFEST_BYTES", 400)
    before = state.marks()
    with pytest.raises(SealError, match=r"E_STATE .*full state"):
        state.record([release(1, name="x" * 64)], plain_trust)
    assert state.marks() == before


def test_a_state_that_cannot_be_read_is_an_io_refusal(tmp_path, plain_trust, monkeypatch) -> None:
    state = State(tmp_path / "state")
    state.record([release(5)], plain_trust)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("sealhost.signing.source.os.read", fail)
    with pytest.raises(SealError) as caught:
        state.check([release(5)], plain_trust)
    assert caught.value.code is Code.IO


def test_a_folder_that_cannot_be_made_is_an_io_refusal(tmp_path, plain_trust) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SealError) as caught:
        State(tmp_path / "file" / "state").record([release(5)], plain_trust)
    assert caught.value.code is Code.IO


STEPS = st.lists(
    st.tuples(st.sampled_from(["record", "accept older"]), st.integers(1, 5), st.sampled_from("ab")), max_size=25
)


@settings(max_examples=80, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_history_ends_as_the_rules_say(tmp_path_factory, plain_trust, steps) -> None:
    """Against a model of three variables: the highest version, its digest, and the older bundle that was accepted."""
    state = State(tmp_path_factory.mktemp("history") / "state")
    highest, accepted = None, None
    for act, version, letter in steps:
        bundle = (version, letter)
        if act == "record":
            allowed = highest is None or version > highest[0] or bundle in {highest, accepted}
        else:
            allowed = highest is not None and version < highest[0]
        with contextlib.nullcontext() if allowed else pytest.raises(SealError):
            if act == "record":
                state.record([release(version, letter)], plain_trust)
            else:
                state.accept_older(release(version, letter))
        if allowed and act == "record" and (highest is None or version > highest[0]):
            highest, accepted = bundle, None
        elif allowed and act == "accept older":
            accepted = bundle
        marks = state.marks()
        found = marks.bundles.get("lab"), marks.accepted.get("lab")
        assert found == tuple(Mark(one[0], one[1] * 64) if one else None for one in (highest, accepted))


def test_who_packed_a_version_twice_is_told_to_raise_it(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state")
    state.record([release(5)], plain_trust)
    with pytest.raises(SealError, match=r"E_EQUIVOCATION .*pack and sign it again with a higher --version; else ask"):
        state.check([release(5, "b")], plain_trust)


def test_a_folder_that_others_can_write_is_named_with_the_command_that_mends_it(tmp_path, plain_trust) -> None:
    state = State(tmp_path / "state")
    state.record([release(5)], plain_trust)
    state.folder.chmod(0o777)
    with pytest.raises(SealError, match=r"E_STATE .* got 0777; run: chmod o-w on it"):
        state.marks()
