"""One thing that `plugin test` tries, and what came of it; the golden cases that an author writes down.

* A trial that fails names the clause or the case, and what came instead; the next one still runs.
* Golden cases are data: `golden.json` in the plugin's folder, a list of objects (chapter "Testing" of
  plugins/README.md). JSON has no NaN, so the texts "nan", "inf" and "-inf" stand for those logits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from ...sandbox import GuestError, SandboxError
from ...signing import Code, SealError
from ...signing.declaration import read_input

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOLDEN = "golden.json"
MAX_GOLDEN_BYTES = 16 << 20
"""Bytes: some rows of a large vocabulary."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one trial.

    Attributes:
        name: What was tried.
        verdict: Whether it went as it must; "skipped" when there was nothing to try.
        detail: What was seen.
    """

    name: str
    verdict: Literal["ok", "failed", "skipped"]
    detail: str


class TrialFailedError(Exception):
    """What a guest did is not what the clause or the case says; the text is "expected X, got Y"."""


def attempt(name: str, body: Callable[[], str]) -> Trial:
    """Runs one trial.

    Args:
        name: What is tried.
        body: Returns what was seen; raises TrialFailedError, GuestError or SandboxError.
    """
    try:
        return Trial(name, "ok", body())
    except TrialFailedError as error:
        return Trial(name, "failed", str(error))
    except GuestError as error:
        hint = f"; {error.remedy}" if error.kind == "timeout" else ""  # others name the request or the author
        return Trial(name, "failed", f"{error.problem}{hint}")
    except SandboxError as error:
        return Trial(name, "failed", f"{error.problem}; {error.remedy}")


class SamplerCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row and the answer to it: an id, ids, "stop", or "empty" when nothing can be drawn."""

    name: str
    logits: list[float | Literal["nan", "inf", "-inf"]]
    expect: int | list[int] | Literal["stop", "empty"]
    backtrack: int = 0
    params: dict[str, int | float] = {}
    prompt: list[int] = []
    generated: list[int] = []
    config: dict[str, Any] | None = None


class TokenizerCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A text and its ids: those of the kit's vocabulary, or those of the model that `--model` names."""

    name: str
    text: str
    expect: list[int]
    add_special: bool = False
    parse_special: bool = False
    model: bool = False


Case = TypeVar("Case", SamplerCase, TokenizerCase)


def golden_cases(folder: Path, kind: type[Case]) -> list[Case]:
    """The cases of a folder; none when it has no `golden.json`.

    Raises:
        SealError: E_IO, E_SIZE, E_PARSE.
    """
    path = folder / GOLDEN
    if not path.is_file():
        return []
    try:
        found: list[Case] = msgspec.json.decode(read_input(path, MAX_GOLDEN_BYTES), type=list[kind])  # type: ignore[valid-type]
    except msgspec.DecodeError as error:
        problem = f"expected a list of golden cases, got: {error}"
        raise SealError(Code.PARSE, str(path), problem, "see the chapter on testing in plugins/README.md") from error
    return found
