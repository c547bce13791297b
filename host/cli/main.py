"""`sealhost`: mounts the verbs, and turns every error or signal into one line and an exit code.

Rules (clauses 6.1, 6.2 and 6.5 of host/README.md)
* Verbs are imported when they are called, so that help and light verbs start fast; a plain `verify` does without the
  framework itself.
* What a verb will load is read and hashed from the start, while all that it needs is imported.
* No traceback ever reaches a person unless SEALHOST_DEBUG=1 asks for it.

Example:
    sealhost verify bundle --keys keys
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from ...signing.errors import Code, ExitCode, SealhostError, escape_for_terminal
from .ending import (
    INTERRUPTED,
    PIPE_CLOSED,
    EndedError,
    asked_to_end,
    ended_by_signals,
    say_last,
    tell_all,
    write_any_letter,
)
from .handover import handed_over
from .verifying import plain_request, verify_bundle

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cyclopts

    from ...signing.ahead import HashedAhead

_NO_THREAD = "can't start new thread"
"""What Python says when the system gives no more: a RuntimeError like any other."""

PREFIX = "SEALHOST_"
"""Begins every flag's environment twin."""

TWINS = f"Every option can also be set in the environment: --port as {PREFIX}PORT."
"""What the help of each verb ends with, instead of a name beside each option."""

_VERBS = {
    "Use a model": {
        "demo": ("demo:demo", "Fetch a small model, make keys, pack, sign, verify and answer a question."),
        "run": ("ask:run", "Answer one prompt on the terminal."),
        "chat": ("ask:chat", "Talk with a model on the terminal."),
        "tokenize": ("tokenize:tokenize", "Print the token ids of standard input."),
        "bench": ("bench:bench", "Measure prefill and decode speed."),
    },
    "Publish": {
        "keygen": ("signing:keygen", "Make a key pair."),
        "pack": ("signing:pack", "Make a bundle from a GGUF file and plugins."),
        "sign": ("signing:sign", "Check a bundle and add your signature."),
        "plugin": ("plugin:app", "Make, build, check, test, measure and pack a plugin."),
    },
    "Operate": {
        "trust": ("trust:app", "Manage the keys that this host trusts."),
        "verify": ("signing:verify", "Check a bundle's signature and every byte of it."),
        "inspect": ("signing:inspect", "Show what a bundle claims, without trusting it."),
        "serve": ("serve:serve", "Serve models over an OpenAI-compatible HTTP API."),
        "status": ("status:status", "Show the trusted keys and the versions that this host has accepted."),
        "swap": ("admin:swap", "Replace a model in a running host by another version."),
        "rollback": ("admin:rollback", "Return to the version of a model that a running host served before."),
        "drain": ("admin:drain", "Stop a running host from taking new requests."),
    },
}
"""The verbs by who needs them, in the order in which one meets them: place and summary."""


def command_line() -> cyclopts.App:
    """The application with all its verbs."""
    import cyclopts  # noqa: PLC0415 — slow to import
    from cyclopts.config import Env  # noqa: PLC0415

    from .usage import refuse_empty_paths  # noqa: PLC0415 — comes with the framework

    app = cyclopts.App(
        name="sealhost",
        help="An LLM inference server that verifies models and sandboxes plugins.",
        version=_version(),
        config=[Env(PREFIX, command=False), refuse_empty_paths],
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
        default_parameter=cyclopts.Parameter(show_env_var=False, show_default=_shown_default),
        group_parameters=cyclopts.Group("Options", sort_key=0),
        help_epilogue=TWINS,
    )
    for rank, (title, verbs) in enumerate(_VERBS.items()):
        group = cyclopts.Group(title, sort_key=rank)
        for order, (name, (place, summary)) in enumerate(verbs.items()):
            app.command(f"{__package__}.{place}", name=name, help=summary, group=group, sort_key=order)
    app["--help"].group = app["--version"].group = cyclopts.Group("Help", sort_key=len(_VERBS))
    return app


def _shown_default(value: object) -> str | None:
    """A default as help shows it: none for a switch that is off, or a text that is empty."""
    return str(value) if value or (value == 0 and value is not False) else None


def main(begun: HashedAhead) -> None:
    """Runs the process's command line, and ends the process.

    Args:
        begun: Weights that it seems to name.
    """
    write_any_letter()
    arguments = sys.argv[1:]
    if plain_request(arguments) is None:
        sys.exit(run(arguments, begun))
    # a `verify` leaves nothing behind that is worth looking for, and its imports alone would set it off again and again
    gc.disable()
    code = run(arguments, begun)
    # all is said, and no file is left to be written: taking Python apart would cost another 10 ms
    os._exit(code)


def run(arguments: Sequence[str], begun: HashedAhead | None = None) -> int:
    """Runs one command line; answers its exit code when all that it has to say is said."""
    with ended_by_signals(), handed_over(begun):
        return tell_all(_ended(arguments))


def _ended(arguments: Sequence[str]) -> int:
    try:
        if (request := plain_request(arguments)) is not None:
            verify_bundle(request)
        else:
            _call(arguments)
    except SealhostError as error:
        return _refuse(str(error), error.exit_code)
    except (KeyboardInterrupt, EndedError) as end:
        return asked_to_end(end) or INTERRUPTED
    except (BrokenPipeError, SystemExit):  # rich leaves with SystemExit
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 — the last line between a bug and a person
        return asked_to_end(error) or _fault(error)
    return ExitCode.OK


def _fault(error: Exception) -> int:
    """Says what nobody foresaw."""
    if isinstance(error, OSError) or str(error) == _NO_THREAD:  # a disk that is full, a limit, rights that are missing
        where = escape_for_terminal(str(getattr(error, "filename", None) or "sealhost"))
        problem = escape_for_terminal(getattr(error, "strerror", None) or str(error))
        remedy = "check the disk, the rights and the limits (ulimit -a); SEALHOST_DEBUG=1 shows where"
        return _refuse(f"{Code.IO} {where}: cannot go on: {problem}; {remedy}", ExitCode.IO)
    text = escape_for_terminal(f"{type(error).__name__}: {error}".replace("\n", " "))
    remedy = "run it again with SEALHOST_DEBUG=1 and report what it prints"
    return _refuse(f"{Code.INTERNAL} sealhost: expected no fault of our own, got {text}; {remedy}", ExitCode.INTERNAL)


def _call(arguments: Sequence[str]) -> None:
    """Calls a verb through the framework.

    Raises:
        UsageError: the command line is none of ours.
    """
    import cyclopts  # noqa: PLC0415 — slow to import

    try:
        command_line()(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        from .usage import usage_error  # noqa: PLC0415 — comes with the framework

        raise usage_error(error) from error


def _refuse(line: str, code: int) -> int:
    if os.environ.get("SEALHOST_DEBUG") == "1":
        import traceback  # noqa: PLC0415 — only for this

        traceback.print_exc()
    say_last(line)
    return int(code)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 — brings `email` along

    try:
        return version("sealhost")
    except PackageNotFoundError:
        return "unknown"
