"""What `serve` makes of its options before and while it reads a bundle."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import structlog

from sealhost.host.cli.main import run
from sealhost.signing.errors import Code, SealError


@pytest.fixture
def keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    folder = tmp_path / "keys"
    folder.mkdir()
    assert run(["keygen", "acme", "--out", str(tmp_path), "--no-passphrase"]) == 0
    (tmp_path / "acme.pub").rename(folder / "acme.pub")
    capsys.readouterr()
    yield str(folder)
    structlog.reset_defaults()  # `serve` sends its log to this test's standard error


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How the verifier was called; it refuses everything, so that `serve` ends."""
    calls: list[dict[str, Any]] = []

    def refuse(root: Path, _trust: object, **how: Any) -> None:
        calls.append({"root": root, **how})
        raise SealError(Code.NOSIG, "bundle", "expected a signature, got none", "sign it")

    monkeypatch.setattr("sealhost.host.cli.serve.verify", refuse)
    return calls


def write_private(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, *said: str) -> None:
    assert run(["serve", "bundle", "--port", "0", *arguments]) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert all(part in last for part in said), last


@pytest.mark.parametrize(("flags", "reading"), [([], "ahead"), (["--lazy"], "lazy")])
def test_weights_are_read_ahead_or_lazily(
    keys: str, seen: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], flags: list[str], reading: str
) -> None:
    refused(capsys, ["--keys", keys, *flags], 1, "E_NOSIG")
    assert seen == [{"root": Path("bundle"), "reading": reading}]


@pytest.mark.parametrize("refused_one", ["plugins/one", "plugins/two", "bundle"])
def test_a_refusal_says_of_which_bundle_it_is(
    keys: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refused_one: str
) -> None:
    def refuse(root: Path, _trust: object, **_how: object) -> Any:
        if root == Path(refused_one):
            raise SealError(Code.NOSIG, "bundle", "expected a signature, got none", "sign it")
        manifest = SimpleNamespace(name=root.name, kind="plugin", version=1)
        return SimpleNamespace(root=root, manifest=manifest, digest="00" * 32, signers=(), weights=None)

    monkeypatch.setattr("sealhost.host.cli.serve.verify", refuse)
    state = str(Path(keys).parent / "state")
    plugins = ["--plugin", "plugins/one", "--plugin", "plugins/two"]
    refused(capsys, ["--keys", keys, "--state", state, *plugins], 1, f"E_NOSIG {refused_one}: expected a signature")


def test_an_admin_plane_that_others_could_reach_needs_a_key(
    keys: str, seen: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    everywhere = ["--keys", keys, "--admin-port", "0", "--admin-host", "0.0.0.0"]  # noqa: S104 — what is refused
    refused(capsys, everywhere, 2, "E_USAGE --admin-host", "--admin-key-file")
    assert seen == []
    write_private(tmp_path / "key", "a-long-admin-key\n")
    refused(capsys, [*everywhere, "--admin-key-file", str(tmp_path / "key")], 1, "E_NOSIG")


@pytest.mark.parametrize(
    ("admin", "code", "said"),
    [
        ("short", 2, "at least 8"),
        ("# no key\n", 2, "at least one key"),
        ("the-same-key", 2, "no API key"),
        (None, 3, "--admin-key-file"),
    ],
)
def test_an_admin_key_that_is_no_good_is_refused_before_anything_is_read(
    keys: str,
    seen: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    admin: str | None,
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("SEALHOST_API_KEY", "the-same-key")
    tmp_path = Path(keys).parent
    if admin is not None:
        write_private(tmp_path / "key", admin)
    arguments = ["--keys", keys, "--admin-port", "0", "--admin-key-file", str(tmp_path / "key")]
    refused(capsys, arguments, code, said)
    assert seen == []


def test_an_admin_port_that_is_taken_is_refused_before_anything_is_read(
    keys: str, seen: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("SEALHOST_ADMIN_PORT", str(other.getsockname()[1]))
        refused(capsys, ["--keys", keys], 3, "E_IO", str(other.getsockname()[1]))
    assert seen == []


def test_a_server_whose_terminal_went_away_ends(keys: str, tmp_path: Path) -> None:
    """Its load never ends, so that nothing else can end the process."""
    ours, theirs = pty.openpty()
    script = (
        "import threading; from sealhost.host.cli import entry, serve; "
        "serve.verify = lambda *_a, **_o: threading.Event().wait(); entry.main()"
    )
    arguments = ["serve", str(tmp_path / "bundle"), "--port", "0", "--keys", keys]
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], stderr=theirs)
    os.close(theirs)
    try:
        told = b""
        while not (found := re.search(rb"listening on (http://\S+);", told)):
            told += os.read(ours, 4096)
        transport = httpx.HTTPTransport(retries=5)
        with httpx.Client(base_url=found[1].decode(), transport=transport, timeout=120) as client:
            assert client.get("/livez").status_code == 200  # it has taken the signals by now
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)  # the terminal is there: keys would be read again once the load is over
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()


def test_a_bundle_that_is_refused_closes_the_admin_plane_too(
    keys: str, seen: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    refused(capsys, ["--keys", keys, "--admin-port", "0"], 1, "E_NOSIG")
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("arguments", "config", "code", "said"),
    [
        (["--sampler-config-file", "{file}"], "{}", 2, "expected --sampler with it"),
        (["--sampler", "guard", "--sampler-config-file", "{file}"], "[]", 2, "expected a JSON object, got an array"),
        (["--sampler", "guard", "--sampler-config-file", "{file}"], "{", 2, "does not parse"),
        (["--sampler", "guard", "--sampler-config-file", "{file}"], None, 3, "E_IO"),
        (["--sampler", "guard", "--sampler-config-file", "{file}"], " " * 70_000, 1, "at most 65536 bytes"),
        (["--sampler", "guard", "--sampler-config-file", "{file}"], "{}", 1, "E_NOSIG"),
        (["--sampler", "guard"], None, 1, "E_NOSIG"),
    ],
)
def test_a_sampler_for_every_request_is_read_before_anything_else(
    keys: str,
    seen: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    config: str | None,
    code: int,
    said: str,
) -> None:
    file = Path(keys).parent / "config.json"
    if config is not None:
        file.write_text(config)
    refused(capsys, ["--keys", keys, *(one.format(file=file) for one in arguments)], code, said)
    assert bool(seen) == (said == "E_NOSIG")
