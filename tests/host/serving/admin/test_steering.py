"""Draining, and reading the trust policy again."""

from __future__ import annotations

import threading
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.host.serving.operations import untold
from sealhost.signing.keys import public_key_of
from sealhost.signing.stewardship import sign_trust_file

OTHER = Ed25519PrivateKey.from_private_bytes(b"\x21" * 32)


def policy(desk: Any, status: str = "active", version: int = 1) -> str:
    pem = public_key_of(desk.private_key).to_pem().decode()
    other = public_key_of(OTHER).to_pem().decode()
    return (
        f'schema = "sealhost trust v1"\nname = "fleet"\nversion = {version}\n'
        f'[[key]]\nname = "lab"\npublic = """{pem}"""\nstatus = "{status}"\n'
        f'[[key]]\nname = "other"\npublic = """{other}"""\n'
        '[[publisher]]\nname = "lab"\nbundles = ["*"]\nkinds = ["model", "plugin"]\nkeys = ["lab", "other"]\n'
    )


def test_a_drained_host_finishes_what_runs_and_takes_nothing_new(desk: Any) -> None:
    plane = desk.host.planes[3]
    plane.engine.pause_at = 3
    told: list[str] = []
    asking = threading.Thread(target=lambda: told.append(desk.ask()[0]))
    asking.start()
    plane.engine.wait_for(lambda engine: engine.submitted)
    assert desk.admin.post("/admin/drain").json() == {"phase": "draining", "requests": 1}
    for url in (desk.data, desk.admin):
        answer = url.get("/readyz")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "draining")
    answer = desk.data.post("/v1/completions", json={"prompt": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "draining")
    assert answer.headers["retry-after"] == "1"
    plane.engine.resume()
    asking.join(120)
    assert told == ["version 3"]
    assert desk.models()["requests"] == 0
    assert desk.data.get("/livez").status_code == 200


def test_a_drain_can_be_undone_and_does_not_keep_a_host_from_stopping(desk: Any) -> None:
    assert desk.admin.post("/admin/drain", json={}).json()["phase"] == "draining"
    assert desk.admin.post("/admin/drain", json={"undo": True}).json()["phase"] == "ready"
    assert desk.ask()[0] == "version 3"
    desk.service.refuse_new()
    for body in ({}, {"undo": True}):
        assert desk.admin.post("/admin/drain", json=body).json()["phase"] == "stopping"


def test_a_drained_host_can_still_be_swapped(desk: Any) -> None:
    desk.admin.post("/admin/drain")
    assert desk.swap(desk.bundle(4)).status_code == 200
    desk.admin.post("/admin/drain", json={"undo": True})
    assert desk.ask()[0] == "version 4"


def test_a_key_counts_from_the_reload_on(desk: Any, refused_with: Any) -> None:
    root = desk.bundle(4, key=OTHER)
    refused_with(desk.swap(root), 422, "E_UNTRUSTED")
    (desk.keys / "other.pub").write_bytes(public_key_of(OTHER).to_pem())
    refused_with(desk.swap(root), 422, "E_UNTRUSTED")
    told = desk.admin.post("/admin/keys/reload").json()
    assert len(told["keys"]) == 2
    assert told["policy"] is None
    assert told["models"] == [{"name": "lab", "trusted": True, "objection": None}]
    assert desk.swap(root).status_code == 200
    assert desk.ask()[0] == "version 4"


def test_what_runs_goes_on_when_its_key_no_longer_counts_and_is_named(desk: Any, refused_with: Any) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    (desk.keys / "trust.toml").write_text(policy(desk, status="revoked"))
    told = desk.admin.post("/admin/keys/reload").json()
    assert told["policy"] == {"name": "fleet", "version": 1}
    assert told["models"][0]["trusted"] is False
    assert told["models"][0]["objection"].startswith("E_REVOKED")
    assert desk.ask()[0] == "version 4"
    assert desk.scrape()['sealhost_bundle_trusted{model="lab"}'] == 0
    assert desk.models()["models"][0]["trusted"] is False
    # nothing under that key comes in any more, the way back included
    refused_with(desk.swap(desk.bundle(5)), 422, "E_REVOKED")
    refused_with(desk.rollback(), 422, "E_REVOKED")
    assert desk.swap(desk.bundle(5, key=OTHER)).status_code == 200
    assert desk.ask()[0] == "version 5"


def test_a_policy_that_is_refused_leaves_the_one_before_in_force(desk: Any, refused_with: Any) -> None:
    (desk.keys / "trust.toml").write_text("nonsense = ")
    refused_with(desk.admin.post("/admin/keys/reload"), 422, "E_PARSE")
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert desk.operations.last.kind == "swap"


def test_a_revocation_of_one_of_two_signers_leaves_it_to_the_other(desk: Any) -> None:
    from sealhost.signing.sign import sign_bundle

    root = desk.bundle(4)
    (desk.keys / "other.pub").write_bytes(public_key_of(OTHER).to_pem())
    sign_bundle(root, OTHER)
    desk.admin.post("/admin/keys/reload")
    assert len(desk.swap(root).json()["signers"]) == 2
    (desk.keys / "trust.toml").write_text(policy(desk, status="revoked"))
    assert desk.admin.post("/admin/keys/reload").json()["models"][0]["trusted"] is True


def test_plugins_that_come_along_are_judged_with_every_swap(make_desk: Any, refused_with: Any) -> None:
    desk = make_desk(start=False)
    (desk.keys / "other.pub").write_bytes(public_key_of(OTHER).to_pem())
    desk.admin.post("/admin/keys/reload")
    desk.deployment.start([desk.bundle(3)], [desk.plugins(1, OTHER)], untold, lambda _: None)
    assert desk.mark("plugin:extra") == 1
    assert desk.swap(desk.bundle(4)).status_code == 200
    (desk.keys / "other.pub").unlink()
    assert desk.admin.post("/admin/keys/reload").status_code == 200
    refused_with(desk.swap(desk.bundle(5)), 422, "E_UNTRUSTED")
    refused_with(desk.rollback(), 422, "E_UNTRUSTED")
    assert desk.ask()[0] == "version 4"


def test_a_plugin_bundle_takes_no_models_place(desk: Any, refused_with: Any) -> None:
    root = desk.plugins(1, desk.private_key)
    assert "got one of plugins" in refused_with(desk.swap(root), 400, "E_USAGE")["message"]
    assert desk.ask()[0] == "version 3"


def test_a_hang_up_waits_for_its_turn(desk: Any, until: Any) -> None:
    done = threading.Event()
    with desk.operations.slot("swap", "lab"):
        future = desk.operations.start("reload", "keys", lambda _tell: done.set(), wait=True)
        assert not done.is_set()
    future.result(10)
    assert done.is_set()
    assert (desk.operations.counts["swap", "finished"], desk.operations.counts["reload", "finished"]) == (1, 1)


def test_a_replayed_policy_or_one_that_lost_its_root_is_refused_at_work(desk: Any, refused_with: Any) -> None:
    path = desk.keys / "trust.toml"
    root = '[root]\nkeys = ["other"]\nthreshold = 1\n'
    documents = {}
    for name, text in {
        "second": policy(desk, version=2) + root,
        "first": policy(desk, version=1) + root,
        "another second": policy(desk, version=2).replace('["*"]', '["l*"]') + root,
    }.items():
        path.write_text(text)
        sign_trust_file(path, path.read_bytes(), OTHER)
        documents[name] = path.read_bytes()
    documents["rootless"] = policy(desk, version=3).encode()
    path.write_bytes(documents["second"])
    assert desk.admin.post("/admin/keys/reload").json()["policy"] == {"name": "fleet", "version": 2}
    for name, code in (("first", "E_ROLLBACK"), ("another second", "E_EQUIVOCATION"), ("rootless", "E_ROLLBACK")):
        path.write_bytes(documents[name])
        refused_with(desk.admin.post("/admin/keys/reload"), 422, code)
        assert desk.deployment.judges.trust.policy.file.version == 2
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert desk.ask()[0] == "version 4"


def test_a_host_whose_engine_has_ended_by_a_fault_is_not_ready_until_the_model_is_swapped(desk: Any) -> None:
    desk.host.planes[3].engine.close()
    for url in (desk.data, desk.admin):
        answer = url.get("/readyz")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_failed")
        assert "lab" not in answer.text  # it asks for no key
    assert desk.data.get("/livez").status_code == 200
    assert desk.scrape()["sealhost_ready"] == 0
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert desk.data.get("/readyz").json()["status"] == "ready"
    assert desk.scrape()["sealhost_ready"] == 1
