"""The operator's sampler: every request goes through it, and one that asks for another is told so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.serving.served import FixedSampler

FIXED = FixedSampler("other", b'{"tau":2}')
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
COMPLETION = {"prompt": "hi"}


@pytest.fixture
def fixed(make_plane: Callable[..., Any], serve_plane: Callable[..., Any]) -> Any:
    return serve_plane(make_plane(fixed_sampler=FIXED))


@pytest.mark.parametrize(("path", "body"), [("chat/completions", CHAT), ("completions", COMPLETION)])
@pytest.mark.parametrize("asked", [{}, {"sampler": "other"}, {"sampler": None, "sampler_config": None}, {"n": 2}])
def test_every_request_goes_through_it_with_its_configuration(
    fixed: Any, path: str, body: dict[str, Any], asked: dict[str, Any]
) -> None:
    assert fixed.client.post(f"/v1/{path}", json=body | asked).status_code == 200
    submitted = [(one.sampler, one.sampler_config) for one in fixed.plane.engine.submitted]
    assert submitted == [("other", b'{"tau":2}')] * asked.get("n", 1)


@pytest.mark.parametrize(
    ("param", "asked"),
    [
        ("sampler", {"sampler": "standard"}),
        ("sampler", {"sampler": "nobody"}),
        ("sampler", {"sampler": ""}),
        ("sampler_config", {"sampler": "other", "sampler_config": {"tau": 0}}),
        ("sampler_config", {"sampler_config": {"tau": 2}}),
        ("sampler_config", {"sampler_config": {}}),
    ],
)
@pytest.mark.parametrize(("path", "body"), [("chat/completions", CHAT), ("completions", COMPLETION)])
def test_a_request_that_would_choose_otherwise_is_refused(
    fixed: Any, path: str, body: dict[str, Any], param: str, asked: dict[str, Any]
) -> None:
    answer = fixed.client.post(f"/v1/{path}", json=body | asked)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, param, "unsupported_parameter")
    assert "through the sampler other" in error["message"]
    assert not fixed.plane.engine.submitted


@pytest.mark.parametrize("kind", [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema": True}}])
def test_a_format_that_needs_another_sampler_is_refused_and_plain_text_is_not(fixed: Any, kind: dict[str, Any]) -> None:
    answer = fixed.client.post("/v1/chat/completions", json=CHAT | {"response_format": kind})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "response_format")
    plain = fixed.client.post("/v1/chat/completions", json=CHAT | {"response_format": {"type": "text"}})
    assert plain.status_code == 200


def test_it_is_the_only_one_that_the_list_of_models_offers(fixed: Any) -> None:
    assert fixed.client.get("/v1/models").json()["data"][0]["sealhost"]["samplers"] == ["other"]
