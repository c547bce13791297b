"""`trust sign` and `rotate`: who keeps a folder's root, and by whose signatures it changes (README 10.10, 10.11)."""

from __future__ import annotations

from pathlib import Path

import pytest
from trust_folders import next_policy, standing, with_root


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


def test_a_file_whose_last_line_has_no_end_can_be_signed(desk, trust, seal_lab) -> None:
    trust("add", "a.pub", "--bundle", "a-*")
    text = (seal_lab.keys / "trust.toml").read_text() + '\n[root]\nkeys = ["a"]\nthreshold = 1'
    Path("draft.toml").write_text(text)
    trust("sign", "draft.toml", "--key", "a.key")
    trust("rotate", "draft.toml")
    assert trust("list")["root"] == "1 of a"
