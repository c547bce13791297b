"""Answers that nobody reads: all of them together stay below a bound, and who holds most or longest gives way."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from sealhost.host.serving.unread import LOG_SECONDS, UnreadBytes, UnreadEvents

TOKENS = 40_000
PATIENCE_S = 120.0


class Reader:
    """A stream and a connection in one."""

    def __init__(self, unread: int = 0) -> None:
        self.unread_bytes = unread
        self.ended = 0

    def give_up(self) -> None:
        self.ended += 1

    cut = give_up


def test_the_stream_that_is_furthest_behind_gives_way() -> None:
    events = UnreadEvents(limit=100)
    first, second, third = Reader(), Reader(), Reader()
    events.grow(first, 40)
    events.grow(second, 50)
    events.shrink(second, 20)
    events.grow(third, 30)
    assert (first.ended, second.ended, third.ended) == (0, 0, 0)
    events.grow(third, 1)
    assert (first.ended, second.ended, third.ended) == (1, 0, 0)


def test_what_is_forgotten_counts_no_more_and_once_only() -> None:
    events = UnreadEvents(limit=100)
    first, second = Reader(), Reader()
    events.grow(first, 100)
    for _ in range(2):
        events.forget(first)
        events.shrink(first, 50)
    events.grow(second, 100)
    assert second.ended == 0
    events.grow(second, 1)
    assert second.ended == 1


def test_the_connection_that_has_been_slow_for_longest_is_cut_but_never_the_only_one() -> None:
    unread = UnreadBytes(limit=100)
    first, second, third = Reader(60), Reader(500), Reader(30)
    unread.piles_up(first)
    unread.piles_up(second)
    assert (first.ended, second.ended) == (1, 0)
    second.unread_bytes = 70
    unread.piles_up(third)
    unread.piles_up(second)  # later once more: it keeps its place
    third.unread_bytes = 31
    unread.piles_up(third)
    assert (second.ended, third.ended) == (1, 0)


def test_one_that_has_caught_up_is_not_cut_for_others() -> None:
    unread = UnreadBytes(limit=100)
    first, second, third = Reader(60), Reader(60), Reader(41)
    unread.piles_up(first)
    unread.is_read(first)
    unread.piles_up(second)
    unread.piles_up(third)
    assert (first.ended, second.ended) == (0, 1)


def test_a_flood_of_them_is_told_now_and_then() -> None:
    now = 0.0
    events = UnreadEvents(limit=0, clock=lambda: now)
    with capture_logs() as lines:
        for _ in range(5):
            events.grow(Reader(), 1)
        now = LOG_SECONDS
        events.grow(Reader(), 1)
    assert [line["number"] for line in lines] == [1, 5]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_stream_that_nobody_reads_stops_its_work_and_ends_with_an_error(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], path: str
) -> None:
    plane = make_plane([65] * TOKENS, context=2 * TOKENS, unread=UnreadEvents(limit=TOKENS // 2))
    live = serve_plane(plane)
    body = {"prompt": "x"} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "x"}]}
    data = json.dumps({**body, "max_tokens": TOKENS, "stream": True}).encode()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE_S)
        client.connect(("127.0.0.1", live.port))
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        plane.engine.wait_for(lambda engine: engine.cancelled)
        answer = b""
        while part := client.recv(1 << 16):
            answer += part
    assert b'"code":"read_too_slowly"' in answer
    assert answer.count(b"[DONE]") == 1
    assert b'"finish_reason":"length"' not in answer
    assert len(plane.engine.cancelled) == 1


def test_a_stream_that_is_read_is_whole_however_small_the_bound(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    plane = make_plane([65] * 100, unread=UnreadEvents(limit=200))
    live = serve_plane(plane)
    answer = live.client.post("/v1/completions", json={"prompt": "x", "max_tokens": 100, "stream": True}).text
    assert answer.count('"text":"A"') == 100
    assert '"finish_reason":"length"' in answer
