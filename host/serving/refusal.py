"""Every error of the data plane as OpenAI's error object.

Rules
* One shape for every path and status: {"error": {"message", "type", "param", "code"}}.
* A client's fault says what was expected and names the parameter; a fault of ours says which part failed.
* A traceback never reaches a client.

Example:
    status, body = refusal(error)
"""

from __future__ import annotations

from typing import Any, Final

from ...sandbox import GuestError
from ...signing.errors import Code, SealhostError
from ..errors import RequestError, TemplateError

INVALID: Final = "invalid_request_error"
INVALID_VALUE: Final = "invalid_value"
CONTEXT_EXCEEDED: Final = "context_length_exceeded"
SERVER: Final = "server_error"

_TYPES = {401: "authentication_error", 403: "permission_error", 404: INVALID, 429: "rate_limit_error"}


def error_object(
    message: str, *, kind: str = INVALID, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """The body of an error answer."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def http_refusal(
    status: int, problem: str, remedy: str, *, param: str | None = None, code: str | None = None
) -> RequestError:
    """A refusal with the `type` that OpenAI gives this status."""
    kind = _TYPES.get(status, SERVER if status >= 500 else INVALID)
    return RequestError(problem, remedy, status=status, type=kind, param=param, reason=code)


def refusal(error: SealhostError) -> tuple[int, dict[str, Any]]:
    """Status and body for an error of any part of the host."""
    message = f"{error.where}: " * bool(error.where) + f"{error.problem}; {error.remedy}"
    if isinstance(error, RequestError):
        code = error.reason or (INVALID_VALUE if error.param else None)
        return error.status, error_object(message, kind=error.type, param=error.param, code=code)
    if isinstance(error, TemplateError):
        return 500, error_object(message, kind=SERVER, code="template_error")
    if error.code is Code.USAGE:  # found deeper down, but asked for by the client, such as a text that is too long
        return 400, error_object(message)
    if isinstance(error, GuestError) and error.kind == "config":
        return 400, error_object(message, param="sampler_config", code=INVALID_VALUE)
    if isinstance(error, GuestError) and error.kind in {"quarantined", "busy"}:  # not its fault, nor for long
        return 503, error_object(message, kind=SERVER, code=f"plugin_{error.kind}")
    reason = "plugin_error" if error.code == Code.PLUGIN else "internal_error"
    return 500, error_object(message, kind=SERVER, code=reason)


def prompt_too_long(context: int, got: str, param: str) -> RequestError:
    """The refusal of a prompt that leaves no room for an answer.

    Args:
        context: Tokens of prompt and answer together.
        got: How long it is, e.g. "9000 tokens".
        param: Where it stands.
    """
    room = f"which leaves one of the context's {context} for the answer"
    problem = f"expected a prompt of at most {context - 1} tokens, {room}; got {got}"
    return RequestError(problem, "shorten the prompt", param=param, reason=CONTEXT_EXCEEDED)


def unexpected() -> tuple[int, dict[str, Any]]:
    """What a client learns of a bug: that there was one."""
    return 500, error_object(
        "the server met an error of its own; try again, and report it if it persists",
        kind=SERVER,
        code="internal_error",
    )
