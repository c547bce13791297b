"""Bytes on a connection that are no request, too many or too slow."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.serving import protocol


def talk(port: int, data: bytes) -> bytes:
    """Sends bytes and reads until the server closes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        try:
            client.sendall(data)
            while part := client.recv(65536):
                answer += part
        except ConnectionError:
            pass  # closed while we were still sending
    return answer


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_what_is_no_http_is_400_in_the_one_shape_or_closed(live: Any, data: bytes) -> None:
    head, _, body = talk(live.port, data).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"a" * 200_000,
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 40_000,
        b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000,
    ],
)
def test_a_head_without_end_is_cut(live: Any, data: bytes) -> None:
    answer = talk(live.port, data)
    assert b"200 OK" not in answer
    assert live.client.get("/livez").status_code == 200


def test_a_head_that_does_not_come_ends_the_connection(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)
    live = serve_plane(make_plane())
    for data in (b"", b"GET /livez HT"):
        assert talk(live.port, data) == b""


def test_a_connection_serves_several_requests_and_large_bodies(live: Any) -> None:
    body = json.dumps({"content": "a" * 200_000}).encode()
    head = b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    last = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answer = talk(live.port, (head + b"\r\n" + body) * 2 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 3
