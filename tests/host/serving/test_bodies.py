"""What the bodies of all requests take together, and who gives way when it is too much."""

from __future__ import annotations

import gc
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.errors import RequestError
from sealhost.host.serving.bodies import FREE_BYTES, Bodies, Share
from sealhost.host.serving.exchange import MAX_BODY_BYTES
from sealhost.host.serving.schema import Generate

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hi"}]
JSON = {"content-type": "application/json"}
KIB = 1 << 10
PATIENCE_S = 30.0


def never() -> None:
    pytest.fail("it had to give way")


def until(holds: Callable[[], bool]) -> None:
    """Waits for what another thread does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def large(size: int) -> bytes:
    return json.dumps({"messages": MESSAGES, "user": "x" * size}).encode()


def begun(port: int, body: bytes, declared: int) -> socket.socket:
    """A connection whose client has sent a part of a body."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {declared}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def told(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Status and error of an answer; the connection ends with it or after it."""
    with connection:
        text = connection.recv(1 << 16).decode()
    head, _, body = text.partition("\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


def test_what_is_free_takes_nothing_of_the_total() -> None:
    bodies = Bodies(limit=0)
    bodies.share().grow(FREE_BYTES)
    with pytest.raises(RequestError) as caught:
        bodies.share().grow(FREE_BYTES + 1)
    assert (caught.value.status, caught.value.reason) == (503, "overloaded")


def test_the_one_that_has_been_coming_for_longest_gives_way_to_another() -> None:
    bodies, gone = Bodies(limit=10 * KIB), []
    first, second, third = (bodies.share() for _ in range(3))
    with first.coming(lambda: gone.append("first")), second.coming(lambda: gone.append("second")), third.coming(never):
        first.grow(FREE_BYTES + 4 * KIB)
        second.grow(FREE_BYTES + 6 * KIB)
        third.grow(FREE_BYTES + 4 * KIB)
        assert gone == ["first"]
        third.grow(FREE_BYTES + 10 * KIB)
        assert gone == ["first", "second"]


def test_the_oldest_itself_is_refused_when_it_wants_more_than_there_is() -> None:
    bodies = Bodies(limit=10 * KIB)
    first, second = bodies.share(), bodies.share()
    with first.coming(never), second.coming(never):
        second.grow(FREE_BYTES + 8 * KIB)
        with pytest.raises(RequestError):
            first.grow(FREE_BYTES + 4 * KIB)


def test_one_that_has_come_never_gives_way_nor_does_one_that_takes_nothing() -> None:
    bodies = Bodies(limit=10 * KIB)
    done = bodies.share()
    with done.coming(never):
        done.grow(FREE_BYTES + 8 * KIB)
    small = bodies.share()
    with small.coming(never):
        small.grow(FREE_BYTES)
        with pytest.raises(RequestError):
            bodies.share().grow(FREE_BYTES + 4 * KIB)


def test_what_was_given_back_is_there_for_others_and_once_only() -> None:
    bodies = Bodies(limit=10 * KIB)
    first: Share = bodies.share()
    first.grow(FREE_BYTES + 10 * KIB)
    for _ in range(3):
        first.give_back()
    bodies.share().grow(FREE_BYTES + 10 * KIB)
    with pytest.raises(RequestError):
        bodies.share().grow(FREE_BYTES + KIB)


def test_a_client_that_trickles_loses_its_place_to_one_that_sends(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    bodies = Bodies(limit=512 * KIB)
    live = serve_plane(make_plane(bodies=bodies))
    slow = begun(live.port, large(400 * KIB)[:-5], MAX_BODY_BYTES)
    until(lambda: bodies.left < 512 * KIB - 300 * KIB)
    quick = live.client.post(CHAT, content=large(300 * KIB), headers=JSON)
    assert quick.status_code == 200, quick.text
    status, error = told(slow)
    assert (status, error["code"]) == (503, "overloaded")
    until(lambda: bodies.left == 512 * KIB)


def test_small_requests_are_answered_when_large_ones_have_taken_all(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    live = serve_plane(make_plane(bodies=Bodies(limit=0)))
    answer = live.client.post(CHAT, content=large(300 * KIB), headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
    assert live.client.post(CHAT, json={"messages": MESSAGES}).status_code == 200


def requests_held() -> list[Generate]:
    """All requests that the process has in memory."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Generate)]


@pytest.mark.parametrize(("path", "prompt"), [(CHAT, {"messages": MESSAGES}), ("/v1/completions", {"prompt": "hi"})])
def test_nothing_of_a_body_is_held_while_its_answer_runs(
    path: str, prompt: dict[str, Any], make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    bodies = Bodies(limit=512 * KIB)
    plane = make_plane(bodies=bodies)
    plane.engine.pause_at = 1
    live = serve_plane(plane)
    others = requests_held()  # other tests' own
    with live.client.stream("POST", path, json={**prompt, "user": "x" * 300 * KIB, "stream": True}) as answer:
        chunks = answer.iter_bytes()
        next(chunks)
        assert [one for one in requests_held() if not any(one is other for other in others)] == []
        assert bodies.left == 512 * KIB
        plane.engine.resume()
        assert b"[DONE]" in b"".join(chunks)


def test_a_refused_body_gives_back_what_it_took(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    bodies = Bodies(limit=512 * KIB)
    live = serve_plane(make_plane(bodies=bodies))
    for _ in range(3):
        assert live.client.post(CHAT, content=b"[" + b" " * 400 * KIB, headers=JSON).status_code == 400
    begun(live.port, large(400 * KIB)[:-5], MAX_BODY_BYTES).close()
    until(lambda: bodies.left == 512 * KIB)
