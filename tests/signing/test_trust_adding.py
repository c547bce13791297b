"""`trust add` and `list`: who may sign what, and that a bad change is a refusal and no change (README 10.8)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from trust_folders import standing

from sealhost.host.cli.main import run
from sealhost.signing import SealError
from sealhost.signing.keys import parse_public_key
from sealhost.signing.stewardship import Grant, add_key
from sealhost.signing.trust_file import Policy


def test_a_key_without_a_scope_is_a_file_in_the_folder(desk, trust, seal_lab) -> None:
    written = Path(trust("add", "a.pub")["written"])
    assert written == seal_lab.keys / "a.pub"
    assert not (seal_lab.keys / "trust.toml").exists()
    assert standing(trust) == {"a": "active", "lab": "active"}  # without a policy a key is called as its file is
    assert trust("add", "a.pub", code=2)["code"] == "E_USAGE"


def test_the_first_scope_makes_a_policy_and_leaves_the_others_their_meaning(desk, trust, seal_lab) -> None:
    (seal_lab.keys / "copy.pub").write_bytes((seal_lab.keys / "lab.pub").read_bytes())  # one key, once in the policy
    trust("add", "a.pub", "--bundle", "acme-*", "--kind", "plugin", "--not-after", "2099-01-01")
    facts = trust("list")
    assert [one["name"] for one in facts["publishers"]] == ["copy", "a"]
    assert facts["publishers"][1] == {
        "name": "a",
        "bundles": ["acme-*"],
        "kinds": ["plugin"],
        "keys": ["a"],
        "threshold": 1,
    }
    assert seal_lab.verify().manifest.name == "lab"


def test_a_key_that_could_sign_everything_is_narrowed_by_its_first_scope(desk, trust, seal_lab) -> None:
    Path("lab.pub").write_bytes((seal_lab.keys / "lab.pub").read_bytes())
    trust("add", "a.pub")
    trust("add", "lab.pub", "--bundle", "other-*")
    assert [(one["name"], one["bundles"]) for one in trust("list")["publishers"]] == [
        ("a", ["*"]),
        ("lab", ["other-*"]),
    ]
    with pytest.raises(SealError, match="E_UNTRUSTED"):
        seal_lab.verify()
    assert trust("add", "lab.pub", "--name", "again", code=4)["code"] == "E_KEY"  # from then on the file is edited


def test_a_second_key_joins_its_publisher_and_raises_the_threshold(desk, trust, seal_lab) -> None:
    trust("add", "a.pub", "--publisher", "lab", "--threshold", "2")
    with pytest.raises(SealError, match="E_THRESHOLD"):
        seal_lab.verify()
    assert run(["sign", str(seal_lab.root), "--key", "a.key"]) == 0
    assert len(seal_lab.verify().signers) == 2
    trust("add", "b.pub", "--publisher", "lab")
    assert trust("add", "c.pub", "--name", "b", code=2)["where"] == "b"  # the name is taken
    assert trust("list")["publishers"][0]["threshold"] == 2


def test_a_folder_that_is_not_there_is_made(desk, trust, monkeypatch) -> None:
    monkeypatch.setenv("SEALHOST_KEYS", "new/keys")
    trust("add", "a.pub", "--not-before", "2020-01-01T00:00:00+01:00")
    assert standing(trust) == {"a": "active"}
    monkeypatch.delenv("SEALHOST_KEYS")
    monkeypatch.setenv("XDG_DATA_HOME", str(desk / "data"))
    trust("add", "a.pub")
    assert (desk / "data/sealhost/keys/a.pub").exists()


BAD = {
    "a file that is not there": (("add", "none.pub"), "E_IO", 3),
    "a folder": (("add", "."), "E_IO", 3),
    "a private key": (("add", "a.key"), "E_KEY", 4),
    "a date that is none": (("add", "a.pub", "--not-after", "soon"), "E_USAGE", 2),
    "a glob with brackets": (("add", "a.pub", "--bundle", "[a]"), "E_PARSE", 1),
    "a name that steers a terminal": (("add", "a.pub", "--kind", "model", "--name", "\x1b[2J"), "E_USAGE", 2),
    "a name that writes TOML": (("add", "a.pub", "--kind", "model", "--name", 'a"\nstatus = "retired'), "E_USAGE", 2),
    "a name that leads out of the folder": (("add", "a.pub", "--name", "../a"), "E_USAGE", 2),
    "a keeper without a draft": (("add", "a.pub", "--keeper"), "E_USAGE", 2),
    "a keeper with a scope": (("add", "a.pub", "--keeper", "--bundle", "a", "--draft", "x.toml"), "E_USAGE", 2),
    "a keeper with a window": (
        ("add", "a.pub", "--keeper", "--not-after", "2100-01-01", "--draft", "x.toml"),
        "E_USAGE",
        2,
    ),
    "a threshold of zero": (("add", "a.pub", "--threshold", "0"), "E_USAGE", 2),
    "a date beyond the last year": (("add", "a.pub", "--not-after", "9999-12-31T23:59:59-01:00"), "E_PARSE", 1),
    "a file that is too long": (("sign", "long.toml", "--key", "a.key"), "E_PARSE", 1),
    "a threshold that cannot be met": (("add", "a.pub", "--threshold", "2"), "E_USAGE", 2),
    "a key that is unknown": (("revoke", "ghost"), "E_USAGE", 2),
    "a draft over an existing file": (("add", "a.pub", "--draft", "b.pub"), "E_USAGE", 2),
    "signing what is no trust file": (("sign", "a.pub", "--key", "a.key"), "E_PARSE", 1),
    "signing a list that is none": (("sign", "bad.toml", "--key", "a.key"), "E_PARSE", 1),
    "installing a list without a policy": (("rotate", "list.toml"), "E_UNTRUSTED", 4),
}


@pytest.mark.parametrize(("words", "code", "exit_code"), BAD.values(), ids=BAD)
def test_a_bad_change_is_one_refusal_and_no_change(desk, trust, seal_lab, words, code, exit_code) -> None:
    Path("bad.toml").write_text('schema = "sealhost revocations v1"\nnonsense = 1\n')
    Path("list.toml").write_text('schema = "sealhost revocations v1"\npolicy = "operator"\nversion = 1\n')
    Path("long.toml").write_text("#" * 300_000)
    before = {path: path.read_bytes() for path in seal_lab.keys.iterdir()}
    error = trust(*words, code=exit_code)
    assert error["code"] == code, error
    assert {path: path.read_bytes() for path in seal_lab.keys.iterdir()} == before


def test_a_key_file_whose_name_no_policy_could_hold_is_named(desk, trust, seal_lab) -> None:
    (seal_lab.keys / "lab.pub").rename(seal_lab.keys / "the lab.pub")
    error = trust("add", "a.pub", "--bundle", "a", code=2)
    assert (error["code"], error["where"]) == ("E_USAGE", "the lab.pub")
    assert "rename it" in error["remedy"]


def test_a_failed_write_leaves_the_old_policy(desk, trust, seal_lab, monkeypatch) -> None:
    trust("add", "a.pub", "--bundle", "a")
    before = {path: path.read_bytes() for path in seal_lab.keys.iterdir()}

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sealhost.signing.durable.os.rename", fail)
    assert trust("add", "b.pub", code=3)["code"] == "E_IO"
    assert {path: path.read_bytes() for path in seal_lab.keys.iterdir()} == before


def test_a_list_without_a_root_keeps_a_folder_from_being_changed(desk, trust, seal_lab) -> None:
    (seal_lab.keys / "revoked.toml").write_text('schema = "sealhost revocations v1"\npolicy = "x"\nversion = 1\n')
    assert trust("add", "a.pub", "--bundle", "a-*", code=4)["code"] == "E_UNTRUSTED"
    assert not (seal_lab.keys / "trust.toml").exists()


def test_what_a_killed_change_left_is_removed_by_the_next(desk, trust, seal_lab) -> None:
    (seal_lab.keys / ".trust.toml.abc.new").write_text("#" * 100_000)
    trust("add", "a.pub", "--bundle", "a-*")
    assert {path.name for path in seal_lab.keys.iterdir()} == {"lab.pub", "trust.toml"}


@pytest.mark.parametrize("folder", ["a.pub", "a.pub/keys"])
def test_a_keys_folder_that_cannot_be_made_is_an_io_refusal(desk, trust, monkeypatch, folder) -> None:
    monkeypatch.setenv("SEALHOST_KEYS", folder)
    assert trust("add", "b.pub", code=3)["code"] == "E_IO"


def test_two_changes_at_a_time_both_happen(desk, seal_lab) -> None:
    """Threads lock by descriptors of their own, as processes do."""
    start = threading.Barrier(3)

    def add(name: str) -> None:
        key = parse_public_key(Path(f"{name}.pub").read_bytes(), name)
        start.wait()
        add_key(seal_lab.keys, key, Grant(name=name, bundles=(f"{name}-*",)))

    threads = [threading.Thread(target=add, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    policy = Policy.parse((seal_lab.keys / "trust.toml").read_bytes())
    assert set(policy.keys) == {"lab", "a", "b", "c"}
    assert policy.file.version == 4


def test_a_person_reads_the_same_facts(desk, trust, seal_lab, capsys) -> None:
    trust("add", "a.pub", "--bundle", "a-*", "--not-after", "2020-01-01")
    assert run(["trust", "list"]) == 0
    said = capsys.readouterr().out
    assert "not valid" in said
    assert "a: 1 of a may sign model, plugin a-*" in said
    assert "\x1b" not in said
