"""The verbs keygen, pack, sign, verify and inspect, through the command line's application."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest
from cyclopts import App

from sealhost.host.cli import trust
from sealhost.host.cli.main import run as run_main
from sealhost.host.cli.packing import facts_of
from sealhost.host.cli.signing import app
from sealhost.signing import Code, SealhostError

DECLARATIONS = {
    "tok": 'name = "tok"\nrole = "tokenizer"\nabi = 1\n[limits]\nmemory_bytes = 65536\ninit_ms = 1\nload_ms = 1\nencode_ms = 1\n',
    "sam": 'name = "sam"\nrole = "sampler"\nabi = 1\ntier = "full"\n[limits]\nmemory_bytes = 65536\ninit_ms = 1\nstep_ms = 1\n',
}


def gguf_text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def tiny_gguf(template: str | None, architecture: str = "llama") -> bytes:
    """A GGUF v3 file with two metadata keys at most and one tensor of 32 floats."""
    keys = [("general.architecture", architecture), *([("tokenizer.chat_template", template)] if template else [])]
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys))
    for key, value in keys:
        data += gguf_text(key) + struct.pack("<I", 8) + gguf_text(value)
    data += gguf_text("output_norm.weight") + struct.pack("<IQIQ", 1, 32, 0, 0)
    return data + bytes(-len(data) % 32) + struct.pack("<32f", *range(32))


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    """A publisher's working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEALHOST_PASSPHRASE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name, declaration in DECLARATIONS.items():
        Path(f"{name}.wasm").write_bytes(b"\0asm\1\0\0\0" + name.encode())
        Path(f"{name}.toml").write_text(declaration)
    Path("m.gguf").write_bytes(tiny_gguf("{{ messages }}"))
    return tmp_path


@pytest.fixture
def command(capsys):
    """Runs one command line as `main` would mount it; returns what it printed."""
    main = App(name="sealhost")
    main.command(app, name="*")
    main.command(trust.app, name="trust")

    def run(*words: str) -> str:
        capsys.readouterr()
        main(words, result_action="return_value")
        return capsys.readouterr().out

    return run


PACK = (
    "pack",
    "m.gguf",
    "--out",
    "b",
    "--name",
    "n",
    "--version",
    "1",
    "--tokenizer",
    "tok.wasm",
    "--sampler",
    "sam.wasm",
)


def make_bundle(command) -> None:
    command("keygen", "acme", "--no-passphrase")
    command(*PACK)
    command("sign", "b", "--key", "acme.key")
    Path("keys").mkdir()
    Path("acme.pub").rename("keys/acme.pub")


@pytest.mark.parametrize(
    ("architecture", "reason"), [("rwkv7", "E_GGUF general.architecture: expected one of: "), ("llama", "E_GGUF ")]
)
def test_a_model_that_hosts_cannot_load_is_packed_with_a_warning(desk, capsys, architecture, reason) -> None:
    """Hosts of another version may load it; the second one has an architecture, and hardly a tensor."""
    Path("m.gguf").write_bytes(tiny_gguf(None, architecture))
    assert run_main([*PACK, "--json"]) == 0
    said = capsys.readouterr()
    warning = json.loads(said.out)["warning"]
    assert warning.startswith(reason)
    assert said.err == f"warning: this version of sealhost cannot load this model: {warning}\n"


@pytest.mark.model
def test_a_model_that_hosts_can_load_is_packed_without_a_word(smollm2_gguf) -> None:
    assert facts_of(smollm2_gguf).warning is None


def test_the_whole_way_in_json(desk, command, monkeypatch) -> None:
    monkeypatch.setenv("SEALHOST_PASSPHRASE", "correct horse")
    key = json.loads(command("keygen", "acme", "--json"))
    packed = json.loads(command(*PACK, "--json"))
    signed = json.loads(command("sign", "b", "--key", "acme.key", "--json"))
    Path("keys").mkdir()
    Path("acme.pub").rename("keys/acme.pub")
    verified = json.loads(command("verify", "b", "--keys", "keys", "--full", "--json"))
    claimed = json.loads(command("inspect", "b", "--json"))
    assert key["encrypted"] is True
    assert packed["template"] == "same"
    assert signed["signature"] == "bundle.sig"
    assert packed["digest"] == signed["digest"] == verified["digest"] == claimed["digest"]
    assert verified["signers"] == claimed["claimed_signers"] == [signed["key_id"]] == [key["key_id"]]
    assert (verified["verified"], claimed["verified"]) == (True, False)
    assert [plugin["name"] for plugin in verified["plugins"]] == ["tok", "sam"]


def test_the_whole_way_for_a_person(desk, command) -> None:
    make_bundle(command)
    said = command("verify", "b", "--keys", "keys")
    assert "verified        yes" in said
    assert "sampler sam" in said
    assert "\x1b" not in said
    claims = command("inspect", "b")
    assert claims.startswith("UNVERIFIED")
    assert "model.gguf" in claims


def test_without_keys_the_users_own_trust_store_is_asked(desk, command) -> None:
    make_bundle(command)
    with pytest.raises(SealhostError) as caught:
        command("verify", "b")
    assert caught.value.code is Code.IO
    (desk / "data" / "sealhost").mkdir(parents=True)
    Path("keys").rename(desk / "data" / "sealhost" / "keys")
    assert "verified" in command("verify", "b")


def test_the_keys_folder_has_an_environment_twin_and_the_flag_wins(desk, command, monkeypatch) -> None:
    make_bundle(command)
    monkeypatch.setenv("SEALHOST_KEYS", "keys")
    assert run_main(["verify", "b"]) == 0
    assert run_main(["verify", "b", "--keys", "elsewhere"]) == 3


def test_a_refusal_is_told_to_programs_too(desk, command, capsys) -> None:
    make_bundle(command)
    Path("b/plugins/tok.wasm").unlink()
    Path("b/\x1b[31mred").touch()
    with pytest.raises(SealhostError) as caught:
        command("verify", "b", "--keys", "keys", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["verified"] is False
    assert (answer["error"]["code"], answer["error"]["exit_code"]) == ("E_UNLISTED", 1)
    assert answer["error"]["missing"] == ["plugins/tok.wasm"]
    assert answer["error"]["extra"] == ["\x1b[31mred"]
    assert caught.value.exit_code == 1
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 3, 23, 24, 60, 100, -129, -128, -1])
def test_a_cut_model_is_refused_and_nothing_is_written(desk, command, size) -> None:
    Path("cut.gguf").write_bytes(tiny_gguf("x")[:size])
    before = sorted(desk.iterdir())
    with pytest.raises(SealhostError) as caught:
        command("pack", "cut.gguf", *PACK[2:])
    assert caught.value.code is Code.GGUF
    assert caught.value.exit_code != 0
    assert sorted(desk.iterdir()) == before


@pytest.mark.parametrize(
    ("own", "given", "relation"),
    [
        (None, None, "none"),
        ("x", None, "same"),
        ("x", "x", "same"),
        ("x", "y", "replaced"),
        (None, "y", "added"),
    ],
)
def test_the_manifest_says_how_the_template_relates_to_the_models_own(desk, command, own, given, relation) -> None:
    Path("m.gguf").write_bytes(tiny_gguf(own))
    if given:
        Path("t.jinja").write_text(given)
    packed = json.loads(command(*PACK, *(("--template", "t.jinja") if given else ()), "--json"))
    assert packed["template"] == relation
    template = Path("b/chat_template.jinja")
    assert (template.read_text() if template.exists() else None) == (given or own)


def test_documents_travel_along(desk, command) -> None:
    Path("LICENSE").write_text("Apache-2.0")
    command(*PACK, "--document", "LICENSE")
    assert Path("b/documents/LICENSE").read_text() == "Apache-2.0"


def test_the_reference_plugins_are_packed_by_default(desk, command) -> None:
    command(*PACK[:8])
    plugins = json.loads(Path("b/manifest.json").read_text())["plugins"]
    assert [plugin["name"] for plugin in plugins] == ["bpe", "standard", "json"]
    assert [plugin["role"] for plugin in plugins] == ["tokenizer", "sampler", "sampler"]
    for plugin in plugins:
        assert Path("b", plugin["path"]).read_bytes().startswith(b"\0asm")


def test_a_model_that_cannot_be_read_is_an_io_refusal(desk, command, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("sealhost.host.cli.bare_file.os.pread", fail)
    with pytest.raises(SealhostError, match="Input/output error") as caught:
        command(*PACK)
    assert caught.value.code is Code.IO


BAD_COMMANDS = {
    "no such model": (("pack", "none.gguf", *PACK[2:]), Code.IO),
    "a folder as model": (("pack", "b.d", *PACK[2:]), Code.IO),
    "an unknown tokenizer": ((*PACK[:8], "--tokenizer", "nope"), Code.USAGE),
    "an empty tokenizer": ((*PACK[:8], "--tokenizer", ""), Code.USAGE),
    "a name that climbs out": ((*PACK[:8], "--tokenizer", "../tok"), Code.USAGE),
    "a sampler as tokenizer": ((*PACK[:8], "--tokenizer", "sam.wasm"), Code.USAGE),
    "a plugin without a declaration": ((*PACK[:8], "--tokenizer", "lone.wasm"), Code.IO),
    "a bad bundle name": (("pack", "m.gguf", "--out", "b", "--name", "a/b", *PACK[6:]), Code.USAGE),
    "version zero": ((*PACK[:7], "0", *PACK[8:]), Code.USAGE),
    "no such template": ((*PACK, "--template", "none.jinja"), Code.IO),
    "a template that is not UTF-8": ((*PACK, "--template", "latin.jinja"), Code.TEMPLATE),
    "no such document": ((*PACK, "--document", "none"), Code.IO),
    "no such bundle to sign": (("sign", "none", "--key", "acme.key"), Code.IO),
    "no such key": (("sign", "b.d", "--key", "none.key"), Code.IO),
    "no such bundle to verify": (("verify", "none", "--keys", "keys"), Code.IO),
    "no such bundle to inspect": (("inspect", "none"), Code.IO),
    "no bundle at all": (("inspect", "b.d"), Code.MISSING),
    "a key that is there already": (("keygen", "acme", "--no-passphrase"), Code.USAGE),
    "a folder that is not there": (("keygen", "x", "--no-passphrase", "--out", "none"), Code.IO),
    "no passphrase and nobody to ask": (("keygen", "x"), Code.USAGE),
    "a descriptor that is not open": (("keygen", "x", "--passphrase-fd", "987"), Code.USAGE),
    "a descriptor that cannot be": (("keygen", "x", "--passphrase-fd", "99999999999"), Code.USAGE),
}


@pytest.mark.parametrize(("words", "code"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_a_bad_command_is_one_refusal_and_no_traceback(desk, command, words, code) -> None:
    command("keygen", "acme", "--no-passphrase")
    Path("keys").mkdir()
    Path("acme.pub").rename("keys/acme.pub")
    Path("b.d").mkdir()
    Path("lone.wasm").write_bytes(b"\0asm")
    Path("latin.jinja").write_bytes(b"\xe9")
    with pytest.raises(SealhostError) as caught:
        command(*words)
    assert caught.value.code is code, str(caught.value)
    assert str(caught.value).isprintable()
    assert not Path("b").exists()


@pytest.mark.parametrize("text", [b"from a pipe\n", b"from a pipe\r\nmore", b"from a pipe"])
def test_a_passphrase_may_come_through_a_descriptor(desk, command, text) -> None:
    for words in (("keygen", "acme"), ("sign", "b", "--key", "acme.key")):
        if words[0] == "sign":
            command(*PACK)
        reader, writer = os.pipe()
        os.write(writer, text)
        os.close(writer)
        command(*words, "--passphrase-fd", str(reader))
        os.close(reader)
    assert Path("b/bundle.sig").exists()


def test_each_key_takes_a_line_of_the_descriptor(desk, command) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"first\nsecond\nfirst\n")
    os.close(writer)
    for name in ("one", "two"):
        command("keygen", name, "--passphrase-fd", str(reader))
    command(*PACK)
    command("sign", "b", "--key", "one.key", "--passphrase-fd", str(reader))
    os.close(reader)
    assert Path("b/bundle.sig").exists()


@pytest.mark.parametrize("text", [b"", b"\n", b"x" * 5000])
def test_an_empty_or_endless_passphrase_is_refused(desk, command, text) -> None:
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    with pytest.raises(SealhostError) as caught:
        command("keygen", "acme", "--passphrase-fd", str(reader))
    os.close(reader)
    assert caught.value.code is Code.USAGE
    assert not list(desk.glob("acme.*"))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("keygen", "../acme"), Code.USAGE),
        (("keygen", "acme"), Code.USAGE),
        (("keygen", "new", "--out", "none"), Code.IO),
        (("keygen", "new", "--out", "locked"), Code.IO),
        (("sign", "none", "--key", "acme.key"), Code.IO),
        (("sign", "b", "--key", "acme.key", "--oms-key", "none"), Code.IO),
        (("trust", "sign", "none", "--key", "acme.key"), Code.IO),
    ],
)
def test_nobody_is_asked_for_a_passphrase_in_vain(desk, command, monkeypatch, words, code) -> None:
    monkeypatch.setenv("SEALHOST_PASSPHRASE", "secret")
    command("keygen", "acme")
    command(*PACK)
    (desk / "locked").mkdir()
    access = os.access  # which says yes to root
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "locked" and access(path, mode))
    monkeypatch.delenv("SEALHOST_PASSPHRASE")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda *_, **__: pytest.fail("somebody was asked"))
    with pytest.raises(SealhostError) as caught:
        command(*words)
    assert caught.value.code is code, str(caught.value)


def test_a_person_is_asked_twice_for_a_new_passphrase_and_once_for_an_old_one(desk, command, monkeypatch) -> None:
    answers = ["one", "two", "secret", "secret", "secret"]
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda *_, **__: answers.pop(0))
    with pytest.raises(SealhostError, match="two different ones"):
        command("keygen", "acme")
    command("keygen", "acme")
    command(*PACK)
    command("sign", "b", "--key", "acme.key")
    assert answers == []


def test_a_progress_bar_is_drawn_for_a_person_only(desk, command, monkeypatch, capsys) -> None:
    make_bundle(command)
    command("verify", "b", "--keys", "keys")
    monkeypatch.setenv("FORCE_COLOR", "1")
    capsys.readouterr()
    app(["verify", "b", "--keys", "keys"], result_action="return_value")
    assert "verifying" in capsys.readouterr().err


def test_exit_codes_and_one_line_reach_the_shell(desk, command, capsys) -> None:
    make_bundle(command)
    cases = [
        (["verify", "b", "--keys", "keys"], 0, ""),
        (["verify", "none", "--keys", "keys"], 3, "E_IO none: "),
        (["verify", "b", "--keys", "strangers"], 4, "E_UNTRUSTED bundle.sig: "),
        (["pack", "m.gguf", "--out", "c", "--name", "n", "--version", "1", "--tokenizer", "nope"], 2, "E_USAGE "),
        (["verify"], 2, "E_USAGE "),
    ]
    command("keygen", "stranger", "--no-passphrase")
    Path("strangers").mkdir()
    Path("stranger.pub").rename("strangers/stranger.pub")
    for words, code, begins in cases:
        assert run_main(words) == code
        assert capsys.readouterr().err.startswith(begins)
    Path("b/model.gguf").write_bytes(tiny_gguf("other text")[::-1])
    assert run_main(["verify", "b", "--keys", "keys"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.model
def test_the_demo_model_is_packed_signed_and_verified(desk, command, smollm2_gguf) -> None:
    command("keygen", "acme", "--no-passphrase")
    packed = json.loads(command("pack", str(smollm2_gguf), *PACK[2:], "--json"))
    command("sign", "b", "--key", "acme.key")
    Path("keys").mkdir()
    Path("acme.pub").rename("keys/acme.pub")
    verified = json.loads(command("verify", "b", "--keys", "keys", "--json"))
    assert packed["template"] == "same"
    assert verified["bytes"] > smollm2_gguf.stat().st_size
    assert verified["digest"] == packed["digest"]
