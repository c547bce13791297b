"""`trust revoke`: by the operator's word, or by enough of the root's keepers (README 10.9, 10.11)."""

from __future__ import annotations

from pathlib import Path

import pytest
from trust_folders import next_policy, standing, with_root

from sealhost.signing import DirectoryTrust, SealError
from sealhost.signing.trust_file import RevocationList, encode_revocations


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
