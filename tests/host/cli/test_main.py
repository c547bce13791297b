"""Ways for a command to end: one line, one exit code."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from sealhost.host.cli import main
from sealhost.host.cli.main import run
from sealhost.host.errors import WeightsError
from sealhost.signing.errors import Code, SealError

MISSING = "/nonexistent/bundle"


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, *said: str) -> str:
    assert run(arguments) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("E_")
    assert "Traceback" not in output.err
    for part in said:
        assert part in output.err
    return output.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nope"], 2, ("E_USAGE", "nope")),
        (["run"], 2, ("E_USAGE", "BUNDLE")),
        (["run", "x"], 2, ("E_USAGE", "PROMPT")),
        (["run", "x", "y", "--bogus"], 2, ("E_USAGE", "--bogus")),
        (["run", "x", "y", "--max-tokens", "many"], 2, ("E_USAGE", "--max-tokens", "many")),
        (["serve"], 2, ("E_USAGE", "BUNDLES")),
        (["serve", "x", "--port", "http"], 2, ("E_USAGE", "--port")),
        (["serve", "x", "--grace", "-1"], 2, ("E_USAGE", "--grace")),
        (["serve", "x", "--max-connections", "0"], 2, ("E_USAGE", "--max-connections")),
        (["serve", "x", "--kv-mib", "0"], 2, ("E_USAGE --kv-mib: expected 1 to",)),
        (["verify", "x", "--keys", ""], 2, ("E_USAGE --keys", "an empty text")),
        (["run", "x", "y", "--state="], 2, ("E_USAGE --state", "an empty text")),
        (["verify", ""], 2, ("E_USAGE BUNDLE: expected the path of a file or folder, got an empty text; name one",)),
        (["inspect", ""], 2, ("E_USAGE BUNDLE", "an empty text")),
        (["run", "", "y"], 2, ("E_USAGE BUNDLE", "an empty text")),
        (["serve", "x", ""], 2, ("E_USAGE BUNDLES", "an empty text")),
        (["serve", "x", "--plugin", ""], 2, ("E_USAGE --plugin", "an empty text")),
        (["serve", "x", "--swap-from", ""], 2, ("E_USAGE --swap-from", "an empty text")),
        (["sign", "x", "--key", ""], 2, ("E_USAGE --key", "an empty text")),
        (["keygen", "x", "--out", ""], 2, ("E_USAGE --out", "an empty text")),
        (["tokenize", ""], 2, ("E_USAGE SOURCE", "an empty text")),
        (["plugin", "build", ""], 2, ("E_USAGE FOLDER", "an empty text")),
        (["trust", "add", ""], 2, ("E_USAGE PUBLIC_KEY", "an empty text")),
        (["swap", ""], 2, ("E_USAGE NAME|DIR", "an empty text")),
        (["serve", "x", "--context", "1"], 2, ("E_USAGE --context: expected 2 to",)),
        (["serve", "x", "--max-sequences", "513"], 2, ("E_USAGE --max-sequences: expected 1 to 512, got 513",)),
        (["serve", "x", "--max-waiting", "0"], 2, ("E_USAGE --max-waiting",)),
        (["serve", "x", "--allow-origin", "example.org"], 2, ("E_USAGE --allow-origin", "https://example.org")),
        (["serve", "x", "--swap-from", "y"], 2, ("E_USAGE --swap-from", "--admin-port")),
        (["sign", "x", "--key", "pyproject.toml"], 4, ("E_KEY pyproject.toml", "keygen")),
        (["pack", "tests", "--out", "y", "--name", "n", "--version", "1"], 3, ("E_IO tests", "got a folder")),
        (["pack", "x.gguf", "--out", "y", "--name", "a b", "--version", "1"], 2, ("E_USAGE --name", "'a b'")),
        (["pack", "x.gguf", "--out", "y", "--name", "n", "--version", "0"], 2, ("E_USAGE --version", "got 0")),
        (["plugin", "pack", "guard", "--out", "y", "--name", "", "--version", "1"], 2, ("E_USAGE --name", "''")),
        (["serve", "x", "--kv-type", "int4"], 2, ("E_USAGE", "--kv-type", "int4")),
        (["serve", "x", "--threads", "-1"], 2, ("E_USAGE --threads",)),
        (["serve", "x", "--plugin-step-ms", "0"], 2, ("E_USAGE", "--plugin-step-ms", "600000")),
        (["run", "x", "y", "--plugin-memory-mib", "4096"], 2, ("E_USAGE", "--plugin-memory-mib", "4095")),
        (["bench", "x", "--plugin-fuel", "-1"], 2, ("E_USAGE", "--plugin-fuel")),
        (["serve", "x", "--port", "70000"], 2, ("E_USAGE", "70000", "65535")),
        (["serve", "x", "--api-key-file", "/nonexistent/keys"], 3, ("E_IO", "--api-key-file")),
        (["bench", "x", "--repeats", "0"], 2, ("E_USAGE", "--repeats")),
        (["bench", "x", "--decode-tokens", "1"], 2, ("E_USAGE", "--decode-tokens")),
        (["bench", "x", "--depth", "0"], 2, ("E_USAGE", "--depth")),
        (["bench", "x", "--prompt-tokens", "-1"], 2, ("E_USAGE", "--prompt-tokens")),
        (["bench", "x", "--batch", "33"], 2, ("E_USAGE", "--batch", "33", "--max-sequences")),
        (["bench", "x", "--plot", "speed.jpg"], 2, ("E_USAGE", "--plot", "speed.jpg", ".svg")),
        (["bench", "x", "--plot", f"{MISSING}/speed.svg"], 2, ("E_USAGE", "--plot", MISSING)),
        (["bench", MISSING, "--keys", MISSING], 3, ("E_IO", MISSING)),
        (["chat", MISSING, "--keys", MISSING], 3, ("E_IO", MISSING)),
        (["run", MISSING, "hi", "--keys", MISSING], 3, ("E_IO", MISSING)),
        (["tokenize", MISSING], 3, ("E_IO", MISSING)),
        (["verify", MISSING, "--keys", MISSING], 3, ("E_IO", MISSING)),
        (["inspect", MISSING], 3, ("E_IO", MISSING)),
        (["verify", "a\x1b[31mb\nc", "--keys", MISSING], 3, ("E_IO",)),
    ],
    ids=lambda value: " ".join(map(str, value))[:60] if isinstance(value, list) else None,
)
def test_a_refusal_is_one_line_with_its_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: tuple[str, ...]
) -> None:
    assert "\x1b" not in refused(capsys, arguments, code, *said)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SealError(Code.DIGEST, "model.gguf", "expected a, got b", "fetch it again"), 1, "E_DIGEST model.gguf:"),
        (SealError(Code.UNTRUSTED, "bundle", "expected a, got b", "trust it"), 4, "E_UNTRUSTED bundle:"),
        (WeightsError("general.architecture", "expected llama, got rwkv"), 1, "E_GGUF general.architecture:"),
        (ZeroDivisionError("bad\nluck \x1b[0m"), 5, "E_INTERNAL sealhost:"),
        (OSError(28, "No space left on device"), 3, "E_IO sealhost: cannot go on: No space left on device;"),
        (PermissionError(13, "Permission denied", "/x\x1b"), 3, "E_IO /x\\x1b: cannot go on: Permission denied;"),
        (RuntimeError("can't start new thread"), 3, "E_IO sealhost: cannot go on: can't start new thread;"),
        (MemoryError(), 5, "E_INTERNAL sealhost:"),
        (RecursionError(), 5, "E_INTERNAL sealhost:"),
    ],
)
def test_every_error_becomes_a_line_and_a_traceback_only_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, said: str
) -> None:
    def failing(*_arguments: Any, **_options: Any) -> None:
        raise error

    monkeypatch.setattr(main, "command_line", lambda: failing)
    assert "\x1b" not in refused(capsys, ["x"], code, said)
    monkeypatch.setenv("SEALHOST_DEBUG", "1")
    assert run(["x"]) == code
    assert "Traceback" in capsys.readouterr().err


def test_control_c_is_quiet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: Any, **_options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "command_line", lambda: interrupted)
    assert run(["x"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_went_away_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from sealhost.host.cli.entry import main; main()", "--help"],
            stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False, env=_environment(),
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_help_and_light_verbs_load_nothing_heavy() -> None:
    code = (
        "import sys; from sealhost.host.cli.main import run; "
        f"assert run(['--help']) == 0; assert run(['serve', '--help']) == 0; assert run(['verify', '{MISSING}', '--keys', '{MISSING}']) == 3; "
        "heavy = {'numba', 'wasmtime', 'uvicorn', 'starlette', 'minijinja'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=_environment()
    )
    assert done.returncode == 0, done.stderr
    assert "OpenAI-compatible" in done.stdout


def test_the_port_is_taken_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        refused(capsys, ["serve", MISSING, "--port", port, "--keys", MISSING], 3, "E_IO", f"127.0.0.1:{port}", "--port")
        monkeypatch.setenv("SEALHOST_PORT", port)
        refused(capsys, ["serve", MISSING, "--keys", MISSING], 3, f"127.0.0.1:{port}")
        # the flag wins, so the next thing to be refused is the trust store
        refused(capsys, ["serve", MISSING, "--port", "0", "--keys", MISSING], 3, MISSING)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("runn", "E_USAGE sealhost: expected a verb, got runn; did you mean run?"),
        ("frobnicate", "E_USAGE sealhost: expected a verb, got frobnicate; see sealhost --help"),
        ("plugin tset", "E_USAGE sealhost plugin: expected a verb, got tset; did you mean test?"),
        ("run x", "E_USAGE sealhost run: expected PROMPT, got none; see sealhost run --help"),
        ("sign x", "E_USAGE sealhost sign: expected --key, got none; see sealhost sign --help"),
        (
            "run x Who are you",
            "E_USAGE sealhost run: expected no further argument, got 'are'; put an argument of several words in quotes; see sealhost run --help",
        ),
        (
            "run x y --max-token=3",
            "E_USAGE sealhost run: expected one of its options, got --max-token; did you mean --max-tokens?",
        ),
        (
            "drain --frob",
            "E_USAGE sealhost drain: expected one of its options, got --frob; see sealhost drain --help",
        ),
        ("run x y --keys", "E_USAGE --keys: expected a value after it, got none; see sealhost run --help"),
        ("run x y --keys a --keys b", "E_USAGE --keys: expected it once, got it again; see sealhost run --help"),
        ("drain --wait soon", "E_USAGE --wait: expected a number, got soon; see sealhost drain --help"),
        (
            "plugin test --rounds x",
            "E_USAGE --rounds: expected a whole number, got x; see sealhost plugin test --help",
        ),
        (
            "plugin new a --role judge",
            "E_USAGE --role: expected one of sampler, tokenizer, got judge; see sealhost plugin new --help",
        ),
    ],
)
def test_a_line_that_cannot_be_read_says_what_was_expected_where(
    capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    assert refused(capsys, line.split(), 2) == said + "\n"


@pytest.mark.parametrize(
    ("name", "value", "arguments", "code", "said"),
    [
        ("SEALHOST_PORT", "http", ["serve", "x"], 2, "http"),
        ("SEALHOST_MAX_TOKENS", "many", ["run", "x", "y"], 2, "many"),
        ("SEALHOST_KEYS", "/nonexistent/from-environment", ["verify", "x"], 3, "from-environment"),
        ("SEALHOST_KEYS", "/nonexistent/from-environment", ["run", "x", "y"], 3, "from-environment"),
        ("SEALHOST_KEYS", "", ["verify", "x"], 2, "an empty text"),
        ("SEALHOST_PLUGIN", "", ["serve", "x"], 2, "an empty text"),
        ("SEALHOST_REPEATS", "0", ["bench", "x"], 2, "--repeats"),
        ("SEALHOST_API_KEY", "short", ["serve", "x"], 2, "SEALHOST_API_KEY"),
    ],
)
def test_every_flag_has_an_environment_twin(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv(name, value)
    refused(capsys, arguments, code, said)


@pytest.mark.parametrize(
    ("content", "said"), [("", "at least one"), ("# only a remark\n\n", "at least one"), ("short\n", "at least 8")]
)
def test_a_file_of_api_keys_must_hold_usable_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "api-keys"
    path.write_text(content)
    path.chmod(0o600)
    refused(capsys, ["serve", "x", "--api-key-file", str(path)], 2, said, str(path))


def test_every_verb_of_the_design_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("demo", "keygen", "pack", "sign", "verify", "inspect", "run", "chat", "serve", "tokenize", "bench"):
        assert run([verb, "--help"]) == 0
        assert f"sealhost {verb}" in capsys.readouterr().out


def test_help_lists_verbs_in_the_order_of_their_use(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = ("demo", "run", "keygen", "pack", "sign", "trust", "verify", "serve", "swap")
    for words, order in ([], verbs), (["plugin"], ("new", "build", "check", "test", "pack")):
        assert run([*words, "--help"]) == 0
        told = capsys.readouterr().out
        assert sorted(order, key=lambda verb: told.index(f"│ {verb} ")) == list(order)


def test_help_groups_its_options_and_names_their_twins_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--help"]) == 0
    told = capsys.readouterr().out
    titles = ("Options", "Admin plane", "How the model runs", "Limits of plugins")
    assert sorted(titles, key=lambda title: told.index(f"─ {title} ─")) == list(titles)
    assert told.count("SEALHOST_PORT") == 1
    assert "[default: False]" not in told


@pytest.mark.parametrize("verb", [["verify"], ["trust", "add"], ["plugin", "new"]], ids=" ".join)
def test_help_calls_options_options(capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    assert run([*verb, "--help"]) == 0
    told = capsys.readouterr().out
    assert "─ Options ─" in told
    assert "─ Parameters ─" not in told


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SEALHOST_")} | {
        "PYTHONWARNINGS": ""
    }


def test_log_records_are_one_line_and_show_tracebacks_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    from sealhost.host.cli.logs import OneLine

    def formatted() -> str:
        try:
            int("bad\nnews")
        except ValueError:
            return OneLine("%(message)r").format(
                logging.LogRecord("x", logging.ERROR, "f", 1, "it %s", ("failed",), sys.exc_info())
            )

    monkeypatch.delenv("SEALHOST_DEBUG", raising=False)
    assert formatted() == repr("it failed: ValueError: invalid literal for int() with base 10: 'bad\\nnews'")
    monkeypatch.setenv("SEALHOST_DEBUG", "1")
    assert "Traceback" in formatted()


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])  # noqa: S104 — that is the point
def test_serving_the_world_without_a_key_is_said_aloud(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, host: str, warned: bool
) -> None:
    from sealhost.signing.keys import write_key_pair

    write_key_pair(tmp_path, "acme", passphrase=None)
    (tmp_path / "acme.key").unlink()
    assert run(["serve", MISSING, "--host", host, "--port", "0", "--keys", str(tmp_path)]) == 3
    assert ("--api-key-file" in capsys.readouterr().err) == warned
    structlog.reset_defaults()
