"""Whatever a client sends: an answer or a refusal in the one shape, never a fault of ours."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FIELDS = [
    "model",
    "messages",
    "prompt",
    "stream",
    "stream_options",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "seed",
    "stop",
    "stop_token_ids",
    "ignore_eos",
    "sampler",
    "logprobs",
    "top_logprobs",
    "echo",
    "add_special",
    "parse_special",
    "content",
    "tokens",
    "tools",
    "response_format",
    "user",
    "suffix",
    "best_of",
    "x",
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 320)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["tiny", "user", "system", "text", "standard", "<|im_end|>", "", "\x00", "1", "-1"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*FIELDS, "role", "type", "text", "name", "1"]), inner, max_size=4)
    ),
    max_leaves=8,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", "developer", "tool"]), "content": VALUES},
        optional={"name": VALUES, "tool_calls": VALUES},
    ),
    max_size=3,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5)
EVERY = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def assert_answered(live: Any, path: str, body: dict[str, Any]) -> None:
    answer = live.client.post(path, content=json.dumps(body).encode(), headers={"content-type": "application/json"})
    assert answer.status_code in {200, 400, 404}, (body, answer.text)
    if answer.status_code == 200:
        if answer.headers["content-type"].startswith("text/event-stream"):
            assert answer.content.endswith(b"data: [DONE]\n\n")
            assert b'"error"' not in answer.content
        else:
            answer.json()
        return
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert len(error["message"]) < 1000


@EVERY
@given(body=BODIES, messages=MESSAGES)
def test_any_chat_is_answered_or_refused(live: Any, body: dict[str, Any], messages: list[Any]) -> None:
    assert_answered(live, "/v1/chat/completions", {"messages": messages} | body)


@EVERY
@given(body=BODIES, prompt=VALUES)
def test_any_completion_is_answered_or_refused(live: Any, body: dict[str, Any], prompt: Any) -> None:
    assert_answered(live, "/v1/completions", {"prompt": prompt} | body)


@EVERY
@given(body=BODIES)
def test_any_tokenizing_is_answered_or_refused(live: Any, body: dict[str, Any]) -> None:
    assert_answered(live, "/tokenize", body)
    assert_answered(live, "/detokenize", body)


@EVERY
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_or_answered(live: Any, data: bytes) -> None:
    answer = live.client.post("/v1/completions", content=data, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@EVERY
@given(text=st.text(max_size=60), message=st.text(alphabet="<|im_endstar>\n ", max_size=40))
def test_no_text_forges_a_control_token(live: Any, text: str, message: str) -> None:
    body = {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": message}], "max_tokens": 1}
    if live.client.post("/v1/chat/completions", json=body).status_code == 200:
        ids = live.plane.engine.submitted[-1].prompt_ids
        assert [ids.count(token) for token in (300, 301, 302, 303)] == [0, 0, 3, 2]
        assert bytes(one for one in ids if one < 256) == f"user\n{text}\nassistant\n{message}\nassistant\n".encode()
