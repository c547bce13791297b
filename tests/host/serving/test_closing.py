"""An answer that ends the connection reaches a client that is still sending."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.serving import closing, protocol
from sealhost.host.serving.closing import StagedTransport
from sealhost.host.serving.exchange import MAX_BODY_BYTES

POST = b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
DECLARED = POST + b"content-length: %d\r\n\r\n"
TOO_MUCH = MAX_BODY_BYTES + (1 << 20)
PATIENCE_S = 60.0


def read_all(client: socket.socket) -> bytes:
    """What comes until the server has closed its side."""
    answer = b""
    while part := client.recv(65536):
        answer += part
    return answer


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def until(holds: Callable[[], object]) -> None:
    """Waits for what the server's thread does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (DECLARED % TOO_MUCH + b" " * TOO_MUCH, 413, "request_too_large"),
        (POST + b"transfer-encoding: chunked\r\n\r\n" + b"100000\r\n%b\r\n" % (b" " * (1 << 20)) * 9, 413, "request_too_large"),
        (b"POST /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % TOO_MUCH + b" " * TOO_MUCH, 404, "not_found"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * TOO_MUCH, 400, "bad_request"),
        (b"no HTTP at all\r\n" * (TOO_MUCH // 16), 400, "bad_request"),
        (b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % TOO_MUCH + b" " * TOO_MUCH, 400, "bad_request"),  # no Host
    ],
)  # fmt: skip
def test_a_client_that_sends_all_before_it_reads_gets_its_answer(
    live: Any, data: bytes, status: int, code: str
) -> None:
    with connect(live.port) as client:
        client.sendall(data)
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert json.loads(body)["error"]["code"] == code


def test_one_that_is_answered_in_a_crowd_gets_its_answer_too(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    plane = make_plane()
    plane.engine.pause_at = 1
    live = serve_plane(plane, connections=1)
    body = b'{"prompt": "hi", "stream": true}'
    with connect(live.port) as first:
        first.sendall((DECLARED % len(body)).replace(b"/tokenize", b"/v1/completions") + body)
        plane.engine.wait_for(lambda engine: engine.submitted)
        with connect(live.port) as second:
            second.sendall(DECLARED % TOO_MUCH + b" " * TOO_MUCH)
            assert b'"code":"too_many_connections"' in read_all(second)


def answered_amid(port: int) -> socket.socket:
    """A client that has read its answer and still owes its body."""
    client = connect(port)
    client.sendall(DECLARED % TOO_MUCH + b"{")
    assert read_all(client).startswith(b"HTTP/1.1 413 ")
    return client


def send_without_end(client: socket.socket) -> None:
    while True:
        client.sendall(b" " * 65536)


def test_a_client_that_does_not_end_what_it_sends_loses_its_connection(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    live = serve_plane(make_plane())
    with answered_amid(live.port):
        until(lambda: not live._server.server_state.connections)


def test_a_client_that_sends_without_end_loses_its_connection(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "MAX_DROPPED_BYTES", 1 << 20)
    live = serve_plane(make_plane())
    with answered_amid(live.port) as client, pytest.raises(ConnectionError):
        send_without_end(client)


def test_a_client_that_has_been_answered_gives_its_place_to_another(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    live = serve_plane(make_plane(), connections=1)
    with answered_amid(live.port) as first:
        assert live.client.get("/livez").status_code == 200
        with pytest.raises(ConnectionError):
            send_without_end(first)


def test_a_server_that_ends_does_not_wait_for_one_that_has_been_answered(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    live = serve_plane(make_plane(), grace=PATIENCE_S)
    with answered_amid(live.port):
        live.stop()
        assert live.join() < PATIENCE_S / 2


class Line(asyncio.Transport):
    """A transport that notes what was done with it."""

    def __init__(self) -> None:
        super().__init__()
        self.did: list[str] = []

    def close(self) -> None:
        self.did.append("close")

    def abort(self) -> None:
        self.did.append("abort")

    def write_eof(self) -> None:
        self.did.append("end")

    def is_closing(self) -> bool:
        return "close" in self.did or "abort" in self.did


@pytest.mark.parametrize(
    ("is_amid", "calls", "did"),
    [
        (False, ["close"], ["close"]),
        (True, ["close"], ["end"]),
        (True, ["close", "close"], ["end", "close"]),
        (True, ["close_now"], ["close"]),
        (False, ["linger"], ["end"]),
        (False, ["close_now", "linger"], ["close", "close"]),
    ],
)
def test_a_close_amid_a_request_ends_our_side_first(is_amid: bool, calls: list[str], did: list[str]) -> None:
    line, began = Line(), []
    transport = StagedTransport(line, is_amid=lambda: is_amid, lingers=lambda: began.append(1))
    for call in calls:
        getattr(transport, call)()
    assert line.did == did
    assert (transport.is_closing(), transport.is_lingering, len(began)) == (True, "end" in did, did.count("end"))


def test_what_comes_after_the_answer_is_dropped_up_to_a_bound() -> None:
    line = Line()
    transport = StagedTransport(line, is_amid=lambda: True, lingers=lambda: None)
    transport.close()
    transport.drop(closing.MAX_DROPPED_BYTES)
    assert line.did == ["end"]
    transport.drop(1)
    assert line.did == ["end", "abort"]
