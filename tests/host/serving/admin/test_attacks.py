"""The attack suite of tests/signing against a host at work: each attack is refused by its code, the old model answers.

Attacks on the keys folder are refused when it is read again, those on a bundle when it is swapped in.
"""

from __future__ import annotations

import importlib
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ATTACKS = Path(__file__).resolve().parents[3] / "signing" / "attacks" / "bundle"
NOT_ARGUMENTS = {"expect", "name", "do", "full", "unread"}


def operation(name: str) -> Callable[..., None]:
    """What an attack file names, of the modules that tests/signing has put on the path."""
    name = "set_value" if name == "set" else name
    for module in ("attack_files", "attack_signers"):
        if found := getattr(importlib.import_module(module), name, None):
            return found
    raise LookupError(name)


@pytest.fixture
def desk(make_desk: Callable[..., Any]) -> Any:
    """A host that serves version 2; the attacks are written for a bundle of version 3."""
    return make_desk(first=2)


@pytest.fixture
def attacked(desk: Any, tmp_path: Path) -> Callable[[], Any]:
    """A fresh copy, for each attack, of a good bundle of version 3 and of the keys that trust it."""
    from sealhost.signing.pack import Template, pack
    from sealhost.signing.sign import sign_bundle

    master, plugin = tmp_path / "master", desk.lab.seal_plugin
    master.mkdir()
    model = tmp_path / "fake.gguf"
    model.write_bytes(b"GGUF" + b"\xa5\x5a\x17" * (desk.lab.WEIGHTS_BYTES // 3))
    pack(
        master / "bundle",
        name="lab",
        version=3,
        model=model,
        plugins=(plugin("bpe", "tokenizer"), plugin("standard", "sampler")),
        template=Template("same", "{{ messages }} é"),
        documents=(("LICENSE", b"as you like it\n"),),
    )
    sign_bundle(master / "bundle", desk.private_key)

    def copy() -> Any:
        place = desk.folder / "attack"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(master, place)
        shutil.copytree(desk.folder.parent / "keys", place / "keys")
        return desk.lab.SealLab(place / "bundle", place / "keys", desk.private_key)

    return copy


def outcome(desk: Any, lab: Any) -> str:
    """The code of the first refusal on the way of what an operator does: read the keys, swap the bundle in."""
    desk.keys = lab.keys
    for path, body in (("/admin/keys/reload", {}), ("/admin/swap", {"path": str(lab.root)})):
        answer = desk.admin.post(path, json=body)
        if answer.status_code != 200:
            return answer.json()["error"]["code"]
    return "accepted"


def test_every_attack_on_a_host_at_work_is_refused_and_the_old_model_goes_on_answering(
    desk: Any, attacked: Callable[[], Any]
) -> None:
    before, opened = desk.ask(), list(desk.host.open_now)
    wrong: dict[str, str] = {}
    attacks = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(ATTACKS.glob("*.toml"))]
    attacks = [attack for attack in attacks if not attack.get("full")]  # chunks decide what runs, not the flat digest
    assert len(attacks) >= 150
    for attack in attacks:
        lab = attacked()
        try:
            operation(attack["do"])(lab, **{key: one for key, one in attack.items() if key not in NOT_ARGUMENTS})
        except pytest.skip.Exception:
            continue  # a device that only root can make
        is_allowed = lab.root.is_relative_to(desk.folder)  # what lies elsewhere is not looked at
        got, expected = outcome(desk, lab), attack["expect"].split()[0] if is_allowed else "E_USAGE"
        if got != expected or desk.ask() != before or desk.host.open_now != opened or desk.mark() != 2:
            wrong[attack["name"]] = f"expected {expected}, got {got}"
    assert wrong == {}
    assert desk.operations.counts["swap", "finished"] == 0
    assert desk.operations.counts["swap", "failed"] == 0


def test_the_bundle_that_nobody_has_attacked_is_swapped_in(desk: Any, attacked: Callable[[], Any]) -> None:
    assert outcome(desk, attacked()) == "accepted"
    assert (desk.ask()[0], desk.mark()) == ("version 3", 3)
