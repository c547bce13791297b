"""The official Python client, unchanged, against a real server on loopback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest

QUESTION = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def client(live: Any) -> openai.OpenAI:
    with openai.OpenAI(base_url=live.url + "/v1", api_key="unused", max_retries=0, timeout=120) as client:
        yield client


def test_a_chat_is_answered_with_text_reason_and_token_counts(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=QUESTION)
    choice = answer.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Hello, world", "stop")
    assert answer.usage.prompt_tokens == len("user\nhi\nassistant\n") + 3
    assert answer.usage.completion_tokens == len("Hello, world") + 1
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert (answer.model, answer.system_fingerprint) == ("tiny", "fp_" + "ab" * 6)


def test_a_chat_stream_has_a_role_then_text_then_a_reason(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(model="tiny", messages=QUESTION, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello, world"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["stop"]
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_comes_in_a_last_chunk_without_choices_only_when_asked_for(client: openai.OpenAI) -> None:
    plain = list(client.chat.completions.create(model="tiny", messages=QUESTION, stream=True))
    asked = list(
        client.chat.completions.create(
            model="tiny", messages=QUESTION, stream=True, stream_options={"include_usage": True}
        )
    )
    assert all(chunk.usage is None for chunk in plain)
    assert asked[-1].choices == []
    assert asked[-1].usage.completion_tokens == len("Hello, world") + 1
    assert all(chunk.choices for chunk in asked[:-1])


def test_a_completion_is_answered_streamed_and_whole_alike(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="tiny", prompt="Say", max_tokens=5)
    stream = list(client.completions.create(model="tiny", prompt="Say", max_tokens=5, stream=True))
    assert (whole.choices[0].text, whole.choices[0].finish_reason) == ("Hello", "length")
    assert "".join(chunk.choices[0].text for chunk in stream) == "Hello"
    assert stream[-1].choices[0].finish_reason == "length"


def test_several_prompts_and_choices_are_numbered_prompt_by_prompt(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="tiny", prompt=["a", "bc"], n=2, echo=True, max_tokens=1)
    assert [(c.index, c.text) for c in answer.choices] == [(0, "aH"), (1, "aH"), (2, "bcH"), (3, "bcH")]
    assert answer.usage.prompt_tokens == 3


def test_chat_logprobs_have_bytes_and_alternatives(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny", messages=QUESTION, logprobs=True, top_logprobs=3, max_completion_tokens=2
    )
    content = answer.choices[0].logprobs.content
    assert [(one.token, one.bytes, one.logprob) for one in content] == [("H", [72], -0.25), ("e", [101], -0.25)]
    assert [len(one.top_logprobs) for one in content] == [3, 3]


def test_completion_logprobs_come_in_columns(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="tiny", prompt="é", logprobs=2, max_tokens=2)
    columns = answer.choices[0].logprobs
    assert columns.tokens == ["H", "e"]
    assert columns.text_offset == [1, 2]
    assert [len(top) for top in columns.top_logprobs] == [2, 2]


def test_the_models_are_listed_and_described(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    told = client.models.retrieve("tiny").model_dump()
    assert told["owned_by"] == "sealhost"
    assert told["max_model_len"] == told["sealhost"]["context"]


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (lambda c: c.chat.completions.create(model="gpt", messages=QUESTION), openai.NotFoundError, "model_not_found"),
        (lambda c: c.models.retrieve("gpt"), openai.NotFoundError, "model_not_found"),
        (
            lambda c: c.completions.create(model="tiny", prompt=[1] * 256),
            openai.BadRequestError,
            "context_length_exceeded",
        ),
        (
            lambda c: c.chat.completions.create(model="tiny", messages=QUESTION, tools=[{"type": "function"}]),
            openai.BadRequestError,
            "unsupported_parameter",
        ),
    ],
)
def test_the_client_raises_its_own_error_with_our_code(
    client: openai.OpenAI, call: Callable[[openai.OpenAI], object], error: type[openai.APIStatusError], code: str
) -> None:
    with pytest.raises(error) as caught:
        call(client)
    assert caught.value.code == code
    assert "expected" in caught.value.message


def test_an_error_in_the_middle_of_a_stream_reaches_the_client(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    from sealhost.host.errors import InternalError

    plane = make_plane()
    plane.engine.failure, plane.engine.fail_at = InternalError("step", "expected a number, got NaN"), 3
    live = serve_plane(plane)
    with openai.OpenAI(base_url=live.url + "/v1", api_key="unused", max_retries=0, timeout=120) as client:
        texts = []
        with pytest.raises(openai.APIError, match="expected a number, got NaN"):
            texts += [
                c.choices[0].delta.content
                for c in client.chat.completions.create(model="tiny", messages=QUESTION, stream=True)
            ]
