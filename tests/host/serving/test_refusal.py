"""Errors of any part of the host, as a client sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.errors import InternalError, RequestError, TemplateError
from sealhost.host.serving.refusal import http_refusal, refusal
from sealhost.sandbox import GuestError, SandboxError
from sealhost.signing.errors import SealhostError

MAPPED: list[tuple[SealhostError, int, str, str | None]] = [
    (RequestError("a", "b", status=418, type="teapot", reason="short"), 418, "teapot", "short"),
    (http_refusal(401, "a", "b", code="c"), 401, "authentication_error", "c"),
    (http_refusal(404, "a", "b", code="c"), 404, "invalid_request_error", "c"),
    (http_refusal(413, "a", "b", code="c"), 413, "invalid_request_error", "c"),
    (http_refusal(429, "a", "b", code="c"), 429, "rate_limit_error", "c"),
    (http_refusal(503, "a", "b", code="c"), 503, "server_error", "c"),
    (TemplateError("chat_template", "a", "b"), 500, "server_error", "template_error"),
    (GuestError("bpe", "trap", "a"), 500, "server_error", "plugin_error"),
    (GuestError("bpe", "timeout", "a"), 500, "server_error", "plugin_error"),
    (GuestError("regex", "config", "a"), 400, "invalid_request_error", "invalid_value"),
    (GuestError("bpe", "quarantined", "a"), 503, "server_error", "plugin_quarantined"),
    (GuestError("bpe", "busy", "a"), 503, "server_error", "plugin_busy"),
    (SandboxError("plugin bpe", "text too long", "send less"), 400, "invalid_request_error", None),
    (InternalError("step", "a"), 500, "server_error", "internal_error"),
]


@pytest.mark.parametrize(("error", "status", "kind", "code"), MAPPED, ids=lambda value: type(value).__name__)
def test_an_error_has_its_status_type_and_code(error: SealhostError, status: int, kind: str, code: str | None) -> None:
    found, body = refusal(error)
    assert (found, body["error"]["type"], body["error"]["code"]) == (status, kind, code)
    assert error.problem in body["error"]["message"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(GuestError("bpe", "trap", "unreachable"), 500), (SandboxError("plugin bpe", "text too long", "send less"), 400)],
)
@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions", "/v1/chat/completions"])
def test_a_tokenizer_that_fails_costs_its_own_request_only(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], error: Exception, status: int, path: str
) -> None:
    plane = make_plane()
    plane.tokenizer.error = error
    live = serve_plane(plane)
    bodies = {"/tokenize": {"content": "a"}, "/v1/completions": {"prompt": "a"}}
    body = bodies.get(path, {"messages": [{"role": "user", "content": "a"}]})
    assert live.client.post(path, json=body).status_code == status
    plane.tokenizer.error = None
    assert live.client.post(path, json=body).status_code == 200
