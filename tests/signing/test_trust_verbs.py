"""`trust list|add|revoke|sign|rotate`: a keys folder changes only into one that verifies (README 10.8 to 10.11)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sealhost.host.cli.main import run
from sealhost.signing import DirectoryTrust, SealError
from sealhost.signing.keys import write_key_pair
from sealhost.signing.trust_file import Policy, RevocationList, encode_revocations


@pytest.fixture
def desk(tmp_path, monkeypatch, seal_lab) -> Path:
    """A working folder with key pairs a, b and c, and the lab's bundle and keys folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEALHOST_PASSPHRASE", raising=False)
    monkeypatch.setenv("SEALHOST_KEYS", str(seal_lab.keys))
    for name in "abc":
        write_key_pair(tmp_path, name, passphrase=None)
    return tmp_path


@pytest.fixture
def trust(capsys):
    """Runs one `trust` command line; answers its JSON."""

    def call(*words: str, code: int = 0) -> dict:
        capsys.readouterr()
        assert run(["trust", *words, "--json"]) == code
        said = capsys.readouterr()
        answer = json.loads(said.out)
        if code:
            assert said.err.count("\n") == 1
            return answer["error"]
        return answer

    return call


def standing(trust) -> dict[str, str]:
    return {key["name"]: key["standing"] for key in trust("list")["keys"]}


def with_root(trust, lab, keepers: str, threshold: int) -> None:
    """Gives the folder a policy whose root are the named keys."""
    for name in keepers:
        trust("add", f"{name}.pub", "--bundle", f"{name}-*")
    root = f"\n[root]\nkeys = {json.dumps(list(keepers))}\nthreshold = {threshold}\n"
    Path("first.toml").write_bytes((lab.keys / "trust.toml").read_bytes() + root.encode())
    for name in keepers[:threshold]:
        trust("sign", "first.toml", "--key", f"{name}.key")
    trust("rotate", "first.toml")


def next_policy(lab, out: str, *changes: tuple[str, str]) -> Path:
    """The body of the folder's policy with the next version and other changes, unsigned."""
    policy = Policy.parse((lab.keys / "trust.toml").read_bytes())
    version = policy.file.version
    text = policy.text.body.decode().replace(f"version = {version}\n", f"version = {version + 1}\n")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path(out).write_text(text)
    return Path(out)


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


def test_without_a_root_revoking_is_the_operators_word(desk, trust, seal_lab) -> None:
    assert trust("revoke", "lab", "--reason", "lost")["written"].endswith("trust.toml")
    assert standing(trust) == {"lab": "revoked"}
    with pytest.raises(SealError, match="E_REVOKED"):
        seal_lab.verify()


def test_a_key_may_be_named_by_its_id(desk, trust, seal_lab) -> None:
    (key_id,) = DirectoryTrust(seal_lab.keys).keys
    assert trust("revoke", key_id[:15], code=2)["code"] == "E_USAGE"
    trust("revoke", key_id[:16])
    assert standing(trust) == {"lab": "revoked"}


def test_with_a_root_nothing_changes_without_its_signatures(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "ab", 2)
    before = (seal_lab.keys / "trust.toml").read_bytes()
    assert trust("add", "c.pub", code=2)["code"] == "E_USAGE"
    assert trust("revoke", "lab", code=4)["code"] == "E_THRESHOLD"
    assert trust("revoke", "lab", "--key", "a.key", code=4)["code"] == "E_THRESHOLD"
    assert trust("revoke", "lab", "--key", "a.key", "--key", "c.key", code=4)["code"] == "E_THRESHOLD"
    assert (seal_lab.keys / "trust.toml").read_bytes() == before
    assert not (seal_lab.keys / "revoked.toml").exists()
    assert trust("list")["root"] == "2 of a, b"


def test_keepers_revoke_together_or_one_after_the_other(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "ab", 2)
    add = ("add", "c.pub", "--draft", "draft.toml")
    trust(*add)
    trust("sign", "draft.toml", "--key", "a.key")
    trust("sign", "draft.toml", "--key", "b.key")
    trust("rotate", "draft.toml")
    trust("revoke", "c", "--key", "a.key", "--key", "b.key")
    trust("revoke", "lab", "--key", "a.key", "--draft", "list.toml")
    assert trust("rotate", "list.toml", code=4)["code"] == "E_THRESHOLD"
    trust("sign", "list.toml", "--key", "b.key")
    trust("sign", "list.toml", "--key", "b.key")  # once more changes nothing
    trust("rotate", "list.toml")
    assert standing(trust) == {"lab": "revoked", "a": "active", "b": "active", "c": "revoked"}
    assert trust("list")["revocations"] == 2
    with pytest.raises(SealError, match="E_REVOKED"):
        seal_lab.verify()


def test_an_older_list_or_another_of_the_same_version_is_not_installed(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "a", 1)
    trust("revoke", "lab", "--key", "a.key", "--draft", "one.toml")
    trust("rotate", "one.toml")
    trust("rotate", "one.toml")  # the same again changes nothing
    trust("revoke", "a", "--key", "a.key", code=1)
    empty = RevocationList(schema="sealhost revocations v1", policy="operator", version=1)
    Path("other.toml").write_bytes(encode_revocations(empty))
    trust("sign", "other.toml", "--key", "a.key")
    assert trust("rotate", "other.toml", code=4)["code"] == "E_EQUIVOCATION"
    trust("add", "b.pub", "--draft", "b.toml")
    trust("sign", "b.toml", "--key", "a.key")
    trust("rotate", "b.toml")
    trust("revoke", "b", "--key", "a.key")
    assert trust("rotate", "one.toml", code=4)["code"] == "E_ROLLBACK"


ROTATIONS = {
    # who signs the policy whose root goes from "2 of a, b" to "1 of c", and what becomes of it
    "the old keepers and the new": ("abc", None),
    "the old alone": ("ab", "E_THRESHOLD"),
    "the new alone": ("c", "E_THRESHOLD"),
    "too few of the old": ("ac", "E_THRESHOLD"),
    "nobody": ("", "E_THRESHOLD"),
}


@pytest.mark.parametrize(("signers", "code"), ROTATIONS.values(), ids=ROTATIONS)
def test_a_root_is_replaced_by_the_thresholds_of_old_and_new(desk, trust, seal_lab, signers, code) -> None:
    with_root(trust, seal_lab, "ab", 2)
    trust("add", "c.pub", "--draft", "with-c.toml")
    trust("sign", "with-c.toml", "--key", "a.key")
    trust("sign", "with-c.toml", "--key", "b.key")
    trust("rotate", "with-c.toml")
    before = (seal_lab.keys / "trust.toml").read_bytes()
    next_policy(
        seal_lab, "new.toml", ('[root]\nkeys = ["a", "b"]\nthreshold = 2', '[root]\nkeys = ["c"]\nthreshold = 1')
    )
    for name in signers:
        trust("sign", "new.toml", "--key", f"{name}.key")
    if code:
        assert trust("rotate", "new.toml", code=4)["code"] == code
        assert (seal_lab.keys / "trust.toml").read_bytes() == before
    else:
        trust("rotate", "new.toml")
        assert trust("list")["root"] == "1 of c"
        Path("old.toml").write_bytes(before)
        assert trust("rotate", "old.toml", code=4)["code"] == "E_THRESHOLD"


def test_an_older_policy_is_not_installed_though_the_root_signed_it(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "a", 1)
    old = (seal_lab.keys / "trust.toml").read_bytes()
    next_policy(seal_lab, "new.toml")
    trust("sign", "new.toml", "--key", "a.key")
    trust("rotate", "new.toml")
    Path("old.toml").write_bytes(old)
    assert trust("rotate", "old.toml", code=4)["code"] == "E_ROLLBACK"
    Path("twin.toml").write_bytes(Path("new.toml").read_bytes().split(b"# signed")[0] + b"# other\n")
    trust("sign", "twin.toml", "--key", "a.key")
    assert trust("rotate", "twin.toml", code=4)["code"] == "E_EQUIVOCATION"


def test_keepers_are_added_one_after_the_other_and_may_sign_no_bundle(desk, trust, seal_lab) -> None:
    trust("add", "a.pub", "--keeper", "--draft", "one.toml")
    assert trust("rotate", "one.toml", code=4)["code"] == "E_THRESHOLD"
    trust("sign", "one.toml", "--key", "a.key")
    trust("rotate", "one.toml")
    trust("add", "b.pub", "--keeper", "--threshold", "2", "--draft", "two.toml")
    trust("sign", "two.toml", "--key", "b.key")
    assert trust("rotate", "two.toml", code=4)["code"] == "E_THRESHOLD"
    trust("sign", "two.toml", "--key", "a.key")
    trust("rotate", "two.toml")
    trust("add", "c.pub", "--keeper", "--draft", "three.toml")
    assert trust("list")["root"] == "2 of a, b"
    assert [one["keys"] for one in trust("list")["publishers"]] == [["lab"]]
    assert standing(trust) == {"lab": "active", "a": "active", "b": "active"}
    assert b"threshold = 2" in Path("three.toml").read_bytes()


def test_a_root_that_keeps_some_of_its_keepers_needs_the_thresholds_of_both(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "abc", 2)
    new = '[root]\nkeys = ["b", "c"]\nthreshold = 2'
    next_policy(seal_lab, "new.toml", ('[root]\nkeys = ["a", "b", "c"]\nthreshold = 2', new))
    trust("sign", "new.toml", "--key", "a.key")
    trust("sign", "new.toml", "--key", "b.key")  # two of the old, one of the new
    assert trust("rotate", "new.toml", code=4)["code"] == "E_THRESHOLD"
    trust("sign", "new.toml", "--key", "c.key")
    trust("rotate", "new.toml")
    assert trust("list")["root"] == "2 of b, c"


def test_a_revoked_key_does_not_become_a_keeper(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "a", 1)
    trust("add", "b.pub", "--draft", "b.toml")
    trust("sign", "b.toml", "--key", "a.key")
    trust("rotate", "b.toml")
    trust("revoke", "b", "--key", "a.key")
    next_policy(
        seal_lab, "new.toml", ('[root]\nkeys = ["a"]\nthreshold = 1', '[root]\nkeys = ["a", "b"]\nthreshold = 1')
    )
    trust("sign", "new.toml", "--key", "a.key")
    assert trust("rotate", "new.toml", code=1)["problem"] == (
        "expected no root key, got one; replace it by `sealhost trust rotate`"
    )
    assert trust("list")["root"] == "1 of a"


def test_a_key_is_revoked_once_and_by_enough_keepers(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "ab", 2)
    error = trust("revoke", "lab", "--key", "a.key", code=4)
    assert (error["code"], error["where"]) == ("E_THRESHOLD", "revoked.toml")
    assert "each keeper's --key, or --draft FILE" in error["remedy"]
    trust("revoke", "lab", "--key", "a.key", "--key", "b.key")
    error = trust("revoke", "lab", "--key", "a.key", "--key", "b.key", code=2)
    assert "not on the revocation list yet" in error["problem"]


def test_a_keeper_is_not_put_on_the_list(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "a", 1)
    error = trust("revoke", "a", "--key", "a.key", code=1)
    assert "no root key" in error["problem"]


def test_a_bundle_with_too_few_signatures_tells_whose_no_longer_count(desk, trust, seal_lab) -> None:
    trust("add", "a.pub", "--publisher", "lab", "--bundle", "*", "--kind", "model", "--threshold", "2")
    with pytest.raises(SealError, match=r"E_THRESHOLD .*sealhost sign$"):
        seal_lab.verify()
    trust("revoke", "a")
    with pytest.raises(SealError, match=r"E_THRESHOLD .*\(a no longer can, see `sealhost trust list`\)"):
        seal_lab.verify()


def test_a_policy_keeps_its_name(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "a", 1)
    next_policy(seal_lab, "new.toml", ('name = "operator"', 'name = "fleet"'))
    trust("sign", "new.toml", "--key", "a.key")
    assert trust("rotate", "new.toml", code=4)["code"] == "E_UNTRUSTED"


def test_a_policy_keeps_its_root(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "a", 1)
    path = next_policy(seal_lab, "new.toml")
    path.write_text(path.read_text().split("\n[root]")[0])
    trust("sign", "new.toml", "--key", "a.key")
    assert trust("rotate", "new.toml", code=4)["code"] == "E_UNTRUSTED"


def test_a_rotation_that_would_orphan_the_revocation_list_is_refused(desk, trust, seal_lab) -> None:
    with_root(trust, seal_lab, "a", 1)
    trust("add", "b.pub", "--draft", "b.toml")
    trust("sign", "b.toml", "--key", "a.key")
    trust("rotate", "b.toml")
    trust("revoke", "lab", "--key", "a.key")
    next_policy(seal_lab, "new.toml", ('[root]\nkeys = ["a"]', '[root]\nkeys = ["b"]'))
    trust("sign", "new.toml", "--key", "a.key")
    trust("sign", "new.toml", "--key", "b.key")
    assert trust("rotate", "new.toml", code=4)["code"] == "E_THRESHOLD"
    Path("list.toml").write_bytes((seal_lab.keys / "revoked.toml").read_bytes())
    trust("sign", "list.toml", "--key", "b.key")  # the new root signs the list beside the old one
    trust("rotate", "list.toml")
    trust("rotate", "new.toml")
    assert standing(trust)["lab"] == "revoked"


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


def test_a_file_whose_last_line_has_no_end_can_be_signed(desk, trust, seal_lab) -> None:
    trust("add", "a.pub", "--bundle", "a-*")
    text = (seal_lab.keys / "trust.toml").read_text() + '\n[root]\nkeys = ["a"]\nthreshold = 1'
    Path("draft.toml").write_text(text)
    trust("sign", "draft.toml", "--key", "a.key")
    trust("rotate", "draft.toml")
    assert trust("list")["root"] == "1 of a"


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
    import threading

    from sealhost.signing.keys import parse_public_key
    from sealhost.signing.stewardship import Grant, add_key

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
