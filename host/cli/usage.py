"""Turns the framework's errors about a command line into refusals in the form of all others.

Rules (clauses 6.2 and 6.13 of host/README.md)
* The line names the option or argument, what was expected there and what came; the remedy is the verb's own help, or
  the word that was probably meant.
* An empty path is refused, which the framework would take for the folder that a verb is called in.

Example:
    raise usage_error(error)    # E_USAGE --max-tokens: expected a whole number, got x; see sealhost run --help
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args, get_origin

from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from ..errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import App, ArgumentCollection, CycloptsError

_KINDS: Final = {int: "a whole number", float: "a number", bool: "true or false"}


def usage_error(error: CycloptsError) -> UsageError:
    """The refusal of a command line that the framework could not read."""
    where = verb = " ".join(("sealhost", *(error.command_chain or ())))
    problem, remedy = " ".join(str(error).split()).rstrip("."), f"see {verb} --help"
    match error:
        case UnknownCommandError(unused_tokens=[got, *_], app=app):
            verbs = [] if app is None else [name for name in app if not name.startswith("-")]
            problem, remedy = f"expected a verb, got {got}", _meant(got, verbs, remedy)
        case UnknownOptionError(token=token):
            got = (token.keyword or token.value).partition("=")[0]
            known = [name for argument in error.argument_collection for name in argument.names]
            problem, remedy = f"expected one of its options, got {got}", _meant(got, known, remedy)
        case UnusedCliTokensError(unused_tokens=[got, *_]):
            problem = f"expected no further argument, got {got!r}"
            remedy = f"put an argument of several words in quotes; {remedy}"
        case MissingArgumentError(keyword=str(option)):
            where, problem = option, "expected a value after it, got none"
        case MissingArgumentError(argument=argument) if argument is not None:
            problem = f"expected {argument.name}, got none"
        case RepeatArgumentError(token=token):
            where, problem = f"{token.keyword}", "expected it once, got it again"
        case CoercionError(token=token, target_type=kind) if token is not None and kind is not None:
            where = token.keyword or (verb if error.argument is None else error.argument.name)
            problem = f"expected {_expected(kind)}, got {token.value}"
    return UsageError(where, problem, remedy)


def refuse_empty_paths(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Accepts by returning what the framework has read, from the command line and the environment, but not converted.

    Raises:
        UsageError: the path of a file or a folder is empty, as a script with an unset variable gives it.
    """
    for argument in arguments:
        if not _is_path(argument.hint):
            continue
        for token in argument.tokens:
            if not token.value:
                problem = "expected the path of a file or folder, got an empty text"
                remedy = "name one" if argument.required else "name one, or leave it out"
                raise UsageError(token.keyword or argument.name, problem, remedy)


def _is_path(hint: object) -> bool:
    """Whether it is a path, several of them, or one that may be left out."""
    return hint is Path or any(map(_is_path, get_args(hint)))


def _meant(got: str, known: Sequence[str], otherwise: str) -> str:
    """A question after the nearest known word, or what to do where none is near."""
    near = difflib.get_close_matches(got, known, n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def _expected(kind: type) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    return _KINDS.get(kind, f"a {kind.__name__.lower()}")
