"""`swap`, `rollback`, `drain` and `status --admin` against a running host."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sealhost.host.cli.main import run


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SEALHOST_ADMIN_KEY", raising=False)
    monkeypatch.delenv("SEALHOST_ADMIN", raising=False)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a verb: its exit code, standard output and standard error."""

    def verb(desk: Any, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([arguments[0], "--admin", desk.admin_url, *arguments[1:]])
        told = capsys.readouterr()
        return code, told.out, told.err

    return verb


def test_swap_and_rollback_say_from_which_version_to_which(desk: Any, say: Any) -> None:
    root = desk.bundle(4)
    code, out, err = say(desk, "swap", str(root))
    assert (code, err) == (0, "")
    assert out.startswith("lab: version 3 → 4, sha256 ")
    assert desk.ask()[0] == "version 4"
    assert say(desk, "swap", "lab")[1].startswith("lab: already serving version 4")
    assert say(desk, "rollback", "lab")[1].startswith("lab: version 4 → 3")
    assert desk.ask()[0] == "version 3"


def test_a_person_who_looks_sees_how_far_it_is(
    desk: Any, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        "sealhost.host.cli.admin_progress.Console", lambda **_: Console(file=screen, force_terminal=True, width=100)
    )
    root = desk.bundle(4)
    desk.host.loading.clear()
    desk.host.gate = threading.Event()
    codes: list[int] = []
    swapping = threading.Thread(target=lambda: codes.append(run(["swap", str(root), "--admin", desk.admin_url])))
    swapping.start()
    until(lambda: "verifying and loading" in screen.getvalue())
    until(lambda: "1/2 bytes" in screen.getvalue())
    desk.host.gate.set()
    swapping.join(120)
    assert codes == [0]


def test_a_relative_directory_is_named_in_full(desk: Any, say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = desk.bundle(4)
    monkeypatch.chdir(desk.folder)
    code, out, _ = say(desk, "swap", root.name, "--json")
    assert code == 0
    assert json.loads(out)["path"] == str(root)


def test_rollback_takes_a_directory(desk: Any, say: Any) -> None:
    code, out, _ = say(desk, "rollback", "lab", str(desk.bundle(2)))
    assert code == 0
    assert out.startswith("lab: version 3 → 2")


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (lambda root: (root / "model.gguf").write_bytes(b"GGUF"), 1, "E_SIZE {root}: model.gguf: expected"),
        (lambda root: (root / "extra\x1b[31m").write_bytes(b""), 1, "E_UNLISTED {root}: extra"),
        (lambda root: (root / "bundle.sig").unlink(), 1, "E_NOSIG {root}: expected"),
        (lambda root: root.rename(root.with_name("gone")), 3, "E_IO {root}: "),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_the_hosts_refusal_is_the_verbs_line_and_exit_code(
    desk: Any, say: Any, spoil: Callable[[Path], object], code: int, said: str, as_json: bool
) -> None:
    root = desk.bundle(4)
    spoil(root)
    got, out, err = say(desk, "swap", str(root), *(["--json"] if as_json else []))
    assert got == code
    assert err.startswith(said.format(root=root))
    assert err.count("\n") == 1
    assert "\x1b" not in err + out
    if as_json:
        error = json.loads(out)["error"]
        assert (error["exit_code"], err.startswith(error["code"])) == (code, True)
    else:
        assert out == ""
    assert desk.ask()[0] == "version 3"


def test_a_rollback_of_policy_is_exit_4(desk: Any, say: Any) -> None:
    older = desk.bundle(2)
    code, _, err = say(desk, "swap", str(older))
    assert (code, err.split()[0]) == (4, "E_ROLLBACK")
    assert say(desk, "rollback", "lab")[0] == 2


def test_drain_waits_for_what_runs_and_can_be_undone(desk: Any, say: Any) -> None:
    plane = desk.host.planes[3]
    plane.engine.pause_at = 2
    asking = threading.Thread(target=desk.ask)
    asking.start()
    plane.engine.wait_for(lambda engine: engine.submitted)
    assert say(desk, "drain", "--wait", "0")[:2] == (0, "draining: 1 request running\n")
    threading.Timer(0.2, plane.engine.resume).start()
    code, out, _ = say(desk, "drain", "--json")
    assert (code, json.loads(out)) == (0, {"phase": "draining", "requests": 0})
    asking.join(120)
    assert say(desk, "drain", "--undo")[1] == "ready: no requests running\n"
    assert say(desk, "drain", "--wait", "-1")[0] == 2


def test_status_says_what_the_named_host_serves(desk: Any, say: Any) -> None:
    desk.swap(desk.bundle(4))
    code, out, _ = say(desk, "status", "--keys", str(desk.keys))
    assert code == 0
    assert f"running host    {desk.admin_url}, ready, 0 requests" in out
    assert "serving         lab version 4, sha256 " in out
    assert "before it version 3, still loaded" in out
    told = json.loads(say(desk, "status", "--keys", str(desk.keys), "--json")[1])
    assert told["host"]["models"][0]["version"] == 4
    assert run(["status", "--keys", str(desk.keys)]) == 0


def test_the_key_comes_from_a_file_or_the_environment(
    make_desk: Any, say: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    desk = make_desk(admin_keys=("the-admin-key",))
    code, _, err = say(desk, "drain")
    assert code == 2
    assert "expected the admin key" in err
    assert "--admin-key-file" in err
    (tmp_path / "key").write_text("# ours\nthe-admin-key\n")
    (tmp_path / "key").chmod(0o600)
    assert say(desk, "drain", "--undo", "--admin-key-file", str(tmp_path / "key"))[0] == 0
    monkeypatch.setenv("SEALHOST_ADMIN_KEY", "the-admin-key")
    assert say(desk, "swap", str(desk.bundle(4)))[0] == 0
    monkeypatch.setenv("SEALHOST_ADMIN", desk.admin_url)
    assert run(["rollback", "lab"]) == 0


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """A server that answers anything with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as client:
                client.recv(65536)
                client.sendall(raw)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(120)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"[" * 200000,
        b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{",
    ],
)
def test_what_is_no_sealhost_is_one_line_and_exit_3(raw: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(raw) as url:
        assert run(["drain", "--admin", url]) == 3
    err = capsys.readouterr().err
    assert err.startswith(f"E_IO {url}: expected a sealhost's admin plane, got ")
    assert err.count("\n") == 1


def test_what_a_hostile_host_says_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    error = {
        "message": "a\x1b[2Jb; c\x1b[2Jd",
        "code": "E_DIGEST",
        "param": "x\x1b[2J",
        "problem": "p\n\x1b",
        "remedy": "\x1b[1m",
    }
    for body in ({"error": error}, {"error": error | {"code": "\x1b[2J"}}):
        raw = json.dumps(body).encode()
        with answering(b"HTTP/1.1 422 X\r\ncontent-length: %d\r\n\r\n" % len(raw) + raw) as url:
            assert run(["drain", "--admin", url]) in {1, 2}
        told = capsys.readouterr()
        assert "\x1b" not in told.err + told.out
        assert told.err.count("\n") == 1
    answer = {"name": "a\x1b[2J", "version": "1\x1b", "digest": "\x1b", "changed": False}
    raw = json.dumps(answer).encode()
    with answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(raw) + raw) as url:
        assert run(["swap", "x", "--admin", url]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("url", ["", "8081", "ftp://127.0.0.1", "http://", "http://127.0.0.1:http", "http://[::1"])
def test_an_address_that_is_none_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drain", "--admin", url]) == 2
    assert capsys.readouterr().err.startswith("E_USAGE --admin: expected http://HOST:PORT")


def test_where_nobody_listens_the_line_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert run(["swap", "lab", "--admin", url]) == 3
    assert "start one with serve --admin-port" in capsys.readouterr().err
