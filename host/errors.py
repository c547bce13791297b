"""Errors of the host.

HostError (a SealhostError: code, where, problem, remedy)
├── WeightsError     E_GGUF      the model file is malformed, unsupported or does not fit its architecture
├── TemplateError    E_TEMPLATE  the chat template cannot be used or refuses the messages
├── UsageError       E_USAGE     the operator asked for something that cannot be done
├── RequestError     E_USAGE     a client asked for something that cannot be done; carries its HTTP shape
│   └── Refused                  raised by Engine.submit: the request can never run, or there is no room for it now
└── InternalError    E_INTERNAL  our own fault, or a step that failed; the request ends, the host goes on
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..signing.errors import Code, SealhostError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class HostError(SealhostError):
    """Base of all errors that the host raises."""


class WeightsError(HostError):
    """A model file that is malformed, unsupported or does not fit its architecture.

    Args:
        where: Metadata key, tensor name or field of the file at fault.
        problem: "expected X, got Y".
        remedy: What to do about it.
    """

    def __init__(self, where: str, problem: str, remedy: str = "fetch or convert the model again") -> None:
        super().__init__(Code.GGUF, where, problem, remedy)


class TemplateError(HostError):
    """A chat template that cannot be used, or that refuses the messages it was given."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        super().__init__(Code.TEMPLATE, where, problem, remedy)


class UsageError(HostError):
    """A setting or an argument of the operator that cannot be satisfied."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        super().__init__(Code.USAGE, where, problem, remedy)


class RequestError(HostError):
    """A client's request that cannot be served, with the fields of OpenAI's error object.

    Attributes:
        status: HTTP status.
        type: OpenAI's `type`, e.g. "invalid_request_error".
        param: The field at fault, None when there is no single one.
        reason: OpenAI's `code`, e.g. "context_length_exceeded" (`code` itself is the stable Code).
    """

    def __init__(
        self,
        problem: str,
        remedy: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",  # noqa: A002 — the name of the wire format
        param: str | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(Code.USAGE, param or "", problem, remedy)
        self.status = status
        self.type = type
        self.param = param
        self.reason = reason


class Refused(RequestError):  # noqa: N818 — named for what happened to the request
    """A request that the engine does not take: it can never run, or the queue is full."""


class InternalError(HostError):
    """A fault of our own, or a model step that failed: the request ends, the host goes on."""

    def __init__(self, where: str, problem: str, remedy: str = "try again; if it persists, report it") -> None:
        super().__init__(Code.INTERNAL, where, problem, remedy)


@contextmanager
def about_bundle(root: Path) -> Iterator[None]:
    """Refusals from within name the bundle's directory (clause 6.12), but for those that are about an option."""
    try:
        yield
    except SealhostError as error:
        if not error.where.startswith("--"):
            error.of_bundle(str(root))
        raise
