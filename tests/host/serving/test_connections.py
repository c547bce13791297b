"""More connections than a server holds: those that wait give way, and answers that run are never cut."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from sealhost.host.serving import connections
from sealhost.host.serving.connections import RESERVED_FILES, SPARE, Crowd, room_for

LIMIT = 4
ASK = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
LIST = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture
def connect() -> Iterator[Callable[..., socket.socket]]:
    with contextlib.ExitStack() as stack:

        def connect(port: int, data: bytes = b"") -> socket.socket:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120))
            client.sendall(data)
            return client

        yield connect


def stream(tokens: int = 3) -> bytes:
    body = json.dumps({"prompt": "x", "stream": True, "max_tokens": tokens}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def read_until_closed(client: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            answer += part
    return answer


def answer_to(client: socket.socket) -> bytes:
    """All of it: its head and its body may come apart."""
    answer = b""
    while (end := answer.find(b"\r\n\r\n")) < 0 or len(answer) < end + 4 + length_in(answer):
        answer += (part := client.recv(65536))
        assert part, f"expected the rest of an answer, got its end: {answer!r}"
    return answer


def length_in(answer: bytes) -> int:
    found = re.search(rb"content-length: (\d+)\r\n", answer)
    assert found
    return int(found[1])


@pytest.mark.parametrize("idle", [b"", b"GET /livez HT", ASK, stream()[:-5]], ids=["silent", "head", "kept", "body"])
def test_a_server_full_of_idle_connections_answers_new_ones_and_hangs_up_on_the_oldest(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], connect: Callable[..., socket.socket], idle: bytes
) -> None:
    live = serve_plane(make_plane(), connections=LIMIT)
    held = []
    for _ in range(3 * LIMIT):
        held.append(connect(live.port, idle))
        if idle == ASK:
            assert answer_to(held[-1]).startswith(b"HTTP/1.1 200")
    asking = connect(live.port, LIST)
    assert answer_to(asking).startswith(b"HTTP/1.1 200")
    for gone in held[: -LIMIT + 1]:
        assert read_until_closed(gone) == b""
    assert len(live._server.server_state.connections) <= LIMIT + 1


def test_while_all_are_being_answered_another_is_told_so_and_health_checks_are_answered(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], connect: Callable[..., socket.socket]
) -> None:
    plane = make_plane()
    plane.engine.pause_at = 1
    live = serve_plane(plane, connections=LIMIT)
    running = [connect(live.port, stream()) for _ in range(LIMIT)]
    plane.engine.wait_for(lambda engine: len(engine.submitted) == LIMIT)
    ours = LIST.replace(b"\r\n\r\n", b"\r\nOrigin: http://localhost:3000\r\n\r\n")
    head, _, body = read_until_closed(connect(live.port, ours)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1" in head
    assert b"access-control-allow-origin: http://localhost:3000" in head  # or its page could not read the refusal
    assert json.loads(body)["error"]["code"] == "too_many_connections"
    assert read_until_closed(connect(live.port, ASK)).startswith(b"HTTP/1.1 200")
    plane.engine.resume()
    for client in running:  # none of them was cut
        answer = b""
        while b"[DONE]" not in answer:
            answer += client.recv(65536)
        assert answer.count(b'"finish_reason":"length"') == 1
    asking = connect(live.port, LIST)  # on a spare one perhaps, until the others are seen to be idle
    assert answer_to(asking).startswith(b"HTTP/1.1 200")


def test_beyond_the_spare_ones_a_connection_is_closed_at_once(
    make_plane: Callable[..., Any],
    serve_plane: Callable[..., Any],
    connect: Callable[..., socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "SPARE", 0)
    plane = make_plane()
    plane.engine.pause_at = 1
    live = serve_plane(plane, connections=1)
    connect(live.port, stream())
    plane.engine.wait_for(lambda engine: engine.submitted)
    assert read_until_closed(connect(live.port)) == b""


class One:
    """A connection that notes that it was hung up on."""

    def __init__(self, *, unread: bool = False) -> None:
        self.is_open, self.unread = True, unread

    def hang_up(self) -> bool:
        self.is_open = False
        return not self.unread


def test_who_has_waited_longest_gives_way_and_who_works_does_not() -> None:
    crowd = Crowd(3)
    first, second, third, fourth, fifth = (One() for _ in range(5))
    assert [crowd.enter(one) for one in (first, second, third)] == [False] * 3
    crowd.works(first)
    crowd.works(second)
    crowd.waits(first)  # later than the third
    assert crowd.enter(fourth) is False
    assert [one.is_open for one in (first, second, third)] == [True, True, False]
    crowd.leave(third)
    crowd.works(first)
    crowd.works(fourth)
    assert crowd.enter(fifth) is True  # all work: a spare one
    crowd.leave(fourth)
    assert crowd.enter(One()) is False
    assert not fifth.is_open  # which waited for its client


def test_who_has_not_read_the_end_of_an_answer_keeps_its_place_until_it_has() -> None:
    crowd = Crowd(2)
    reader, idle = One(unread=True), One()
    crowd.enter(reader)
    crowd.enter(idle)
    assert crowd.enter(One()) is False  # the reader is told, and the next one gives way
    assert (reader.is_open, idle.is_open) == (False, False)
    crowd.leave(reader)
    third = One()
    crowd.enter(third)
    assert third.is_open


def test_a_flood_is_logged_once_in_a_while() -> None:
    now = 0.0
    crowd = Crowd(1, clock=lambda: now)
    with capture_logs() as lines:
        for _ in range(50):
            crowd.enter(One())
            now += 0.25
    assert [(line["event"], line["hung_up"], line["refused"]) for line in lines] == [
        ("too many connections", 1, 0),
        ("too many connections", 40, 0),
    ]


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "room", "raised"),
    [
        (1024, 1 << 20, 1000, 1000, 1000 + SPARE + RESERVED_FILES),
        (1 << 20, 1 << 20, 1000, 1000, 1 << 20),
        (1024, 1024, 1000, 1024 - SPARE - RESERVED_FILES, 1024),
        (64, 64, 1000, 1, 64),
        (256, resource.RLIM_INFINITY, 1000, 1000, 1000 + SPARE + RESERVED_FILES),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 1000, 1000, resource.RLIM_INFINITY),
    ],
)
def test_the_limit_of_open_files_is_raised_as_far_as_it_goes(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int, room: int, raised: int
) -> None:
    limits = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(slice(None), new))
    assert room_for(wanted) == room
    assert limits == [raised, hard]
