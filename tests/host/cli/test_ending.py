"""How a command line ends when somebody else ends it, or nobody can hear it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sealhost.host.cli import entry, main, signing
from sealhost.host.cli.main import run

VERIFY = ("verify", "/nonexistent/bundle", "--keys", "/nonexistent")
SCRIPT = (sys.executable, "-c", "from sealhost.host.cli.entry import main; main()")


def ended(arguments: tuple[str, ...], streams: str) -> subprocess.CompletedProcess[str]:
    """What a shell sees of a command line whose streams it has redirected so."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", *SCRIPT, *arguments],
        capture_output=True, text=True, timeout=120, check=False, env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def verb(monkeypatch: pytest.MonkeyPatch, does: Any) -> None:
    """Has any command line do this."""
    monkeypatch.setattr(main, "command_line", lambda: lambda *_arguments, **_options: does())


@pytest.mark.parametrize("arguments", [VERIFY, ("inspect", "/nonexistent/bundle")])
def test_a_program_gets_the_refusal_through_a_pipe(arguments: tuple[str, ...]) -> None:
    done = ended((*arguments, "--json"), "")
    assert done.returncode == 3
    assert json.loads(done.stdout)["error"]["code"] == "E_IO"


@pytest.mark.parametrize("streams", [">&-", "<&-", "<&- >&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_change_nothing(streams: str) -> None:
    done = ended(VERIFY, streams)
    assert done.returncode == 3
    assert done.stderr.count("\n") == ("2>&-" not in streams)
    assert ended(("--help",), streams).returncode == 0


def test_no_file_takes_a_closed_stream_s_number() -> None:
    code = "from sealhost.host.cli.descriptors import fill_descriptors as f; f(); import os; os._exit(os.open('/', os.O_RDONLY))"
    done = subprocess.run(["sh", "-c", f'{sys.executable} -c "{code}" <&- >&- 2>&-'], timeout=120, check=False)
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("arguments", "streams", "code", "lines"),
    [
        (("--help",), ">/dev/full", 3, 1),
        ((*VERIFY, "--json"), ">/dev/full", 3, 1),
        (VERIFY, "2>/dev/full", 3, 0),
        (("inspect",), "2>/dev/full", 2, 0),
    ],
)
def test_what_cannot_be_said_is_told_by_the_exit_code(
    arguments: tuple[str, ...], streams: str, code: int, lines: int
) -> None:
    done = ended(arguments, streams)
    assert (done.returncode, done.stderr.count("\n")) == (code, lines), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_letters_that_an_encoding_lacks_are_escaped(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = ended(("keygen", "a", "--no-passphrase", "--out", str(tmp_path / "→")), "")
    assert (done.returncode, done.stdout) == (3, "")
    (tmp_path / "→").mkdir()
    done = ended(("keygen", "a", "--no-passphrase", "--out", str(tmp_path / "→")), "")
    assert (done.returncode, done.stderr) == (0, "")
    assert ("→" if encoding == "utf-8" else "\\u2192") in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_half_made(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    half = tmp_path / "half"

    def makes() -> None:
        half.touch()
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        except Exception:  # noqa: BLE001 — a signal is no fault that somebody could pass over
            return
        finally:
            half.unlink()

    verb(monkeypatch, makes)
    before = signal.signal(number, signal.SIG_DFL)  # whoever started the tests may have it ignored (nohup)
    try:
        assert run(["x"]) == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert not half.exists()
    assert capfd.readouterr() == ("", "")


def test_a_hangup_that_was_ignored_from_the_start_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    verb(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGHUP))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run(["x"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("behind", [None, ValueError("made of it by an import")])
def test_control_c_in_a_verb_is_no_pipe_that_closed(
    behind: Exception | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_path: Path) -> None:
        if behind is not None:
            raise behind from KeyboardInterrupt()
        raise KeyboardInterrupt

    monkeypatch.setattr(signing, "inspect_bundle", interrupted)
    assert run(["inspect", str(tmp_path)]) == 130
    assert capsys.readouterr() == ("", "")


def test_control_c_while_the_program_is_imported_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_begun: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "main", interrupted)
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 130
