"""verify, status and trust accept-*: what the command line makes of the state (README chapter 11)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sealhost.host.cli.main import run
from sealhost.host.cli.packing import ModelFacts
from sealhost.signing import Code, DirectoryTrust, SealError
from sealhost.signing.state import State


@pytest.fixture
def desk(tmp_path, monkeypatch, seal_lab):
    """The lab's bundle of version 3, its keys, and a state folder named by the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEALHOST_KEYS", str(seal_lab.keys))
    monkeypatch.setenv("SEALHOST_STATE", str(tmp_path / "state"))
    return seal_lab


@pytest.fixture
def command(capsys):
    def call(*words: str, code: int = 0) -> dict:
        capsys.readouterr()
        assert run([*words, "--json"]) == code, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return call


def newer(lab, version: int = 4) -> None:
    """This host has gone on to a higher version."""
    bundle = lab.verify()
    lab.resign(lab.manifest | {"version": version})
    State(Path("state")).record([lab.verify()], DirectoryTrust(lab.keys))
    lab.resign(lab.manifest | {"version": bundle.manifest.version})


def test_verify_reads_the_state_and_leaves_no_mark(desk, command) -> None:
    assert command("verify", str(desk.root))["version"] == 3
    assert not Path("state").exists()
    newer(desk)
    before = Path("state/state.json").read_bytes()
    answer = command("verify", str(desk.root), code=4)
    assert (answer["verified"], answer["error"]["code"]) == (False, "E_ROLLBACK")
    assert "accept-older" in answer["error"]["remedy"]
    assert Path("state/state.json").read_bytes() == before
    assert command("verify", str(desk.root), "--state", "other")["verified"] is True


def test_an_accepted_older_bundle_verifies_and_is_shown(desk, command) -> None:
    newer(desk)
    accepted = command("trust", "accept-older", str(desk.root))
    assert (accepted["name"], accepted["version"]) == ("lab", 3)
    assert command("verify", str(desk.root))["digest"] == accepted["digest"]
    state = command("status")["state"]
    assert state["bundles"]["lab"]["version"] == 4
    assert state["accepted"]["lab"] == {"version": 3, "digest": accepted["digest"]}


def test_what_does_not_verify_is_not_accepted(desk, command) -> None:
    newer(desk)
    (desk.root / "model.gguf").write_bytes(b"other")
    assert command("trust", "accept-older", str(desk.root), code=1)["error"]["code"] == "E_SIZE"
    assert command("status")["state"]["accepted"] == {}


def test_a_broken_state_is_told_with_the_way_out(desk, command) -> None:
    newer(desk)
    Path("state/state.json").write_text("{}")
    for words in (("verify", str(desk.root)), ("status",), ("trust", "accept-older", str(desk.root))):
        error = command(*words, code=4)["error"]
        assert error["code"] == "E_STATE"
        assert "move the folder away" in error["remedy"]
    Path("state").rename("state.broken")
    assert command("verify", str(desk.root))["verified"] is True


def test_the_clock_may_be_accepted(desk, command) -> None:
    State(Path("state"), clock=lambda: 4_000_000_000).record([desk.verify()], DirectoryTrust(desk.keys))
    assert command("trust", "accept-clock")["latest"] < 4_000_000_000


def test_a_person_sees_the_status(desk, capsys) -> None:
    newer(desk)
    assert run(["trust", "accept-older", str(desk.root)]) == 0
    capsys.readouterr()
    assert run(["status"]) == 0
    said = capsys.readouterr().out
    assert "every key may sign every bundle" in said
    assert "1 that count, of 1" in said
    assert "accepted        lab version 4, sha256" in said
    assert "also version 3 with sha256" in said


def test_without_a_flag_the_users_own_state_folder_is_used(desk, command, monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("SEALHOST_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert command("status")["state_folder"] == str(tmp_path / "xdg/sealhost/state")


class PretendHost:
    """Stands for the host: notes when a bundle is opened, and what the marks were then."""

    seen: list[tuple[str, int, bool]] = []  # noqa: RUF012 — emptied by the fixture
    fails = False

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def open(self, bundle, **_: object):
        manifest = bundle.manifest
        self.seen.append((manifest.name, manifest.version, Path("state").exists()))
        bundle.weights.close()
        if self.fails:
            raise SealError(Code.GGUF, "model.gguf", "expected GGUF, got other bytes", "fetch it again")
        served = SimpleNamespace(name=manifest.name, digest=bundle.digest)
        return SimpleNamespace(bundle=bundle, served=served, verify_s=0.0, load_s=0.0, open_s=0.0, first_token_s=0.0)


@pytest.fixture
def pretend_host(monkeypatch):
    monkeypatch.setattr("sealhost.host.app.Host", PretendHost)
    monkeypatch.setattr(PretendHost, "fails", False)
    PretendHost.seen.clear()
    return PretendHost


def load_for_terminal(lab) -> None:
    from sealhost.host.cli.begun import begin
    from sealhost.host.cli.opening import opened_bundle
    from sealhost.host.cli.options import DEFAULTS

    usual = sys.getswitchinterval()
    with begin(["run", str(lab.root)]), opened_bundle(lab.root, None, None, DEFAULTS):
        assert sys.getswitchinterval() == usual
        assert State(Path("state")).marks().bundles["lab"].version == lab.manifest["version"]


def load_for_serving(lab) -> None:
    """What `serve` does in its loading thread, with a registry that notes the marks at the moment of publishing."""
    from sealhost.host.cli.options import state_in, trust_in
    from sealhost.host.cli.serve import Judges, Loading

    def publish(_: object) -> None:
        assert State(Path("state")).marks().bundles["lab"].version == lab.manifest["version"]

    service = SimpleNamespace(registry=SimpleNamespace(publish=publish))
    server = SimpleNamespace(should_exit=False)
    loading = Loading([lab.root], [], Judges(trust_in(None), state_in(None)), None, service, server, "here")
    loading.start()
    loading._thread.join()
    assert server.should_exit is (loading._error is not None)
    loading.finish()


@pytest.fixture(params=[load_for_terminal, load_for_serving], ids=["run, chat and bench", "serve"])
def load(request, desk, monkeypatch, tmp_path):
    """Loads the lab's bundle as a verb does, with the folders that flags would name."""
    monkeypatch.setattr("sealhost.host.cli.places.trust_store", lambda: desk.keys)
    monkeypatch.setattr("sealhost.host.cli.places.state_folder", lambda: tmp_path / "state")
    return lambda: request.param(desk)


def test_marks_rise_after_the_first_token_and_before_use(desk, load, pretend_host) -> None:
    load()
    assert pretend_host.seen == [("lab", 3, False)]


def test_what_cannot_be_loaded_raises_no_mark(desk, load, pretend_host, monkeypatch) -> None:
    monkeypatch.setattr(PretendHost, "fails", True)
    with pytest.raises(SealError, match="E_GGUF"):
        load()
    assert not Path("state").exists()


def test_what_is_older_is_never_loaded(desk, load, pretend_host) -> None:
    newer(desk)
    with pytest.raises(SealError, match="E_ROLLBACK"):
        load()
    assert pretend_host.seen == []


def test_a_list_whose_only_effect_was_a_refusal_cannot_be_deleted_as_if_unseen(desk, load, pretend_host) -> None:
    from sealhost.signing.keys import public_key_of
    from sealhost.signing.signed_text import REVOCATIONS_DOMAIN, TRUST_DOMAIN, SignedText

    keeper, lab = Ed25519PrivateKey.from_private_bytes(b"\x05" * 32), public_key_of(desk.private_key)

    def signed(text: str, domain: bytes) -> bytes:
        return SignedText(text.encode(), ()).signed_by(keeper, public_key_of(keeper).key_id, domain).encode()

    policy = f"""schema = "sealhost trust v1"\nname = "fleet"\nversion = 1
[[key]]\nname = "lab"\npublic = "{lab.to_ssh().decode().strip()}"
[[key]]\nname = "keeper"\npublic = "{public_key_of(keeper).to_ssh().decode().strip()}"
[[publisher]]\nname = "lab"\nbundles = ["*"]\nkinds = ["model"]\nkeys = ["lab"]
[root]\nkeys = ["keeper"]\nthreshold = 1\n"""
    (desk.keys / "trust.toml").write_bytes(signed(policy, TRUST_DOMAIN))
    listed = f'schema = "sealhost revocations v1"\npolicy = "fleet"\nversion = 1\n[[revoked]]\nkey = "{lab.key_id}"\n'
    (desk.keys / "revoked.toml").write_bytes(signed(listed, REVOCATIONS_DOMAIN))
    with pytest.raises(SealError, match="E_REVOKED"):
        load()
    (desk.keys / "revoked.toml").unlink()
    with pytest.raises(SealError, match=r"E_ROLLBACK revoked\.toml"):
        load()
    assert pretend_host.seen == []


def test_a_state_that_cannot_be_written_keeps_a_bundle_from_use(desk, load, pretend_host, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("sealhost.signing.durable.os.rename", fail)
    monkeypatch.setattr("tempfile.mkdtemp", fail)
    with pytest.raises(SealError, match=r"E_IO .*Read-only"):
        load()


def test_an_update_by_another_process_during_the_load_is_noticed(desk, load, pretend_host, monkeypatch) -> None:
    real_open = PretendHost.open

    def overtaken(self, bundle, **options: object):
        opened = real_open(self, bundle, **options)
        newer(desk)
        return opened

    monkeypatch.setattr(PretendHost, "open", overtaken)
    with pytest.raises(SealError, match="E_ROLLBACK"):
        load()


def test_the_demo_goes_on_from_the_mark_when_its_bundle_was_deleted(desk, monkeypatch, tmp_path, seal_model) -> None:
    from sealhost.host.cli import demo

    state = State(tmp_path / "own")
    lab = SimpleNamespace(manifest=SimpleNamespace(kind="model", name=demo.NAME, version=6), digest="a" * 64)
    state.record([lab], DirectoryTrust(desk.keys))
    monkeypatch.setattr("sealhost.host.cli.places.state_folder", lambda: tmp_path / "own")
    monkeypatch.setattr("sealhost.host.cli.demo.fetch_demo_model", lambda: seal_model)
    monkeypatch.setattr("sealhost.host.cli.packing.facts_of", lambda _: ModelFacts(None, "bpe"))
    places = demo.Places(tmp_path / "b" / "bundle", tmp_path / "secret" / "demo.key", tmp_path / "t" / "demo.pub")
    demo._prepare_keys(places)
    demo._make_bundle(places)
    assert json.loads((places.bundle / "manifest.json").read_bytes())["version"] == 7
