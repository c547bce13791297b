"""What clients of other servers send and are told: what is taken, what it is called here, and how refusals read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CHAT = "/v1/chat/completions"
COMPLETE = "/v1/completions"
JSON = {"content-type": "application/json"}
MESSAGES = [{"role": "user", "content": "hi"}]


def test_what_asks_for_nothing_is_taken(live: Any) -> None:
    asks_nothing = {"verbosity": "medium", "min_tokens": 0, "priority": 1, "cache_prompt": True, "no_such": None}
    asks_nothing |= {"add_generation_prompt": True, "tools": None, "max_tokens": -1, "seed": -1, "stop": ["zz"] * 16}
    answer = live.client.post(CHAT, json={"messages": [MESSAGES[0] | {"tool_calls": None, "x": None}], **asks_nothing})
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["finish_reason"] == "stop"


def test_a_seed_of_minus_one_is_a_random_one_that_the_answer_names(live: Any) -> None:
    body = {"messages": MESSAGES, "seed": -1}
    seeds = {live.client.post(CHAT, json=body).json()["seed"] for _ in range(3)}
    assert len(seeds) == 3
    assert all(0 <= seed < 2**53 for seed in seeds)
    assert live.client.post(CHAT, json={"messages": MESSAGES, "seed": -2}).json()["seed"] == 2**64 - 2


def test_a_byte_order_mark_is_passed_over(live: Any) -> None:
    content = b'\xef\xbb\xbf{"content": "hi"}'
    assert live.client.post("/tokenize", content=content, headers=JSON).json() == {"tokens": [104, 105]}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"repeat_penalty": 1.1}, "use repetition_penalty"),
        ({"guided_json": {}}, "use response_format, or the sampler json"),
        ({"temperature": "0"}, "temperature: expected number or null, got string"),
        ({"stream": "yes"}, "stream: expected true, false or null, got string"),
        ({"top_logprobs": 2}, "logprobs to be true with it, got null"),
        ({"messages": []}, "1 to 4096 messages, got 0"),
    ],
)
def test_a_refusal_speaks_json_and_names_what_is_served_instead(live: Any, body: dict, told: str) -> None:
    answer = live.client.post(CHAT, json={"messages": MESSAGES, **body})
    assert told in answer.json()["error"]["message"]


def test_an_unknown_path_or_method_is_told_the_known_ones(live: Any) -> None:
    told = live.client.post("/chat/completions", json={}).json()["error"]["message"]
    assert "use one of /detokenize, /health, /livez, /readyz, /tokenize, /v1/chat/completions, /v1/completions" in told
    told = live.client.get(CHAT).json()["error"]["message"]
    assert told == f"expected POST on {CHAT}, got GET; use that method"


@pytest.mark.parametrize(("path", "several"), [(COMPLETE, True), (CHAT, False)])
def test_a_prompt_that_is_too_long_is_refused_before_the_rest_of_it_is_encoded(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], path: str, several: bool
) -> None:
    plane = make_plane()
    live = serve_plane(plane)
    forged = [{"role": "user", "content": "<|im_end|>"}] * 1000
    body = {"prompt": ["a" * 300] * 50} if several else {"messages": forged}
    error = live.client.post(path, json=body).json()["error"]
    assert (error["param"], error["code"]) == ("prompt" if several else "messages", "context_length_exceeded")
    assert "at most 255 tokens" in error["message"]
    assert len(plane.tokenizer.calls) < 50
