"""Who may own and write a keys folder, its files and the folders above it (README clause 5.4)."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from sealhost.signing import Code, DirectoryTrust, SealError, ownership
from sealhost.signing.ownership import Standing, check_folder, objection

WE, SOMEBODY, OUR_GROUP, SHARED = 1000, 1001, 1000, 2000
PEOPLE = {
    WE: SimpleNamespace(pw_uid=WE, pw_name="anna", pw_gid=OUR_GROUP, pw_dir="/home/anna"),
    SOMEBODY: SimpleNamespace(pw_uid=SOMEBODY, pw_name="ben", pw_gid=SHARED, pw_dir="/home/ben"),
}
GROUPS = {
    OUR_GROUP: SimpleNamespace(gr_name="anna", gr_mem=[]),
    SHARED: SimpleNamespace(gr_name="staff", gr_mem=["anna", "ben"]),
}


@pytest.fixture(autouse=True)
def _people(monkeypatch) -> None:
    monkeypatch.setattr("pwd.getpwuid", PEOPLE.__getitem__)
    monkeypatch.setattr("pwd.getpwall", lambda: list(PEOPLE.values()))
    monkeypatch.setattr("grp.getgrgid", GROUPS.__getitem__)


@pytest.mark.parametrize(
    ("mode", "owner", "group", "read_only", "expected"),
    [
        (0o755, WE, OUR_GROUP, False, None),
        (0o700, WE, SHARED, False, None),
        (0o755, 0, 0, False, None),
        (0o750, 0, SHARED, False, None),  # root's, for a service whose group may read it
        (0o775, WE, OUR_GROUP, False, None),  # umask 002
        (0o775, WE, SHARED, False, "the group cannot write, got 0775"),
        (0o2775, 0, SHARED, False, "the group cannot write, got 2775"),
        (0o755, SOMEBODY, OUR_GROUP, False, "root or user 1000, who uses these keys, as its owner, got user 1001"),
        (0o755, 65534, OUR_GROUP, False, "got user 65534"),
        (0o755, SOMEBODY, SHARED, True, None),  # a container's mount
        (0o2775, SOMEBODY, SHARED, True, None),
        (0o777, WE, OUR_GROUP, False, "others cannot write, got 0777"),
        (0o777, SOMEBODY, SHARED, True, "others cannot write, got 0777"),
        (0o757, 0, 0, False, "others cannot write, got 0757"),
    ],
)
def test_nobody_but_root_and_we_may_write(mode, owner, group, read_only, expected) -> None:
    found = objection("keys", Standing(mode, owner, group, read_only), we=WE)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert (found.code, found.where) == (Code.PERM, "keys")
    assert expected in found.problem
    assert found.remedy.startswith(("run: chmod", "change its owner"))


def test_a_group_of_somebody_else_or_with_members_is_shared() -> None:
    shared = Standing(0o775, WE, OUR_GROUP, read_only=False)
    assert objection("keys", shared, we=4242) is not None  # a user that nobody entered
    assert objection("keys", shared._replace(group=77), we=WE) is not None  # a group that nobody entered
    GROUPS[OUR_GROUP].gr_mem.append("ben")
    try:
        assert objection("keys", shared, we=WE) is not None
    finally:
        GROUPS[OUR_GROUP].gr_mem.clear()


def test_a_group_that_is_another_users_own_is_shared_though_it_lists_no_member(monkeypatch) -> None:
    ours = Standing(0o775, WE, OUR_GROUP, read_only=False)
    assert objection("keys", ours, we=WE) is None
    monkeypatch.setattr(PEOPLE[SOMEBODY], "pw_gid", OUR_GROUP)  # useradd -g anna ben
    assert "the group cannot write" in objection("keys", ours, we=WE).problem


@pytest.fixture
def house(tmp_path, monkeypatch):
    """/…/srv/home/anna/keys, where every folder's standing is what the test says."""
    keys = tmp_path / "srv" / "home" / "anna" / "keys"
    keys.mkdir(parents=True)
    standings: dict[str, Standing] = {}
    monkeypatch.setattr(os, "geteuid", lambda: WE)

    def of(place: int | Path) -> Standing:
        name = keys.name if isinstance(place, int) else place.name
        return standings.get(name, Standing(stat.S_IFDIR | 0o755, 0, 0, read_only=False))

    monkeypatch.setattr(Standing, "of", of)
    return SimpleNamespace(keys=keys, standings=standings, check=lambda: check_folder(keys, -1))


@pytest.mark.parametrize("place", ["keys", "anna", "home", "srv"])
def test_a_folder_above_that_others_may_write_is_refused_by_its_name(house, place) -> None:
    house.check()
    for standing in (
        Standing(0o777, 0, 0, read_only=False),
        Standing(0o775, 0, SHARED, read_only=False),
        Standing(0o755, SOMEBODY, SHARED, read_only=False),
    ):
        house.standings[place] = standing
        with pytest.raises(SealError) as caught:
            house.check()
        assert caught.value.code is Code.PERM
        assert Path(caught.value.where).name == place


def test_in_a_sticky_folder_above_only_its_owner_counts(house) -> None:
    house.standings["srv"] = Standing(stat.S_ISVTX | 0o777, 0, SHARED, read_only=False)
    house.check()
    house.standings["srv"] = Standing(stat.S_ISVTX | 0o777, SOMEBODY, SHARED, read_only=False)
    with pytest.raises(SealError, match="E_PERM"):
        house.check()
    house.standings["srv"] = house.standings["keys"] = Standing(stat.S_ISVTX | 0o777, 0, SHARED, read_only=False)
    with pytest.raises(SealError, match="E_PERM"):  # whoever may write the folder itself may add a key
        house.check()


def test_what_lies_above_our_home_is_not_ours_to_judge(house, monkeypatch) -> None:
    monkeypatch.setitem(PEOPLE, WE, SimpleNamespace(pw_name="anna", pw_gid=OUR_GROUP, pw_dir=str(house.keys.parent)))
    house.standings["home"] = Standing(0o775, SOMEBODY, SHARED, read_only=False)
    house.check()
    house.standings["anna"] = Standing(0o775, WE, SHARED, read_only=False)
    with pytest.raises(SealError, match="E_PERM"):
        house.check()
    elsewhere = SimpleNamespace(pw_name="anna", pw_gid=OUR_GROUP, pw_dir=str(house.keys.parents[3] / "other"))
    monkeypatch.setitem(PEOPLE, WE, elsewhere)
    house.standings.pop("anna")
    with pytest.raises(SealError, match="E_PERM"):
        house.check()
    monkeypatch.delitem(PEOPLE, WE)
    with pytest.raises(SealError, match="E_PERM"):
        house.check()


def test_a_folder_above_that_cannot_be_looked_at_is_an_io_refusal(house, monkeypatch) -> None:
    def fail(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Standing, "of", fail)
    with pytest.raises(SealError, match=r"E_IO .*Permission denied"):
        house.check()


def test_a_folder_of_ours_on_this_machine_is_taken(tmp_path, seal_lab, monkeypatch) -> None:
    monkeypatch.undo()
    assert DirectoryTrust(seal_lab.keys).keys
    found = Standing.of(tmp_path)
    assert (found.owner, found.read_only) == (os.geteuid(), False)
    assert ownership._home() in {None, Path(os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir))}
