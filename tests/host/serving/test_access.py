"""API keys and the browser's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-os",
}


@pytest.fixture(scope="module")
def guarded(live_with: Callable[..., Any]) -> Any:
    return live_with(keys=["sk-one", "sk-zwei-ü"])


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        ("Bearer sk-on", 401),
        ("Bearer sk-onee", 401),
        ("Basic sk-one", 401),
        ("sk-one", 401),
        ("Bearer sk-one", 200),
        ("bearer sk-one", 200),
        ("BEARER  sk-one", 200),
        ("Bearer sk-zwei-ü", 200),
    ],
)
@pytest.mark.parametrize("origin", [None, "https://example.org"])
def test_a_key_is_needed_and_a_refusal_can_be_read_by_a_page(
    guarded: Any, authorization: str | None, status: int, origin: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization.encode()}
    headers |= {"origin": origin} if origin else {}
    answer = guarded.client.get("/v1/models", headers=headers)
    assert answer.status_code == status
    assert answer.headers.get("access-control-allow-origin") == ("*" if origin else None)
    if status == 401:
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/nowhere", "/tokenize", "//livez", "/livez/"])
def test_no_path_but_the_health_checks_goes_without_a_key(guarded: Any, path: str) -> None:
    assert guarded.client.post(path, json={}).status_code == 401


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health"])
def test_health_needs_no_key(guarded: Any, path: str) -> None:
    assert guarded.client.get(path).status_code == 200


def test_health_tells_nobody_without_the_key_what_is_served_and_how_much(guarded: Any, live: Any) -> None:
    for path in ("/readyz", "/health"):
        assert guarded.client.get(path).json() == {"status": "ready"}
        assert guarded.client.get(path, headers={"authorization": "Bearer wrong"}).json() == {"status": "ready"}
        assert set(guarded.client.get(path, headers={"authorization": "Bearer sk-one"}).json()["models"]) == {"tiny"}
        assert live.client.get(path, headers={"origin": "https://example.org"}).json() == {"status": "ready"}
        assert set(live.client.get(path).json()["models"]) == {"tiny"}


def test_a_forged_host_header_does_not_change_what_is_protected(guarded: Any) -> None:
    for host, status in (("livez", 401), ("x/livez?", 400)):
        assert guarded.client.get("/v1/models", headers={"host": host}).status_code == status


def test_a_preflight_needs_no_key_and_names_what_is_allowed(guarded: Any) -> None:
    answer = guarded.client.options("/v1/chat/completions", headers={"origin": "https://example.org", **PREFLIGHT})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ((), "http://localhost:3000", True),
        ((), "http://127.0.0.1", True),
        ((), "http://[::1]:8000", True),
        ((), "https://example.org", False),
        ((), "http://localhost.example.org", False),
        ((), "http://[", False),
        ((), "null", False),
        (("https://example.org",), "https://example.org", True),
        (("https://example.org",), "https://example.com", False),
        (("https://example.org",), "http://localhost", False),
        (("*",), "https://anything.example", True),
    ],
)
def test_without_keys_only_local_pages_or_named_origins_are_let_in(
    live_with: Callable[..., Any], origins: tuple[str, ...], origin: str, allowed: bool
) -> None:
    live = live_with(origins=origins)
    answer = live.client.options("/tokenize", headers={"origin": origin, **PREFLIGHT})
    assert ("access-control-allow-origin" in answer.headers) == allowed
    assert ("access-control-allow-methods" in answer.headers) == allowed
    answer = live.client.post("/tokenize", json={"content": "a"}, headers={"origin": origin})
    assert ("access-control-allow-origin" in answer.headers) == allowed
    assert answer.status_code == (200 if allowed else 403)
    assert live.client.get("/livez", headers={"origin": origin}).status_code == 200


def test_a_page_whose_name_was_made_to_point_here_makes_no_model_work(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    live = serve_plane(make_plane())
    rebound = {"host": f"evil.example:{live.port}", "origin": f"http://evil.example:{live.port}"}
    answer = live.client.post("/v1/completions", json={"prompt": "a"}, headers=rebound)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_refused")
    assert not live.plane.engine.submitted
