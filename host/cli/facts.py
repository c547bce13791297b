"""Prints what a verb found out: one JSON object for a program, a line for each fact for a person.

Rules
* Nothing wraps; labels are bold on a terminal, and nothing is coloured or escaped elsewhere.
* What could steer a terminal is written as an escape, wherever the text goes.
* A refusal passes through; with `--json` a program gets it in its own language too, and `main` prints the line.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from ...signing import IntegrityError, SealhostError
from .terminal import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def answering(*, as_json: bool, **failed: Any) -> Iterator[None]:
    """Runs a verb's body.

    Args:
        as_json: Print a refusal as `{"error": {…}}` on standard output before it passes.
        failed: Further fields of that object.
    """
    try:
        yield
    except SealhostError as error:
        if as_json:
            _print_json({**failed, "error": _error_facts(error)})
        raise


def _error_facts(error: SealhostError) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "code": str(error.code),
        "exit_code": int(error.exit_code),
        "where": error.where,
        "problem": error.problem,
        "remedy": error.remedy,
    }
    if isinstance(error, IntegrityError):
        facts |= {"changed": list(error.changed), "missing": list(error.missing), "extra": list(error.extra)}
    return facts


def print_facts(facts: dict[str, Any], *, as_json: bool) -> None:
    """One JSON object, or a line for each fact; plugins get a line each, and one for the digest where it is known."""
    if as_json:
        _print_json(facts)
        return
    for label, value in facts.items():
        if label == "plugins":
            for plugin in value:
                print_fact("plugin", f"{plugin['role']} {plugin['name']}: {_limits_in_words(plugin)}")
                if "sha256" in plugin:
                    print_fact("  its sha256", plugin["sha256"])
        else:
            print_fact(label.replace("_", " "), f"{value:,}" if label == "bytes" else _describe(value))


def _limits_in_words(plugin: dict[str, Any]) -> str:
    """The limits that matter to a plugin's role, of its entry in a manifest: "memory 96 MiB, init 1 s, …"."""
    calls = ("init", "load", "encode") if plugin["role"] == "tokenizer" else ("init", "step")
    limits = plugin["limits"]
    times = [f"{call} {limits[f'{call}_ms'] / 1000:g} s" for call in calls]
    return ", ".join([f"memory {limits['memory_bytes'] / 2**20:,.0f} MiB", *times])


def _describe(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return str(value)


def _print_json(value: dict[str, Any]) -> None:
    # ASCII: a hostile file name can neither break the reader's decoder nor steer a terminal
    print(json.dumps(value))


def print_fact(label: str, value: str) -> None:
    """One line: a label and what it stands for."""
    padded = f"{label:<16}"
    bold = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    print((f"\x1b[1m{padded}\x1b[0m" if bold else padded) + harmless(value))


def say(text: str) -> None:
    """One line of text."""
    print(harmless(text))
