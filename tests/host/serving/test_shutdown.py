"""An orderly end, and a port that is taken."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from sealhost.host.errors import HostError
from sealhost.host.serving.server import bind
from sealhost.signing.errors import ExitCode

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}]}


def stream_in_background(url: str, results: list[bytes], **extra: Any) -> threading.Thread:
    def read() -> None:
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            results.append(client.post(CHAT, json=BODY | extra).content)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_streams_that_do_not_finish_in_time_end_with_an_error_event(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    plane = make_plane()
    plane.engine.pause_at = 3
    live = serve_plane(plane, grace=0.3)
    results: list[bytes] = []
    threads = [stream_in_background(live.url, results, stream=stream) for stream in (True, True, True, False)]
    plane.engine.wait_for(lambda engine: len(engine.submitted) == 4)
    live.stop()
    live.join()
    for thread in threads:
        thread.join(120)
    streams = sorted(results, key=len)
    assert all(b"shutting_down" in result for result in results)
    assert [result.endswith(b"data: [DONE]\n\n") for result in streams] == [False, True, True, True]
    assert len(plane.engine.cancelled) == 4


def test_streams_that_finish_in_time_finish_whole(
    make_plane: Callable[..., Any], serve_plane: Callable[..., Any]
) -> None:
    from sealhost.host.serving.served import Phase

    plane = make_plane()
    plane.engine.pause_at = 3
    live = serve_plane(plane, grace=15.0)
    results: list[bytes] = []
    thread = stream_in_background(live.url, results, stream=True)
    plane.engine.wait_for(lambda engine: len(engine.submitted) == 1)
    live.stop()
    stopping = threading.Event()
    watcher = threading.Thread(target=lambda: (_until(lambda: plane.registry.phase is Phase.STOPPING), stopping.set()))
    watcher.start()
    assert stopping.wait(120)
    plane.engine.resume()
    live.join()
    thread.join(120)
    watcher.join(120)
    assert b'"finish_reason":"stop"' in results[0]
    assert b"error" not in results[0]
    assert plane.engine.cancelled == []


def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        threading.Event().wait(0.01)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", None), ("no.such.host.invalid", 1), ("203.0.113.1", 0)])
def test_an_address_that_cannot_be_taken_is_refused_with_a_remedy(host: str, port: int | None) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(HostError, match=r"E_IO .*expected to listen there.*--port") as caught:
            bind(host, other.getsockname()[1] if port is None else port)
    assert caught.value.exit_code is ExitCode.IO
