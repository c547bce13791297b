"""A plain `verify` is read without the framework, and means and answers exactly what it would mean and answer with it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from sealhost.host.cli.main import command_line, run
from sealhost.host.cli.verifying import VerifyRequest, plain_request

PIECES = (("--keys", "k"), ("--state", "s/t"), ("--full",), ("--json",))
PLAIN = [
    ["verify", *itertools.chain(*chosen[:place]), "b c", *itertools.chain(*chosen[place:])]
    for count in range(len(PIECES) + 1)
    for chosen in itertools.combinations(PIECES, count)
    for place in {0, count}
]
NOT_PLAIN = [
    [],
    ["verify"],
    ["verify", "--help"],
    ["verify", "b", "-h"],
    ["verify", "b", "--version"],
    ["verify", "b", "c"],
    ["verify", ""],
    ["verify", "b", "--keys"],
    ["verify", "b", "--keys", ""],
    ["verify", "b", "--keys", "--json"],
    ["verify", "b", "--keys=k"],
    ["verify", "b", "--keys", "k", "--keys", "l"],
    ["verify", "b", "--full", "--full"],
    ["verify", "b", "--no-full"],
    ["verify", "b", "--other"],
    ["verify", "--", "b"],
    ["verify", "--bundle", "b"],
    ["inspect", "b"],
    ["--json", "verify", "b"],
]

LOADED_MODULES = """
import os, sys
fork, leave, told = os.fork, os._exit, []

def forked():
    if not told:
        told.append(1)
        print(*sys.modules, file=sys.stderr, flush=True)
    return fork()

def left(code):
    if os.getpid() == parent:
        print(*sys.modules, file=sys.stderr, flush=True)
    leave(code)

parent, os.fork, os._exit = os.getpid(), forked, left
from sealhost.host.cli.entry import main
main()
"""
"""Runs a command line; prints what is loaded when it forks and when it ends."""
BEFORE_HASHING = {
    "sealhost.host",
    "sealhost.host.cli",
    "sealhost.host.cli.begun",
    "sealhost.host.cli.descriptors",
    "sealhost.host.cli.entry",
    "sealhost.signing",
    "sealhost.signing.ahead",
    "sealhost.signing.apart",
    "sealhost.signing.limits",
    "sealhost.signing.names",
    "sealhost.signing.system",
}
SLOW_TO_IMPORT = {"collections", "contextlib", "enum", "pathlib", "re", "signal", "threading", "typing", "msgspec"}
NEVER_IMPORTED = {
    "cyclopts",
    "rich",
    "logging",
    "numpy",
    "tempfile",
    "sealhost.signing.pkcs8",
    "cryptography.hazmat.primitives.ciphers",
}


@pytest.fixture(autouse=True)
def _no_twins(monkeypatch) -> None:
    for name in ("KEYS", "STATE", "FULL", "JSON"):
        monkeypatch.delenv(f"SEALHOST_{name}", raising=False)


@pytest.mark.parametrize("arguments", PLAIN, ids=" ".join)
def test_a_plain_command_line_means_what_the_framework_reads(arguments) -> None:
    _, bound, _ = command_line().parse_args(arguments)
    bound.apply_defaults()
    assert plain_request(arguments) == VerifyRequest(**bound.arguments)


@pytest.mark.parametrize("arguments", NOT_PLAIN, ids=" ".join)
def test_everything_else_is_left_to_the_framework(arguments) -> None:
    assert plain_request(arguments) is None


@pytest.mark.parametrize("name", ["KEYS", "STATE", "FULL", "JSON"])
def test_an_environment_twin_is_left_to_the_framework(monkeypatch, name) -> None:
    monkeypatch.setenv(f"SEALHOST_{name}", "1")
    assert plain_request(["verify", "b"]) is None


@pytest.mark.parametrize("json_flag", [[], ["--json"]])
@pytest.mark.parametrize("damaged", [False, True])
def test_both_ways_answer_alike(seal_lab, capsys, json_flag, damaged) -> None:
    if damaged:
        (seal_lab.root / "model.gguf").write_bytes(bytes((seal_lab.root / "model.gguf").stat().st_size))
    answers = []
    for keys in (["--keys", str(seal_lab.keys)], [f"--keys={seal_lab.keys}"]):
        code = run(["verify", str(seal_lab.root), *keys, *json_flag])
        printed = capsys.readouterr()
        lines = [line for line in printed.out.splitlines() if not line.startswith("seconds")]
        if json_flag:
            lines = [json.loads(line) | {"seconds": 0} for line in lines]
        answers.append((code, lines, printed.err))
    assert answers[0] == answers[1]
    assert answers[0][0] == (1 if damaged else 0)


def test_it_hashes_before_it_imports_and_without_the_framework(seal_lab, tmp_path) -> None:
    package = tmp_path / "sealhost"
    package.mkdir()
    for room in ("host", "signing"):
        (package / room).symlink_to(Path(import_module(f"sealhost.{room}").__path__[0]))
    words = ["verify", str(seal_lab.root), "--keys", str(seal_lab.keys)]
    # -S: without what a site imports for every program, the finder of an editable installation among it
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOADED_MODULES, *words],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), *sys.path]))},
    )
    at_first_fork, at_end = (set(line.split()) for line in done.stderr.splitlines())
    assert {name for name in at_first_fork if name.startswith("sealhost.")} == BEFORE_HASHING
    assert not at_first_fork & SLOW_TO_IMPORT
    assert at_end >= SLOW_TO_IMPORT  # none is misspelt
    assert not at_end & NEVER_IMPORTED


def test_control_characters_in_a_path_are_shown_as_escapes(seal_lab, capsys) -> None:
    root = seal_lab.root.rename(seal_lab.root.with_name("red\x1b[31m"))
    assert run(["verify", str(root), "--keys", str(seal_lab.keys)]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "red\\x1b[31m" in printed


def test_a_path_is_taken_as_it_is() -> None:
    assert plain_request(["verify", "~/b", "--keys", "$HOME"]) == VerifyRequest(Path("~/b"), Path("$HOME"))
