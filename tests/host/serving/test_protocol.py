"""Bytes on a connection that are no request, too many or too slow."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from sealhost.host.serving import protocol
from sealhost.host.serving.connections import Crowd
from sealhost.host.serving.unread import UnreadBytes


def talk(port: int, data: bytes) -> bytes:
    """Sends bytes and reads until the server closes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
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
        b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_what_is_no_http_is_400_in_the_one_shape_or_closed(live: Any, data: bytes) -> None:
    head, _, body = talk(live.port, data).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("version", "hosts", "said"),
    [
        (b"1.1", [], "got none"),
        (b"1.1", [b"one", b"two"], "got 2"),
        (b"1.0", [b"one", b"one"], "got 2"),
        (b"1.1", [b"one, two"], "got other letters"),
        (b"1.1", [b"one/path"], "got other letters"),
        (b"1.1", [b"user@one"], "got other letters"),
    ],
)
def test_a_request_without_exactly_one_host_is_400(live: Any, version: bytes, hosts: list[bytes], said: str) -> None:
    lines = [b"POST /tokenize HTTP/" + version, *(b"Host: " + one for one in hosts), b"content-length: 4", b"", b"body"]
    head, _, body = talk(live.port, b"\r\n".join(lines)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert said in json.loads(body)["error"]["message"]


@pytest.mark.parametrize(
    ("version", "hosts"),
    [(b"1.0", []), (b"1.0", [b"x"]), *((b"1.1", [one]) for one in (b"", b"x:80", b"[::1]:8080", b"a-b_c.d~e%20"))],
)
def test_any_one_host_will_do_and_http_1_0_needs_none(live: Any, version: bytes, hosts: list[bytes]) -> None:
    lines = [b"GET /livez HTTP/" + version, *(b"Host: " + one for one in hosts), b"connection: close", b"", b""]
    assert talk(live.port, b"\r\n".join(lines)).startswith(b"HTTP/1.1 200 OK")


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


def test_a_connection_whose_client_sends_anything_but_a_request_ends(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes before a request line, and those of a body that was answered without it, have stopped the clock."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    live = serve_plane(make_plane())
    ask = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
    early = b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 999999\r\n\r\n"
    for first, trickle in ((ask, b"\r\n"), (early, b"x")):
        with socket.create_connection(("127.0.0.1", live.port), timeout=120) as client:
            client.sendall(first)
            assert client.recv(65536).startswith(b"HTTP/1.1 ")
            client.sendall(trickle)
            assert ended(client)


def ended(client: socket.socket) -> bool:
    """Whether the server closes a connection without another word."""
    try:
        return client.recv(65536) == b""
    except ConnectionResetError:
        return True


def test_a_body_that_comes_after_its_answer_does_not_end_the_connection(live: Any) -> None:
    with socket.create_connection(("127.0.0.1", live.port), timeout=120) as client:
        client.sendall(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 404")
        client.sendall(b"body" + b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "offer",
    [
        b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n",
        b"upgrade: websocket\r\nconnection: keep-alive, upgrade\r\nsec-websocket-key: x\r\n",
    ],
)
@pytest.mark.parametrize("pieces", [1, 7])
def test_an_offer_to_upgrade_is_answered_in_http_1_1_with_its_body_read(
    live: Any, capfd: pytest.CaptureFixture[str], offer: bytes, pieces: int
) -> None:
    body = json.dumps({"content": "hi"}).encode()
    head = b"POST /tokenize HTTP/1.1\r\nhost: x\r\n" + offer + b"content-type: application/json\r\n"
    ask = head + b"content-length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", live.port), timeout=120) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for last in (b"", b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: h2c\r\n\r\n"):
            size = len(ask) // pieces
            for at in range(0, len(ask), size):
                client.sendall(ask[at : at + size])
            answer = client.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"tokens": [104, 105]}
            client.sendall(last)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK")
        assert ended(client)
    assert capfd.readouterr().err == ""  # uvicorn would recommend a library for it


def test_what_is_no_http_ends_a_running_answer_and_is_not_answered_in_the_middle_of_it(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    plane = make_plane()
    plane.engine.pause_at = 3
    live = serve_plane(plane)
    body = b'{"prompt": "x", "stream": true}'
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", live.port), timeout=120) as client:
        client.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        answer = client.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        client.sendall(b"no HTTP\r\n\r\n")
        while part := client.recv(65536):
            answer += part
    assert answer.count(b"HTTP/1.1") == 1
    plane.engine.wait_for(lambda engine: engine.cancelled)


@pytest.mark.parametrize("line", [b"CONNECT evil:80 HTTP/1.1", b"GET http://evil:99999/ HTTP/1.1", b"GET ?x HTTP/1.1"])
def test_a_target_that_is_no_path_is_400_and_says_so(live: Any, line: bytes) -> None:
    head, _, body = talk(live.port, line + b"\r\nhost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    message = json.loads(body)["error"]["message"]
    assert message.startswith("expected a ")
    assert message.endswith("check the client")


def unread(port: int, body: dict[str, Any]) -> socket.socket:
    """Sends a request whose answer nobody reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    content = json.dumps(body).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    client.sendall(head + b"content-length: %d\r\n\r\n" % len(content) + content)
    return client


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("stream", "tokens"), [(True, 24_000), (False, 80_000)])  # each more than systems hold
def test_a_client_that_does_not_read_its_answer_loses_the_connection_and_holds_no_model(
    make_plane: Callable[..., Any],
    serve_plane: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    stream: bool,
    tokens: int,
) -> None:
    monkeypatch.setattr(protocol, "READ_SECONDS", 0.2)
    live = serve_plane(make_plane([65] * 80_000, context=90_000))
    with unread(live.port, {"prompt": "x", "max_tokens": tokens, "logprobs": 5, "stream": stream}) as client:
        wait_until(lambda: live.plane.engine.submitted)
        wait_until(lambda: not live._server.server_state.connections)
        wait_until(lambda: not live.plane.registry.holders(live.plane.model))
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := client.recv(1 << 20):
                answer += part
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert (b"[DONE]" in answer, b"completion_tokens" in answer) == (False, False)  # only what the system had taken


class Pipe:
    """A transport and a loop of which only what is used is there; `left` is what the client has not read."""

    def __init__(self) -> None:
        self.left, self.aborted, self.closed, self.timers = 1 << 20, False, False, []

    def get_write_buffer_size(self) -> int:
        return self.left

    def abort(self) -> None:
        self.aborted = True

    def close_now(self) -> None:
        self.closed = True

    def call_later(self, seconds: float, call: Callable[..., None], *arguments: int) -> SimpleNamespace:
        assert seconds == protocol.READ_SECONDS
        self.timers.append(lambda: call(*arguments))
        return SimpleNamespace(cancel=self.timers.clear)

    def pass_time(self) -> None:
        self.timers.pop()()


def test_a_client_that_reads_slowly_is_served_until_it_stops() -> None:
    pipe = Pipe()
    connection = protocol.BoundedHttp(
        Config(lambda *_: None), ServerState(), {}, _loop=pipe, crowd=Crowd(1), unread=UnreadBytes()
    )
    connection.transport, connection.flow = pipe, FlowControl(pipe)
    connection.pause_writing()
    for _ in range(3):
        pipe.left -= protocol.MIN_READ_BYTES
        pipe.pass_time()
        assert not pipe.aborted
    connection.resume_writing()
    assert not pipe.timers
    connection.pause_writing()
    pipe.left -= protocol.MIN_READ_BYTES - 1
    pipe.pass_time()
    assert pipe.aborted


@pytest.mark.parametrize("left", [0, 5])
def test_a_connection_that_gives_way_sends_the_end_of_its_answer_first_but_not_for_ever(left: int) -> None:
    pipe = Pipe()
    pipe.left = left
    connection = protocol.BoundedHttp(
        Config(lambda *_: None), ServerState(), {}, _loop=pipe, crowd=Crowd(1), unread=UnreadBytes()
    )
    connection.transport = pipe
    assert connection.hang_up() == (left == 0)
    assert (pipe.closed, pipe.aborted, len(pipe.timers)) == (True, False, 1 if left else 0)
    if left:
        pipe.pass_time()
        assert pipe.aborted


class Line(asyncio.Transport):
    """A transport to nowhere."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002 — as the base class has it
        return default

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Nothing more comes anyway."""

    def resume_reading(self) -> None:
        """Nor then."""


def test_of_pipelined_requests_the_one_that_runs_learns_that_its_client_went() -> None:
    told: list[str] = []

    async def app(scope: Any, receive: Any, _send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        told.append(scope["path"])

    async def lose_a_connection() -> None:
        state = ServerState()
        config = Config(app, proxy_headers=False, lifespan="off", log_config=None)
        connection = protocol.BoundedHttp(config, state, {}, crowd=Crowd(1), unread=UnreadBytes())
        connection.connection_made(Line())
        connection.data_received(b"GET /first HTTP/1.1\r\nhost: x\r\n\r\nGET /second HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.sleep(0)
        connection.connection_lost(ConnectionResetError())
        await asyncio.wait_for(asyncio.gather(*state.tasks), 120)

    asyncio.run(lose_a_connection())
    assert told == ["/first"]


def test_a_lost_connection_does_not_wait_for_the_garbage_collector() -> None:
    async def lose_a_connection() -> weakref.ref[Any]:
        config = Config(lambda *_: None, proxy_headers=False, lifespan="off", log_config=None)
        connection = protocol.BoundedHttp(config, ServerState(), {}, crowd=Crowd(1), unread=UnreadBytes())
        connection.connection_made(Line())
        connection.connection_lost(ConnectionResetError())
        return weakref.ref(connection)

    gc.disable()
    try:
        assert asyncio.run(lose_a_connection())() is None
    finally:
        gc.enable()


def test_a_connection_serves_several_requests_and_large_bodies(live: Any) -> None:
    body = json.dumps({"content": "a" * 200_000}).encode()
    head = b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    last = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answer = talk(live.port, (head + b"\r\n" + body) * 2 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 3
