"""Every kind of bad input on every path, and the one shape that all errors have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

CHAT = "/v1/chat/completions"
COMPLETE = "/v1/completions"
JSON = {"content-type": "application/json"}
MESSAGES = [{"role": "user", "content": "hi"}]


def assert_refused(answer: httpx.Response, status: int, *, param: str | None = None, code: str | None = None) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert "Traceback" not in error["message"]
    assert isinstance(error["type"], str)
    assert error["param"] == param
    assert error["code"] == code
    return error


BAD_PARAMETERS: list[tuple[dict[str, Any], str, str | None]] = [
    ({"temperature": -0.1}, "temperature", None),
    ({"temperature": 2.1}, "temperature", None),
    ({"temperature": "hot"}, "temperature", None),
    ({"temperature": True}, "temperature", None),
    ({"temperature": 10**400}, "temperature", None),
    ({"top_p": -0.5}, "top_p", None),
    ({"top_p": 1.5}, "top_p", None),
    ({"top_k": -2}, "top_k", None),
    ({"top_k": 2**31}, "top_k", None),
    ({"top_k": 1.5}, "top_k", None),
    ({"min_p": 1.5}, "min_p", None),
    ({"repetition_penalty": 0}, "repetition_penalty", None),
    ({"repetition_penalty": 1e300}, "repetition_penalty", None),
    ({"presence_penalty": 2.5}, "presence_penalty", None),
    ({"frequency_penalty": -2.5}, "frequency_penalty", None),
    ({"max_tokens": 0}, "max_tokens", None),
    ({"max_tokens": -5}, "max_tokens", None),
    ({"max_tokens": 10**30}, "max_tokens", None),
    ({"max_tokens": 257}, "max_tokens", None),
    ({"max_tokens": "5"}, "max_tokens", None),
    ({"max_tokens": 5.5}, "max_tokens", None),
    ({"max_tokens": True}, "max_tokens", None),
    ({"n": 0}, "n", None),
    ({"n": 129}, "n", None),
    ({"n": [1]}, "n", None),
    ({"sampler_config": {}}, "sampler_config", None),
    ({"sampler_config": "x"}, "sampler_config", None),
    ({"sampler": "other", "sampler_config": []}, "sampler_config", None),
    ({"sampler": "other", "sampler_config": {"tau": -1}}, "sampler_config.tau", None),
    ({"sampler": "other", "sampler_config": {"words": ["a", 1]}}, "sampler_config.words[1]", None),
    ({"sampler": "other", "sampler_config": {"tou": 1}}, "sampler_config.tou", None),
    ({"sampler": "other", "sampler_config": {"words": ["a" * 200]}}, "sampler_config", None),
    ({"sampler": "other", "sampler_config": {"words": ["a" * 20_000]}}, "sampler_config", None),
    ({"seed": 2**64}, "seed", None),
    ({"seed": -(2**63) - 1}, "seed", None),
    ({"seed": "x"}, "seed", None),
    ({"logit_bias": {"a": 1}}, "logit_bias", None),
    ({"logit_bias": {"-1": 1}}, "logit_bias", None),
    ({"logit_bias": {"5": -100, "05": 3}}, "logit_bias", None),
    ({"logit_bias": {"320": 1}}, "logit_bias", None),
    ({"logit_bias": {"٣": 1}}, "logit_bias", None),
    ({"logit_bias": {"9" * 5000: 1}}, "logit_bias", None),
    ({"logit_bias": {"1": 101}}, "logit_bias", None),
    ({"logit_bias": {"1": "x"}}, "logit_bias", None),
    ({"logit_bias": [1]}, "logit_bias", None),
    ({"stop": ""}, "stop", None),
    ({"stop": [""]}, "stop", None),
    ({"stop": ["a"] * 17}, "stop", None),
    ({"stop": "x" * 10_000}, "stop", None),
    ({"stop": [1]}, "stop[0]", None),
    ({"stop_token_ids": [99999]}, "stop_token_ids", None),
    ({"stop_token_ids": [-1]}, "stop_token_ids", None),
    ({"stop_token_ids": [1] * 1025}, "stop_token_ids", None),
    ({"stream": "yes"}, "stream", None),
    ({"stream_options": {"include_usage": True}}, "stream_options", None),
    ({"stream": True, "stream_options": {"x": 1}}, "stream_options", None),
    ({"sampler": "nobody"}, "sampler", None),
    ({"sampler": 5}, "sampler", None),
    ({"model": 5}, "model", None),
    ({"tools": [{"type": "function"}]}, "tools", "unsupported_parameter"),
    ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
    ({"tool_choice": "required"}, "tool_choice", "unsupported_parameter"),
    ({"audio": {"voice": "x"}}, "audio", "unsupported_parameter"),
    ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
    ({"best_of": 3}, "best_of", "unsupported_parameter"),
    ({"suffix": "end"}, "suffix", "unsupported_parameter"),
    ({"temprature": 1}, "temprature", "unknown_parameter"),
    ({"min_tokens": 3}, "min_tokens", "unsupported_parameter"),
    ({"verbosity": "high"}, "verbosity", "unsupported_parameter"),
]


@pytest.mark.parametrize("path", [CHAT, COMPLETE])
@pytest.mark.parametrize(("extra", "param", "code"), BAD_PARAMETERS, ids=lambda v: str(v)[:40])
def test_a_bad_parameter_is_400_and_named(live: Any, path: str, extra: dict, param: str, code: str | None) -> None:
    body = {"model": "tiny", **({"messages": MESSAGES} if path == CHAT else {"prompt": "hi"}), **extra}
    assert_refused(live.client.post(path, json=body), 400, param=param, code=code or "invalid_value")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("temprature", "did you mean temperature?"),
        ("max_token", "did you mean max_tokens?"),
        ("num_predict", "use max_tokens"),
        ("zebra", "check its spelling"),
        ("max_tokens" * 100_000, "check its spelling"),
    ],
)
def test_an_unknown_parameter_is_told_what_was_probably_meant(live: Any, name: str, said: str) -> None:
    answer = live.client.post(CHAT, json={"messages": MESSAGES, name: 1})
    assert said in answer.json()["error"]["message"]


def test_the_methods_that_a_path_has_are_told_in_one_order(live: Any) -> None:
    assert "expected GET or HEAD on" in live.client.put("/v1/models").json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (CHAT, {"messages": []}, "messages"),
        (CHAT, {}, "messages"),
        (CHAT, {"messages": "hi"}, "messages"),
        (CHAT, {"messages": [5]}, "messages[0]"),
        (CHAT, {"messages": [{"content": "x"}]}, "messages[0].role"),
        (CHAT, {"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        (CHAT, {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        (CHAT, {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        (CHAT, {"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        (CHAT, {"messages": [{"role": "assistant", "tool_calls": [{"id": None}]}]}, "messages[0].tool_calls"),
        (CHAT, {"messages": [{"role": "user", "content": "x", "mood": "y"}]}, "messages[0].mood"),
        (CHAT, {"messages": MESSAGES, "top_logprobs": 3}, "top_logprobs"),
        (CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        (CHAT, {"messages": MESSAGES, "logprobs": 5}, "logprobs"),
        (CHAT, {"messages": MESSAGES, "max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
        (CHAT, {"messages": MESSAGES, "max_completion_tokens": 0}, "max_completion_tokens"),
        (COMPLETE, {}, "prompt"),
        (COMPLETE, {"prompt": ""}, "prompt"),
        (COMPLETE, {"prompt": [""]}, "prompt"),
        (COMPLETE, {"prompt": []}, "prompt"),
        (COMPLETE, {"prompt": [[]]}, "prompt"),
        (COMPLETE, {"prompt": None}, "prompt"),
        (COMPLETE, {"prompt": 5}, "prompt"),
        (COMPLETE, {"prompt": ["a", 5]}, "prompt"),
        (COMPLETE, {"prompt": ["a", [5]]}, "prompt"),
        (COMPLETE, {"prompt": [True]}, "prompt"),
        (COMPLETE, {"prompt": [1.5]}, "prompt"),
        (COMPLETE, {"prompt": [320]}, "prompt"),
        (COMPLETE, {"prompt": [-1]}, "prompt"),
        (COMPLETE, {"prompt": [[1], [10**30]]}, "prompt"),
        (COMPLETE, {"prompt": ["a"] * 65}, "prompt"),
        (COMPLETE, {"prompt": "a", "logprobs": 21}, "logprobs"),
        (COMPLETE, {"prompt": "a", "logprobs": -1}, "logprobs"),
        (COMPLETE, {"prompt": "a", "logprobs": True}, "logprobs"),
        ("/tokenize", {}, "content"),
        ("/tokenize", {"content": 5}, "content"),
        ("/tokenize", {"content": "a", "add_special": "no"}, "add_special"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/detokenize", {"tokens": [320]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [65] * ((1 << 18) + 1)}, "tokens"),
        ("/detokenize", {"tokens": [1.0]}, "tokens[0]"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_malformed_field_is_400_and_its_place_is_named(live: Any, path: str, body: dict, param: str) -> None:
    answer = live.client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(("path", "param"), [(CHAT, "messages"), (COMPLETE, "prompt"), ("/detokenize", "tokens")])
def test_a_field_that_must_be_there_is_asked_for(live: Any, path: str, param: str) -> None:
    assert live.client.post(path, json={}).json()["error"]["message"] == f"{param}: expected it, got none; add it"


BODIES = {
    "empty": b"",
    "no JSON": b"hello",
    "cut": b'{"prompt": "a',
    "array": b"[]",
    "number": b"5",
    "null": b"null",
    "NaN": b'{"prompt": "a", "temperature": NaN}',
    "Infinity": b'{"prompt": "a", "temperature": Infinity}',
    "overflow": b'{"prompt": "a", "temperature": 1e999}',
    "lone surrogate": b'{"prompt": "a\\ud800"}',
    "lone low surrogate": b'{"prompt": "\\udc00a"}',
    "surrogate bytes": b'{"prompt": "\xed\xa0\x80"}',
    "bad UTF-8": b'{"prompt": "\xff"}',
    "two byte order marks": b'\xef\xbb\xbf\xef\xbb\xbf{"prompt": "a"}',
    "byte order mark alone": b"\xef\xbb\xbf",
    "UTF-16": '{"prompt": "a"}'.encode("utf-16"),
    "trailing": b'{"prompt": "a"} x',
    "NUL": b'{"prompt": "\x00"}',
}


@pytest.mark.parametrize("path", [CHAT, COMPLETE, "/tokenize", "/detokenize"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_body_that_is_no_strict_json_object_is_400(live: Any, path: str, body: bytes) -> None:
    answer = live.client.post(path, content=body, headers={"content-type": "application/json"})
    assert_refused(answer, 400)


@pytest.mark.parametrize("depth", [66, 101, 1_000, 20_000, 1_000_000])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("field", ["prompt", "tools"])
def test_json_nested_too_deeply_is_400_at_a_fixed_depth(live: Any, depth: int, closed: bool, field: str) -> None:
    nested = b"[" * depth + b"]" * (depth if closed else 0)
    body = b'{"model": "tiny", "prompt": "a", "' + field.encode() + b'": ' + nested + b"}"
    error = assert_refused(live.client.post(COMPLETE, content=body, headers={"content-type": "application/json"}), 400)
    assert "64 levels" in error["message"]


def test_json_nested_less_deeply_is_read_and_judged_by_its_fields(live: Any) -> None:
    body = b'{"prompt": "a", "tools": ' + b"[" * 50 + b"]" * 50 + b"}"
    answer = live.client.post(COMPLETE, content=body, headers={"content-type": "application/json"})
    assert_refused(answer, 400, param="tools", code="unsupported_parameter")


def test_brackets_inside_of_strings_do_not_count_as_depth(live: Any) -> None:
    answer = live.client.post("/tokenize", json={"content": '[{"\\' * 50})
    assert answer.json() == {"tokens": list(('[{"\\' * 50).encode())}


@pytest.mark.parametrize("body", [{"x" * 1_000_000: 1}, {"prompt": "a", "sampler": "x" * 1_000_000}])
def test_what_a_client_sent_is_not_sent_back_as_a_whole(live: Any, body: dict) -> None:
    answer = live.client.post(COMPLETE, json=body)
    assert (answer.status_code, len(answer.content) < 1000) == (400, True)


@pytest.mark.parametrize(
    "said", [" - at `$", " - at `$`", " | ", "true, false, ", "missing required field `x`", "Object missing "]
)
def test_a_name_that_looks_like_the_parsers_own_words_is_refused_in_time_linear_in_its_size(
    live: Any, said: str
) -> None:
    # with the words of a path, each of which was read to the end, 128 KiB took minutes; this would take weeks
    options = {said * (1 << 18) + "\n": 1}
    answer = live.client.post(COMPLETE, json={"prompt": "a", "stream": True, "stream_options": options})
    error = assert_refused(answer, 400, param="stream_options", code="invalid_value")
    assert error["message"].startswith("stream_options: object contains unknown field ")


def test_more_log_probabilities_than_an_answer_should_hold_are_refused_before_it_begins(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    live = serve_plane(make_plane(context=100_000))
    most = {"prompt": ["a"] * 2, "n": 1, "max_tokens": 99_864, "logprobs": 20}  # 42 entries below the bound
    error = assert_refused(
        live.client.post(COMPLETE, json=most | {"n": 2}), 400, param="logprobs", code="invalid_value"
    )
    assert "4194304 log-probabilities" in error["message"]
    assert not live.plane.engine.submitted
    assert live.client.post(COMPLETE, json=most).status_code == 200


def test_a_body_of_quotes_and_backslashes_is_refused_in_linear_time(live: Any) -> None:
    # quadratic matching would take hours here, and the client gives up after ten seconds
    body = b'{"content": "' + b'\\"' * 2_000_000 + b"[" * 100
    assert_refused(live.client.post("/tokenize", content=body, headers={"content-type": "application/json"}), 400)


@pytest.mark.parametrize(
    ("method", "path", "headers", "content", "status", "code"),
    [
        ("GET", CHAT, {}, b"", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", {}, b"", 405, "method_not_allowed"),
        ("PUT", "/livez", {}, b"", 405, "method_not_allowed"),
        ("GET", "/nowhere", {}, b"", 404, "not_found"),
        ("POST", "/v1/embeddings", {}, b"{}", 404, "not_found"),
        ("POST", CHAT + "/", {}, b"{}", 404, "not_found"),
        ("GET", "/v1/models/other", {}, b"", 404, "model_not_found"),
        ("POST", CHAT, {"content-type": "text/plain"}, b"{}", 415, "unsupported_media_type"),
        ("POST", COMPLETE, {"content-type": "application/x-www-form-urlencoded"}, b"{}", 415, "unsupported_media_type"),
        ("POST", "/tokenize", {}, b"{}", 415, "unsupported_media_type"),
        ("POST", CHAT, {"content-encoding": "gzip", **JSON}, b"\x1f\x8b", 415, "unsupported_media_type"),
        ("POST", CHAT, {"content-type": "application/json"}, b" " * (8 << 20) + b"{}", 413, "request_too_large"),
    ],
)
def test_what_no_endpoint_takes_has_its_status_in_the_same_shape(
    live: Any, method: str, path: str, headers: dict, content: bytes, status: int, code: str
) -> None:
    answer = live.client.request(method, path, headers=headers, content=content)
    param = "model" if code == "model_not_found" else None
    assert_refused(answer, status, param=param, code=code)
    assert ("allow" in answer.headers) == (status == 405)


def test_a_body_without_a_declared_length_is_cut_at_the_same_size(live: Any) -> None:
    chunks = (b" " * (1 << 20) for _ in range(9))
    answer = live.client.post(CHAT, content=chunks, headers={"content-type": "application/json"})
    assert_refused(answer, 413, code="request_too_large")


@pytest.mark.parametrize(("tokens", "status"), [(254, 200), (255, 200), (256, 400), (700, 400), (2_000_000, 400)])
@pytest.mark.parametrize("max_tokens", [None, 1, 200])
def test_a_prompt_over_the_context_is_refused_with_both_numbers(
    live: Any, tokens: int, status: int, max_tokens: int | None
) -> None:
    answer = live.client.post(COMPLETE, json={"prompt": "a" * tokens, "max_tokens": max_tokens})
    if status == 200:
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        assert answer.json()["usage"]["completion_tokens"] == min(256 - tokens, max_tokens or 16)
        return
    error = assert_refused(answer, 400, param="prompt", code="context_length_exceeded")
    assert "256" in error["message"]
    assert "-" not in error["message"]


def test_harmless_and_neutral_parameters_are_taken_and_change_nothing(live: Any) -> None:
    extra = {
        "user": "me",
        "metadata": {"a": "b"},
        "store": False,
        "tools": [],
        "tool_choice": "none",
        "parallel_tool_calls": True,
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "top_p": 0,
        "top_k": 9_999_999,
        "stop": None,
        "logit_bias": {},
        "seed": -1,
    }
    answer = live.client.post(CHAT, json={"model": "tiny", "messages": MESSAGES, **extra})
    assert answer.json()["choices"][0]["message"]["content"] == "Hello, world"


@pytest.mark.parametrize("body", [{"prompt": "a"}, {"prompt": "a", "model": None}, {"prompt": "a", "model": "tiny"}])
def test_the_only_model_need_not_be_named(live: Any, body: dict) -> None:
    assert live.client.post(COMPLETE, json=body).json()["model"] == "tiny"


def test_every_answer_names_the_seed_that_repeats_it(live: Any) -> None:
    given = live.client.post(COMPLETE, json={"prompt": "a", "seed": 7}).json()["seed"]
    random = live.client.post(COMPLETE, json={"prompt": "a"}).json()["seed"]
    assert given == 7
    assert 0 <= random < 2**53
    assert live.plane.engine.submitted[-1].params.seed == random


def refused_engine(make_plane: Callable[..., Any], serve_plane: Callable[..., Any], error: Exception) -> Any:
    plane = make_plane()
    plane.engine.refuse = error
    return serve_plane(plane)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_refuses_gives_its_status_before_any_stream(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], status: int, stream: bool
) -> None:
    from sealhost.host.errors import Refused

    error = Refused("expected room, the queue is full", "try again", status=status, type="server_error", reason="full")
    live = refused_engine(make_plane, serve_plane, error)
    answer = live.client.post(CHAT, json={"messages": MESSAGES, "stream": stream})
    assert_refused(answer, status, code="full")
    assert ("retry-after" in answer.headers) == (status in {429, 503})
    assert live.plane.engine.idle


@pytest.mark.parametrize("stream", [False, True])
def test_a_bug_is_a_plain_500_without_its_text(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], stream: bool
) -> None:
    live = refused_engine(make_plane, serve_plane, ZeroDivisionError("secret detail"))
    answer = live.client.post(CHAT, json={"messages": MESSAGES, "stream": stream})
    error = assert_refused(answer, 500, code="internal_error")
    assert "secret" not in error["message"]
    assert live.client.get("/livez").json() == {"status": "ok"}


@pytest.mark.parametrize("phase", ["loading", "draining", "stopping"])
def test_before_ready_and_after_every_path_but_livez_is_503(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], phase: str
) -> None:
    from sealhost.host.serving.served import Phase

    live = serve_plane(make_plane())
    assert live.client.get("/readyz").json()["models"]["tiny"]["running"] == 0
    live.plane.registry.phase = Phase(phase)
    answers = [live.client.get(path) for path in ("/readyz", "/health", "/v1/models", "/v1/models/tiny")]
    answers += [live.client.post(path, json={}) for path in (CHAT, COMPLETE, "/tokenize", "/detokenize")]
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "server_error"
    assert live.client.get("/livez").status_code == 200


def test_errors_are_strict_json_whatever_the_client_sent(live: Any) -> None:
    answer = live.client.post(CHAT, json={"messages": [{"role": "\x1b[31m\u202e" + "é" * 500, "content": ""}]})
    error = json.loads(answer.content, parse_constant=pytest.fail)["error"]
    assert len(error["message"]) < 500
    assert "\x1b" not in error["message"]


@pytest.mark.parametrize("path", [CHAT, COMPLETE])
def test_a_samplers_configuration_is_checked_and_handed_on(live: Any, path: str) -> None:
    body = {"messages": MESSAGES} if path == CHAT else {"prompt": "hi"}
    chosen = {"sampler": "other", "sampler_config": {"words": ["é"], "tau": 1.5}}
    assert live.client.post(path, json={**body, **chosen}).status_code == 200
    request = live.plane.engine.submitted[-1]
    assert (request.sampler, request.sampler_config) == ("other", '{"tau":1.5,"words":["é"]}'.encode())
    assert live.client.post(path, json={**body, "sampler_config": None}).status_code == 200
    assert live.plane.engine.submitted[-1].sampler_config == b""
