"""What goes over the wire: events, stop texts, split characters, disconnects."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

CHAT = "/v1/chat/completions"
COMPLETE = "/v1/completions"
MESSAGES = [{"role": "user", "content": "hi"}]


def events_of(raw: bytes) -> list[Any]:
    """Parses a stream as strictly as our own rules allow: `data: …` and a blank line, nothing else."""
    assert raw.endswith(b"data: [DONE]\n\n")
    blocks = raw.split(b"\n\n")
    assert blocks.pop() == b""
    assert all(block.startswith(b"data: ") and b"\n" not in block for block in blocks)
    assert blocks.pop() == b"data: [DONE]"
    return [json.loads(block[6:], parse_constant=pytest.fail) for block in blocks]


def text_of(events: list[Any]) -> str:
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(c["text"] if "text" in c else c["delta"].get("content", "") for c in choices)


def complete(live: Any, **body: Any) -> dict[str, Any]:
    answer = live.client.post(COMPLETE, json={"prompt": "x", "max_tokens": 100, **body})
    assert answer.status_code == 200, answer.text
    return json.loads(answer.content, parse_constant=pytest.fail)["choices"][0]


def test_a_stream_is_data_lines_and_blank_lines_and_ends_with_done(live: Any) -> None:
    answer = live.client.post(CHAT, json={"messages": MESSAGES, "stream": True})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = events_of(answer.content)
    assert text_of(events) == "Hello, world"
    assert all(event["object"] == "chat.completion.chunk" for event in events)


STOPS = [
    ("The quick brown fox", "own fox", "The quick br"),
    ("abcZZ", "ZZZZ", "abcZZ"),
    ("axb a.b c", "a.b", "axb "),
    ("one\\ntwo\nthree", "\n", "one\\ntwo"),
    ("cost $5", "$", "cost "),
    ("a[0]", "[", "a"),
    ("x(?y)", "(?", "x"),
    ("naïve é end", "é", "naïve "),
    ("aaab", "aab", "a"),
    ("stop", "stop", ""),
]


@pytest.mark.parametrize(("answer", "stop", "shown"), STOPS)
def test_a_stop_text_is_literal_and_never_leaks_streamed_or_whole(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], answer: str, stop: str, shown: str
) -> None:
    live = serve_plane(make_plane(answer))
    for wanted in (stop, [stop], ["never", stop]):
        assert complete(live, stop=wanted) == {"index": 0, "text": shown, "logprobs": None, "finish_reason": "stop"}
    body = {"prompt": "x", "max_tokens": 100, "stop": stop, "stream": True}
    assert text_of(events_of(live.client.post(COMPLETE, json=body).content)) == shown


@pytest.mark.parametrize(
    ("ids", "shown"),
    [([0xF0, 0x9F], "\ufffd"), ([0x41, 0xFF, 0x42], "A\ufffdB"), (list("é🎉".encode()), "é🎉"), ([], "")],
)
def test_bytes_that_are_no_character_become_one_mark_and_every_id_counts(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], ids: list[int], shown: str
) -> None:
    live = serve_plane(make_plane(ids))
    body = {"prompt": "x", "max_tokens": max(1, len(ids)), "stream": True, "stream_options": {"include_usage": True}}
    events = events_of(live.client.post(COMPLETE, json=body).content)
    assert text_of(events) == shown == complete(live, max_tokens=body["max_tokens"])["text"]
    assert events[-1]["usage"]["completion_tokens"] == max(1, len(ids))


def test_offsets_count_code_points_and_a_split_character_has_one(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    live = serve_plane(make_plane(list("a€b".encode())))
    whole = complete(live, prompt="é", max_tokens=5, logprobs=1)
    assert whole["logprobs"]["text_offset"] == [1, 2, 2, 2, 3]
    assert whole["logprobs"]["tokens"] == ["a", "bytes:\\xe2", "bytes:\\x82", "bytes:\\xac", "b"]
    text = "é" + whole["text"]
    assert [text[at] for at in whole["logprobs"]["text_offset"]] == ["a", "€", "€", "€", "b"]
    body = {"prompt": "é", "max_tokens": 5, "logprobs": 1, "stream": True}
    events = events_of(live.client.post(COMPLETE, json=body).content)
    columns = [choice["logprobs"] for event in events for choice in event["choices"] if choice["logprobs"]]
    assert [at for column in columns for at in column["text_offset"]] == [1, 2, 2, 2, 3]
    assert text_of(events) == whole["text"]


def test_logprobs_zero_reports_the_drawn_token_alone(live: Any) -> None:
    columns = complete(live, max_tokens=2, logprobs=0)["logprobs"]
    assert columns["top_logprobs"] == [{"H": -0.25}, {"e": -0.25}]


def test_echo_puts_the_prompt_first_for_text_and_for_ids(live: Any) -> None:
    assert complete(live, prompt="Say: ", echo=True)["text"] == "Say: Hello, world"
    assert complete(live, prompt=list(b"Say: "), echo=True)["text"] == "Say: Hello, world"
    body = {"prompt": "Say: ", "echo": True, "stream": True, "max_tokens": 100}
    assert text_of(events_of(live.client.post(COMPLETE, json=body).content)) == "Say: Hello, world"


def test_choices_of_one_stream_are_kept_apart_and_all_finish(live: Any) -> None:
    answer = live.client.post(CHAT, json={"messages": MESSAGES, "stream": True, "n": 3})
    choices = [choice for event in events_of(answer.content) for choice in event["choices"]]
    for index in range(3):
        mine = [choice for choice in choices if choice["index"] == index]
        assert mine[0]["delta"]["role"] == "assistant"
        assert "".join(choice["delta"].get("content", "") for choice in mine) == "Hello, world"
        assert mine[-1]["finish_reason"] == "stop"
    assert [request.choice for request in live.plane.engine.submitted[-3:]] == [0, 1, 2]


def test_an_error_after_the_first_token_is_the_last_event_and_cancels_the_other_choices(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    from sealhost.host.errors import InternalError

    plane = make_plane()
    plane.engine.failure, plane.engine.fail_at = InternalError("step", "expected a number, got NaN"), 2
    live = serve_plane(plane)
    events = events_of(live.client.post(CHAT, json={"messages": MESSAGES, "stream": True, "n": 2}).content)
    assert events[-1]["error"]["code"] == "internal_error"
    assert all("error" not in event for event in events[:-1])
    assert not any(choice["finish_reason"] for event in events[:-1] for choice in event["choices"])
    plane.engine.wait_for(lambda engine: engine.idle)


def test_an_error_before_the_first_token_is_an_http_error(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    from sealhost.host.errors import InternalError

    plane = make_plane()
    plane.engine.failure = InternalError("step", "expected a number, got NaN")
    live = serve_plane(plane)
    for stream in (False, True):
        answer = live.client.post(CHAT, json={"messages": MESSAGES, "stream": stream})
        assert answer.status_code == 500
        assert "NaN" in answer.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("pause_at", [0, 3])
def test_a_client_that_goes_away_cancels_each_of_its_requests_once(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], stream: bool, n: int, pause_at: int
) -> None:
    plane = make_plane()
    plane.engine.pause_at = pause_at
    live = serve_plane(plane)
    body = json.dumps({"messages": MESSAGES, "stream": stream, "n": n}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", live.port)) as client:
        client.sendall(head.encode() + body)
        plane.engine.wait_for(lambda engine: len(engine.submitted) == n)
    plane.engine.wait_for(lambda engine: len(engine.cancelled) == n)
    assert sorted(plane.engine.cancelled) == sorted(request.id for request in plane.engine.submitted)
    assert plane.engine.idle
    plane.engine.resume()
    assert complete(live)["text"] == "Hello, world"


def test_a_client_that_leaves_after_the_last_event_causes_no_second_cleanup(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    live = serve_plane(make_plane())
    with httpx.Client(base_url=live.url, trust_env=False) as client:
        events_of(client.post(CHAT, json={"messages": MESSAGES, "stream": True}).content)
    assert complete(live)["text"] == "Hello, world"  # by now the server has seen the other connection close
    assert live.plane.engine.cancelled == []


def test_a_client_that_goes_away_while_its_text_is_encoded_never_reaches_the_engine(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    import threading

    plane = make_plane()
    plane.tokenizer.gate = threading.Event()
    live = serve_plane(plane)
    body = b'{"prompt": "x"}'
    head = (
        f"POST {COMPLETE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", live.port)) as client:
        client.sendall(head.encode() + body)
        assert live.client.get("/health").status_code == 200
    assert live.client.get("/livez").status_code == 200
    plane.tokenizer.gate.set()
    assert complete(live)["text"] == "Hello, world"
    assert len(plane.engine.submitted) <= 2


def test_a_flood_of_texts_to_encode_is_told_to_come_back_and_the_rest_is_served(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    import threading
    from concurrent.futures import ThreadPoolExecutor

    plane = make_plane()
    plane.tokenizer.gate = threading.Event()
    live = serve_plane(plane)

    def post(_number: int) -> httpx.Response:
        answer = live.client.post("/tokenize", json={"content": "a"})
        if answer.status_code == 503:
            plane.tokenizer.gate.set()  # the flood was noticed; let the others through
        return answer

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, range(8)))
    assert {answer.status_code for answer in answers} == {200, 503}
    assert [a.json()["error"]["code"] for a in answers if a.status_code == 503] == ["overloaded"] * sum(
        a.status_code == 503 for a in answers
    )
    assert live.client.post("/tokenize", json={"content": "a"}).json() == {"tokens": [97]}


def test_special_tokens_are_parsed_only_for_those_who_ask(live: Any) -> None:
    text = "a<|im_end|>"
    ask = live.client.post
    assert ask("/tokenize", json={"content": text}).json()["tokens"] == list(text.encode())
    assert ask("/tokenize", json={"content": text, "parse_special": True}).json()["tokens"] == [97, 303]
    assert ask("/detokenize", json={"tokens": [97, 303]}).json() == {"content": text}
    complete(live, prompt=text, max_tokens=1)
    assert live.plane.engine.submitted[-1].prompt_ids == tuple(text.encode())
    complete(live, prompt=text, max_tokens=1, parse_special=True)
    assert live.plane.engine.submitted[-1].prompt_ids == (97, 303)
