"""`response_format`: which sampler it chooses with what, and every way to ask for what cannot be kept to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sealhost.sandbox import GuestError, SandboxError

CHAT = "/v1/chat/completions"
SCHEMA = {"type": "object", "properties": {"zoo": {"type": "string"}, "ant": {"type": "integer"}}}


class Grammar:
    """A sampler named `json` without a guest: what it is told, and what its trial answers."""

    tier = "mask"

    def __init__(self) -> None:
        self.tried: list[bytes] = []
        self.closed = 0
        self.failure: Exception | None = None

    def config_bytes(self, config: dict[str, Any] | None) -> bytes:
        raw = json.dumps(config).encode()
        if len(raw) > 1000:
            raise SandboxError(
                "sampler_config", f"expected at most 1000 bytes of JSON for json, got {len(raw)}", "shorten it"
            )
        return raw

    def session(self, _params: Any, prompt: Any, *, config: bytes) -> Grammar:
        assert tuple(prompt) == ()
        self.tried.append(config)
        return self

    def prepare(self, slots: Any) -> None:
        assert tuple(slots) == (0,)
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def grammar() -> Grammar:
    return Grammar()


@pytest.fixture
def formatted(make_plane: Any, serve_plane: Any, grammar: Grammar) -> Any:
    """A live server of a model that has the sampler."""
    return serve_plane(make_plane(samplers={"standard": Grammar(), "json": grammar}))


def ask(live: Any, response_format: Any, **more: Any) -> Any:
    body = {"messages": [{"role": "user", "content": "hi"}], "response_format": response_format, **more}
    return live.client.post(CHAT, json=body)


def schema_format(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **more}}


def refused(answer: Any, param: str, text: str, status: int = 400) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["param"] == (param or None)
    assert text in error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_goes_to_the_sampler_named_json_in_the_clients_order(
    formatted: Any, grammar: Grammar, stream: bool
) -> None:
    answer = ask(formatted, schema_format(SCHEMA, strict=True, description="d"), temperature=0.5, stream=stream)
    assert answer.status_code == 200
    request = formatted.plane.engine.submitted[-1]
    assert request.sampler == "json"
    given = json.loads(request.sampler_config)["schema"]
    assert list(json.loads(given)["properties"]) == ["zoo", "ant"]
    assert request.params.temperature == 0.5
    assert grammar.tried == [request.sampler_config]
    assert grammar.closed == 1


def test_json_object_is_any_object(formatted: Any) -> None:
    assert ask(formatted, {"type": "json_object"}, n=2).status_code == 200
    for request in formatted.plane.engine.submitted[-2:]:
        assert json.loads(json.loads(request.sampler_config)["schema"]) == {"type": "object"}


@pytest.mark.parametrize("nothing", [None, {"type": "text"}])
def test_text_asks_for_nothing(formatted: Any, grammar: Grammar, nothing: Any) -> None:
    assert ask(formatted, nothing).status_code == 200
    assert formatted.plane.engine.submitted[-1].sampler is None
    assert not grammar.tried


MALFORMED: list[tuple[Any, str, str]] = [
    ({}, "response_format.type", "expected text, json_object or json_schema, got nothing"),
    ({"type": "grammar"}, "response_format.type", "got grammar"),
    ({"type": ["text"]}, "response_format.type", "json_schema"),
    ({"type": "json_object", "schema": {}}, "response_format", "expected no other fields, got schema"),
    ({"type": "text", "json_schema": {}}, "response_format", "expected no other fields, got json_schema"),
    ({"type": "json_schema"}, "response_format.json_schema", "expected an object with a schema, got nothing"),
    ({"type": "json_schema", "json_schema": []}, "response_format.json_schema", "expected an object with a schema"),
    (schema_format(SCHEMA, extra=1), "response_format.json_schema", "got extra"),
    (schema_format(SCHEMA, name=3), "response_format.json_schema.name", "expected a text, got 3"),
    (schema_format(SCHEMA, strict="yes"), "response_format.json_schema.strict", "expected true or false, got yes"),
    (schema_format(None), "response_format.json_schema.schema", "expected an object, true or false, got nothing"),
    (schema_format("{}"), "response_format.json_schema.schema", "expected an object, true or false"),
    ("json", "response_format", "expected object"),
    (schema_format({"enum": ["x" * 2000]}), "response_format.json_schema.schema", "expected at most 1000 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("response_format", "param", "text"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_format_is_400_and_its_part_is_named(
    formatted: Any, response_format: Any, param: str, text: str
) -> None:
    refused(ask(formatted, response_format), param, text)
    assert not formatted.plane.engine.submitted


@pytest.mark.parametrize("more", [{"sampler": "standard"}, {"sampler": "json"}, {"sampler_config": {}}], ids=str)
def test_a_sampler_beside_a_format_is_400(formatted: Any, more: dict[str, Any]) -> None:
    refused(
        ask(formatted, {"type": "json_object"}, **more),
        next(iter(more)),
        "expected it to be absent beside response_format",
    )


def test_a_model_without_the_sampler_says_how_to_get_it(live: Any) -> None:
    refused(ask(live, {"type": "json_object"}), "response_format", "--sampler json")
    assert ask(live, {"type": "text"}).status_code == 200


def test_what_the_guest_refuses_is_the_clients_fault(formatted: Any, grammar: Grammar) -> None:
    grammar.failure = GuestError("json", "config", 'step answered ERROR_CONFIG: "schema: got contains"')
    refused(
        ask(formatted, schema_format(SCHEMA)),
        "response_format.json_schema.schema",
        'the sampler refuses it: "schema: got contains"',
    )
    assert grammar.closed == 1
    assert not formatted.plane.engine.submitted


@pytest.mark.parametrize(
    ("kind", "status"), [("trap", 500), ("timeout", 500), ("error", 500), ("quarantined", 503), ("busy", 503)]
)
def test_a_guest_that_fails_is_not_the_clients_fault(formatted: Any, grammar: Grammar, kind: Any, status: int) -> None:
    grammar.failure = GuestError("json", kind, "it did not work")
    refused(ask(formatted, {"type": "json_object"}), "", "it did not work", status)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_a_configuration_of_the_clients_own_is_tried_too_on_both_routes(
    formatted: Any, grammar: Grammar, path: str
) -> None:
    asked = {"messages": [{"role": "user", "content": "hi"}]} if path == CHAT else {"prompt": "hi"}
    body = {**asked, "sampler": "json", "sampler_config": {"grammar": "root ::="}}
    assert formatted.client.post(path, json=body).status_code == 200
    assert grammar.tried == [formatted.plane.engine.submitted[-1].sampler_config]
    before = len(formatted.plane.engine.submitted)
    grammar.failure = GuestError("json", "config", "grammar: line 1, column 9: expected a rule")
    refused(formatted.client.post(path, json=body), "sampler_config", "grammar: line 1, column 9: expected a rule")
    assert len(formatted.plane.engine.submitted) == before
    assert grammar.closed == 2


@pytest.mark.parametrize("more", [{}, {"sampler": "json"}, {"sampler": "standard", "sampler_config": {}}], ids=str)
def test_nothing_is_tried_without_a_configuration_for_a_mask(formatted: Any, grammar: Grammar, more: Any) -> None:
    formatted.plane.model.samplers["standard"].tier = "full"
    answer = formatted.client.post("/v1/completions", json={"prompt": "hi", **more})
    assert answer.status_code == 200
    assert not grammar.tried


def test_completions_have_no_format(live: Any) -> None:
    answer = live.client.post("/v1/completions", json={"prompt": "hi", "response_format": {"type": "json_object"}})
    refused(answer, "response_format", "does not support it")
